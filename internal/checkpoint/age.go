package checkpoint

import (
	"maps"
	"path/filepath"
	"slices"
	"time"
)

// Age makes the checkpoint in a folder that no process has open one that was
// written earlier by a duration, with the key in that folder. It is for tests
// of what an old checkpoint does.
func Age(dir string, by time.Duration) error {
	key, err := readKey(filepath.Join(dir, keyName))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, fileName)
	l, found, err := openLog(path, key)
	if err != nil {
		return err
	}
	l.close()
	records := func(yield func(record, error) bool) {
		for _, table := range slices.Sorted(maps.Keys(found.tables)) {
			for _, r := range found.of(table) {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
	if l, err = createLog(path, key, found.at.Add(-by), records); err == nil {
		l.close()
	}
	return err
}
