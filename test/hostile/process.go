package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// serveOf finds the control plane, a child of the soak.
func serveOf(parent int) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		args := bytes.Split(text, []byte{0})
		if err != nil || len(args) < 2 || string(args[1]) != "serve" { // it may have ended
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if f := statOf(pid); err == nil && len(f) > 1 && f[1] == strconv.Itoa(parent) {
			return pid, nil
		}
	}
	return 0, errors.New("the soak has no `spillway serve`")
}

// statOf are the fields of a process from its state on (proc_pid_stat(5)), none if it is not there.
func statOf(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)
}

// cpuOf is the CPU time of a process so far, 0 if it is not there.
func cpuOf(pid int) time.Duration {
	f := statOf(pid)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * time.Second / 100 // USER_HZ
}

// resident is a process's resident memory in bytes, 0 if it is not there
// (proc_pid_statm(5)).
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	f := strings.Fields(string(text))
	if err != nil || len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// dropsAt is how many packets the UDP sockets at an address have lost so far.
func dropsAt(address string) int64 {
	text, err := os.ReadFile("/proc/net/udp")
	if err != nil {
		return 0
	}
	return drops(string(text), address)
}

// drops reads /proc/net/udp, of which the second field is the local address and
// the last the packets that found no room.
func drops(table, address string) (out int64) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Is4() {
		return 0
	}
	b := at.Addr().As4()
	local := strings.ToUpper(hex.EncodeToString([]byte{b[3], b[2], b[1], b[0]})) + fmt.Sprintf(":%04X", at.Port())
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 12 && f[1] == local {
			n, _ := strconv.ParseInt(f[len(f)-1], 10, 64)
			out += n
		}
	}
	return out
}
