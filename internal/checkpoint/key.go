package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// readKey reads the key, 64 hexadecimal digits, and makes one if there is none.
func readKey(path string) ([keySize]byte, error) {
	var key [keySize]byte
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return makeKey(path)
	}
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

// makeKey writes a new key, whole or not at all.
func makeKey(path string) ([keySize]byte, error) {
	var key [keySize]byte
	if _, err := rand.Read(key[:]); err != nil {
		return key, err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, []byte(hex.EncodeToString(key[:])+"\n"), keepFile); err != nil {
		return key, err
	}
	if err := os.Chmod(temporary, keepFile); err != nil {
		return key, err
	}
	if err := os.Rename(temporary, path); err != nil {
		return key, err
	}
	return key, syncDir(filepath.Dir(path))
}
