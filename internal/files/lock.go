package files

import (
	"errors"
	"os"
)

// ErrHeld says that somebody has the lock.
var ErrHeld = errors.New("in use by another process")

// Lock opens a file, made with mode 0600 where there is none, and locks it. The
// lock ends when the file is closed, or with the process. The error wraps ErrHeld
// where somebody has it, be it this process.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
