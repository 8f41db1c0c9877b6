//go:build !linux

package demo

import "os/exec"

// startTied starts a program. Where there is no lab, nothing gets here.
func startTied(cmd *exec.Cmd) (<-chan error, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}
