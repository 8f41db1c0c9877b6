//go:build unix

package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// streams are the three files a command in a place gets. What is no file is
// copied through a pipe.
type streams struct {
	files  [3]*os.File
	mine   []*os.File // the ends to close once they are handed over
	keep   []*os.File // our ends of the pipes
	stdin  func()
	copies sync.WaitGroup
}

func openStreams(stdin io.Reader, stdout, stderr io.Writer) (*streams, error) {
	s := &streams{stdin: func() {}}
	if err := s.input(stdin); err != nil {
		s.close()
		return nil, err
	}
	err := s.output(1, stdout)
	switch {
	case err != nil:
	case stderr != nil && same(stdout, stderr):
		s.files[2] = s.files[1] // one writer is written to from one goroutine
	default:
		err = s.output(2, stderr)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// same compares two writers; those that can't be compared differ.
func same(a, b io.Writer) (equal bool) {
	defer func() { _ = recover() }()
	return a == b
}

func (s *streams) null(i int) (err error) {
	s.files[i], err = os.OpenFile(os.DevNull, os.O_RDWR, 0)
	s.mine = append(s.mine, s.files[i])
	return err
}

func (s *streams) input(r io.Reader) error {
	if r == nil {
		return s.null(0)
	}
	if f, ok := r.(*os.File); ok {
		s.files[0] = f
		return nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	s.files[0], s.mine, s.keep = read, append(s.mine, read), append(s.keep, write)
	// Not waited for: the reader may never end, the command may not care.
	s.stdin = func() { _, _ = io.Copy(write, r); write.Close() }
	return nil
}

func (s *streams) output(i int, w io.Writer) error {
	if w == nil {
		return s.null(i)
	}
	if f, ok := w.(*os.File); ok {
		s.files[i] = f
		return nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	s.files[i], s.mine, s.keep = write, append(s.mine, write), append(s.keep, read)
	s.copies.Go(func() { _, _ = io.Copy(w, read) })
	return nil
}

// handOver closes our copies of what the command has now and starts to feed it.
func (s *streams) handOver() {
	for _, f := range s.mine {
		f.Close()
	}
	s.mine = nil
	go s.stdin()
}

// drain waits for the last output.
func (s *streams) drain() { s.copies.Wait() }

func (s *streams) close() {
	for _, f := range append(s.mine, s.keep...) {
		f.Close()
	}
}

// sendFiles sends a request with open files.
func sendFiles(c *net.UnixConn, r request, files []*os.File) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	n, _, err := c.WriteMsgUnix(b, syscall.UnixRights(fds...), nil)
	if err == nil && n < len(b) {
		_, err = c.Write(b[n:])
	}
	if err != nil {
		return fmt.Errorf("ask the lab: %w", err)
	}
	return nil
}
