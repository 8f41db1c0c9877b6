package tied

import (
	"os/exec"
	"runtime"
	"syscall"
)

// start starts a program that the kernel ends when this process ends. It
// does so when the thread ends that started it, so that one is kept. A signal
// of the terminal does not reach the program: this process decides when it ends.
func start(cmd *exec.Cmd) (<-chan error, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	return ended, <-started
}
