package kubelet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Runtime makes sandboxes on this machine.
type Runtime interface {
	// Sandbox makes a pod's network with these addresses. It may block for
	// some milliseconds.
	Sandbox(hostname string, addrs []netip.Addr) (Sandbox, error)
}

// Sandbox is one pod's network and what runs in it.
type Sandbox interface {
	// Start starts a program in the pod.
	Start(Program) (Running, error)
	// Dial connects from inside the pod, over TCP.
	Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// Close kills everything in the pod and frees its network.
	Close()
}

// Program is what a container runs.
type Program struct {
	Name   string
	Argv   []string // the first is a path, or a name to be found in the usual folders
	Env    []string
	Dir    string
	Mounts []Mount
	Log    string // file that takes its output; empty: nothing does
}

// Mount puts a file or folder of this machine into a container.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Running is a started program.
type Running interface {
	Done() <-chan struct{} // closed when it has ended
	Exit() Exit            // valid once Done is closed
	Terminate()            // SIGTERM
	Kill()                 // SIGKILL to it and all its children
}

// Exit is how a program ended.
type Exit struct {
	Code   int // 128 + signal, as a shell says
	Signal int
}

// Images maps an image name to a local program and its first arguments,
// separated by spaces. A tag or digest in a pod's image is ignored unless the
// map has it.
type Images map[string]string

// Argv is the command line of a container. As the program stands for the
// image, a container's own command replaces its arguments and the first word
// of the command, which names a file of the real image, is left out.
func (m Images) Argv(image string, command, args []string) ([]string, error) {
	program, ok := m[image]
	if !ok {
		program, ok = m[repository(image)]
	}
	if !ok {
		return nil, fmt.Errorf("no local program stands for image %q: start the lab with --image %s=PATH", image, repository(image))
	}
	argv := strings.Fields(program)
	if len(command) > 0 {
		argv = append(argv[:1], command[1:]...)
	}
	return append(argv, args...), nil
}

// repository is an image name without tag and digest.
func repository(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	return name
}
