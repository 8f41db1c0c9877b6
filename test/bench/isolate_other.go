//go:build !linux

package main

import (
	"errors"
	"syscall"
)

// isolate needs Linux: network namespaces, and CPU time per thread.
func isolate() (ran bool, err error) {
	return true, errors.New("this needs Linux: a network of its own, and the CPU time of a thread")
}

func diesWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
