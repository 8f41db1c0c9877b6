//go:build !linux

package tied

import "os/exec"

// start starts a program. Where there is no lab, nothing gets here.
func start(cmd *exec.Cmd) (<-chan error, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}
