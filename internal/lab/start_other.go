//go:build !linux

package lab

import (
	"errors"
	"runtime"

	"github.com/spf13/cobra"
)

type supervisorProcess struct{}

func startSupervisor(Spec) (*supervisorProcess, error) {
	return nil, &Unsupported{Reason: "it needs Linux network namespaces and this is " + runtime.GOOS}
}

func (*supervisorProcess) await(func(Step)) error { return errors.ErrUnsupported }
func (*supervisorProcess) end()                   {}
func (*supervisorProcess) close() error           { return nil }
func (*supervisorProcess) done() <-chan struct{}  { return nil }

func (*supervisorProcess) inPeace() bool { return false }

func hiddenCommands() []*cobra.Command { return nil }
