package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/vishvananda/netlink"
)

// isolatedEnv marks the process that runs in the private network.
const isolatedEnv = "SPILLWAY_BENCH_ISOLATED"

// isolate runs this command again in a network namespace of its own, where
// there is nothing but loopback: what the made-up endpoints of the fleet are
// called leads nowhere. It reports false in the process that is in it already.
func isolate() (ran bool, err error) {
	if os.Getenv(isolatedEnv) != "" {
		return false, localAddresses()
	}
	self, err := os.Executable()
	if err != nil {
		return true, err
	}
	cmd := exec.CommandContext(context.Background(), self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), isolatedEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	signal.Ignore(os.Interrupt) // the child gets it too
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState != nil {
			os.Exit(cmd.ProcessState.ExitCode())
		}
		return true, fmt.Errorf("a network namespace of its own: %w (it needs root, or user namespaces)", err)
	}
	return true, nil
}

// localAddresses brings loopback up and makes the addresses of the real
// servers local.
func localAddresses() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("loopback up: %w", err)
	}
	_, network, err := net.ParseCIDR(realNetwork)
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: network, Type: syscall.RTN_LOCAL, Scope: netlink.SCOPE_HOST, Table: syscall.RT_TABLE_LOCAL}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("route of %s: %w", realNetwork, err)
	}
	return nil
}

// diesWithParent is for processes that must not outlive this one.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
