package apiserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// maxSocketPath is the longest unix socket path that every system takes: 104
// bytes on BSD and macOS, 108 on Linux, less the final zero.
const maxSocketPath = 103

// dataDir is a data directory held by this process. Its parts:
//
//	lock          held with flock while in use
//	port          the port that was picked, in decimal
//	pki/          CA, certificates and keys
//	etcd/         the database
//	run/          unix sockets of the database
type dataDir struct {
	path string
	lock *os.File
	link string // temporary short way to run/, "" if not needed
}

// openDataDir makes path when absent and takes its lock.
func openDataDir(path string) (*dataDir, error) {
	for _, d := range []string{path, filepath.Join(path, "pki"), filepath.Join(path, "etcd"), filepath.Join(path, "run")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, dirError(path, err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, dirError(path, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by another process: stop that one, or give another --data-dir", path)
		}
		return nil, fmt.Errorf("lock data directory %s: %w", path, err)
	}
	return &dataDir{path: path, lock: lock}, nil
}

func dirError(path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("data directory %s can't be written (%w): change its owner or mode, or give another --data-dir", path, err)
}

// close gives the directory up.
func (d *dataDir) close() {
	if d.link != "" {
		os.RemoveAll(d.link)
	}
	d.lock.Close()
}

func (d *dataDir) pki(name string) string { return filepath.Join(d.path, "pki", name) }

// sockets returns a directory for unix sockets: run/ itself, or where its path
// is too long for a socket, a link to it from the temporary directory.
func (d *dataDir) sockets() (string, error) {
	run := filepath.Join(d.path, "run")
	if fits(run) {
		return run, nil
	}
	tmp, err := os.MkdirTemp("", "spillway-")
	if err != nil {
		return "", fmt.Errorf("data directory %s is too long a path for unix sockets, and no short one can be made: %w", d.path, err)
	}
	d.link = tmp
	short := filepath.Join(tmp, "run")
	if !fits(short) {
		return "", fmt.Errorf("data directory %s is too long a path for unix sockets, and so is %s: give a shorter --data-dir or set TMPDIR", d.path, tmp)
	}
	if err := os.Symlink(run, short); err != nil {
		return "", fmt.Errorf("short path for unix sockets: %w", err)
	}
	return short, nil
}

func fits(dir string) bool { return len(filepath.Join(dir, "etcd.sock")) <= maxSocketPath }

// listen binds addr. Port 0 is the port of the last start, or where there was
// none, a free one, which is then kept.
func (d *dataDir) listen(addr netip.AddrPort) (*net.TCPListener, error) {
	kept := filepath.Join(d.path, "port")
	hint := "give another --port, or 0 for a free one"
	if addr.Port() == 0 {
		if b, err := os.ReadFile(kept); err == nil {
			port, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 16)
			if err != nil {
				return nil, fmt.Errorf("%s does not hold a port: remove it to pick a new one", kept)
			}
			addr = netip.AddrPortFrom(addr.Addr(), uint16(port))
			hint = fmt.Sprintf("stop that process, or give another --port (this one is kept in %s)", kept)
		}
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("address %s is in use by another process: %s", addr, hint)
	}
	if err != nil {
		return nil, fmt.Errorf("address %s can't be used: %w", addr, err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if err := writeFile(kept, []byte(port+"\n"), 0o600); err != nil {
		l.Close()
		return nil, dirError(d.path, err)
	}
	return l, nil
}

// writeFile replaces a file whole: readers see the old or the new content.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
