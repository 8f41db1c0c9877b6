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

	"github.com/spillway-dev/spillway/internal/files"
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
	run  *os.File // the open directory run/, where its own path is too long
}

// openDataDir makes path when absent and takes its lock.
func openDataDir(path string) (*dataDir, error) {
	for _, d := range []string{path, filepath.Join(path, "pki"), filepath.Join(path, "etcd"), filepath.Join(path, "run")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, dirError(path, err)
		}
	}
	lock, err := files.Lock(filepath.Join(path, "lock"))
	switch {
	case errors.Is(err, files.ErrHeld):
		return nil, fmt.Errorf("data directory %s is in use by another process: stop that one, or give another --data-dir", path)
	case err != nil:
		return nil, dirError(path, err)
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
	if d.run != nil {
		d.run.Close()
	}
	d.lock.Close()
}

func (d *dataDir) pki(name string) string { return filepath.Join(d.path, "pki", name) }

// sockets returns run/, by a path that is short enough for unix sockets: where
// its own is not, by that of an open file, which Linux has.
func (d *dataDir) sockets() (string, error) {
	run := filepath.Join(d.path, "run")
	if len(filepath.Join(run, "etcd.sock")) <= maxSocketPath {
		return run, nil
	}
	var err error
	if d.run, err = os.Open(run); err != nil {
		return "", dirError(d.path, err)
	}
	short := fmt.Sprintf("/proc/self/fd/%d", d.run.Fd())
	if _, err := os.Stat(short); err != nil {
		return "", fmt.Errorf("data directory %s is too long a path for unix sockets: give a shorter --data-dir", d.path)
	}
	return short, nil
}

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
	if err := files.Replace(kept, []byte(port+"\n"), 0o600); err != nil {
		l.Close()
		return nil, dirError(d.path, err)
	}
	return l, nil
}
