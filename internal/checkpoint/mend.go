package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// mend puts back what somebody took away while we run: the folder, the lock, the
// key, the file. What the file held can still be read from the one that is open.
// If another process has the folder by now, nothing of it is touched.
func (s *Store) mend() error {
	locked, err := isAt(s.lock, filepath.Join(s.Dir, lockName))
	if err != nil {
		return err
	}
	if !locked {
		lock, err := takeFolder(s.Dir)
		if err != nil {
			return err
		}
		_ = s.lock.Close()
		s.lock = lock
	}
	if s.file == nil {
		return nil
	}
	there, err := isAt(s.file.file, s.path())
	switch {
	case err != nil:
		return err
	case there:
		return s.uncut()
	}
	if _, err := os.Stat(s.KeyFile); errors.Is(err, os.ErrNotExist) {
		if err := writeKey(s.KeyFile, s.key); err != nil {
			return fmt.Errorf("key: %w", err)
		}
	}
	if err := s.compact(); err != nil {
		return err
	}
	s.counts.wrote(s.file.size, s.Now())
	s.counts.lost.Add(1)
	s.Log.Warn("somebody took the checkpoint away while it is in use: it is written anew", "file", s.path())
	return nil
}

// uncut looks whether the file has what was written to it. What it lacks is known
// to the tables alone.
func (s *Store) uncut() error {
	at, err := s.file.file.Stat()
	if err != nil || at.Size() >= s.file.size {
		return err
	}
	return s.restart()
}

// restart has all rows written to a file of its own, as soon as the tables were
// asked for them.
func (s *Store) restart() error {
	s.file.close()
	s.file = nil
	s.mu.Lock()
	s.short = true
	s.mu.Unlock()
	s.counts.lost.Add(1)
	if s.Ask != nil {
		s.Ask()
	}
	return errCut
}

// isAt tells whether a file that is open is the one at a path.
func isAt(f *os.File, path string) (bool, error) {
	open, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(open, there), err
}
