package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spillway-dev/spillway/internal/files"
)

// readKey is the key of the store, a new one if there is none. Where the key was
// put elsewhere, one that is missing is more likely not there yet, as a volume that
// is not mounted: with a new one, what is here could not be read any more.
func (s *Store) readKey() ([keySize]byte, error) {
	key, err := readKey(s.KeyFile)
	if !errors.Is(err, os.ErrNotExist) {
		return key, err
	}
	_, there := os.Stat(s.path())
	if there == nil && s.KeyFile != filepath.Join(s.Dir, keyName) {
		return key, fmt.Errorf("%w, and %s was written with it: put it back, or delete that file to start without", err, s.path())
	}
	if _, err := rand.Read(key[:]); err != nil {
		return key, err
	}
	return key, writeKey(s.KeyFile, key)
}

// readKey reads a key, 64 hexadecimal digits.
func readKey(path string) ([keySize]byte, error) {
	var key [keySize]byte
	text, err := os.ReadFile(path)
	if err != nil {
		return key, err
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != keySize {
		return key, fmt.Errorf("it must hold %d hexadecimal digits: delete it to start with a new one", 2*keySize)
	}
	copy(key[:], raw)
	return key, nil
}

// writeKey writes a key, whole or not at all.
func writeKey(path string, key [keySize]byte) error {
	return files.Replace(path, []byte(hex.EncodeToString(key[:])+"\n"), keepFile)
}
