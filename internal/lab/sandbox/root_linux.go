package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/spillway-dev/spillway/internal/lab/kubelet"
)

// root is a container's root folder while it is made. All of it happens in the
// mount namespace of the calling thread.
type root struct {
	path string
	own  map[uint64]bool // devices of the tmpfs that were made for it
}

// buildRoot makes a container's root folder at path: a mirror of / with the
// mounts added.
func buildRoot(path string, mounts []kubelet.Mount) error {
	r := root{path: path, own: map[uint64]bool{}}
	if err := r.mirror("/", path); err != nil {
		return err
	}
	for _, m := range mounts {
		if err := r.mount(m); err != nil {
			return fmt.Errorf("mount at %s: %w", m.Target, err)
		}
	}
	return nil
}

// mirror puts a tmpfs at target and binds every entry of source into it.
// Source may be what target was before.
func (r root) mirror(source, target string) error {
	entries, err := os.ReadDir(source)
	if err != nil {
		return err
	}
	fd, err := unix.Open(source, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Mount("tmpfs", target, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("tmpfs: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(target, &st); err != nil {
		return err
	}
	r.own[st.Dev] = true
	hidden := fmt.Sprintf("/proc/self/fd/%d", fd) // what source was before the tmpfs
	for _, e := range entries {
		from, to := filepath.Join(hidden, e.Name()), filepath.Join(target, e.Name())
		switch {
		case e.Type()&os.ModeSymlink != 0:
			link, err := os.Readlink(from)
			if err != nil {
				return err
			}
			if err := os.Symlink(link, to); err != nil {
				return err
			}
		case e.IsDir(), e.Type().IsRegular():
			if err := bind(from, to, e.IsDir()); err != nil {
				return err
			}
		}
	}
	return nil
}

// bind makes the mount point and mounts.
func bind(from, to string, dir bool) error {
	err := error(nil)
	if dir {
		err = os.Mkdir(to, 0o755)
	} else {
		err = os.WriteFile(to, nil, 0o644)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", from, err)
	}
	return nil
}

// mount binds one volume into the root. A target that does not exist gets its
// mount point in a mirror of the deepest folder that does.
func (r root) mount(m kubelet.Mount) error {
	st, err := os.Stat(m.Source)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(m.Target) {
		return errors.New("the path is not absolute")
	}
	target, err := resolve(filepath.Clean(m.Target))
	if err != nil {
		return err
	}
	full := filepath.Join(r.path, target)
	if _, err := os.Stat(full); err != nil {
		if err := r.makePoint(target, st.IsDir()); err != nil {
			return err
		}
	}
	if err := unix.Mount(m.Source, full, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if m.ReadOnly {
		return readOnly(full)
	}
	return nil
}

// readOnly keeps the flags that the mount has: in a user namespace they are
// locked, and leaving one out is refused.
func readOnly(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return err
	}
	flags := uintptr(unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY)
	for _, f := range []struct{ st, ms uintptr }{
		{unix.ST_NOSUID, unix.MS_NOSUID}, {unix.ST_NODEV, unix.MS_NODEV}, {unix.ST_NOEXEC, unix.MS_NOEXEC},
		{unix.ST_NOATIME, unix.MS_NOATIME}, {unix.ST_NODIRATIME, unix.MS_NODIRATIME}, {unix.ST_RELATIME, unix.MS_RELATIME},
	} {
		if uintptr(st.Flags)&f.st != 0 {
			flags |= f.ms
		}
	}
	return unix.Mount("", path, "", flags, "")
}

// resolve follows the links in the part of a path that exists on the machine,
// which an absolute link would lead out of the root.
func resolve(path string) (string, error) {
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		existing, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(existing, rest), nil
		}
		if !errors.Is(err, os.ErrNotExist) || dir == "/" {
			return "", err
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// makePoint makes a mount point at target.
func (r root) makePoint(target string, dir bool) error {
	parts := strings.Split(strings.TrimPrefix(target, "/"), "/")
	base := r.path
	for len(parts) > 1 {
		next := filepath.Join(base, parts[0])
		if _, err := os.Stat(next); err != nil {
			break
		}
		base, parts = next, parts[1:]
	}
	var st unix.Stat_t
	if err := unix.Stat(base, &st); err != nil {
		return err
	}
	if !r.own[st.Dev] { // the machine's own folder, or a volume: leave it as it is
		if err := r.mirror(base, base); err != nil {
			return err
		}
	}
	point := filepath.Join(append([]string{base}, parts...)...)
	if dir {
		return os.MkdirAll(point, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(point), 0o755); err != nil {
		return err
	}
	return os.WriteFile(point, nil, 0o644)
}
