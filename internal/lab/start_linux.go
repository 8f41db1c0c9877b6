package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func hiddenCommands() []*cobra.Command { return []*cobra.Command{supervisorCommand()} }

// Descriptors of the supervisor: it reads its Spec, and later the end of its
// parent, from the first and writes events to the second.
const (
	specFD  = 3
	eventFD = 4
)

// logName is the supervisor's own log.
const logName = "lab.log"

// supervisorProcess is the running supervisor as its parent sees it.
type supervisorProcess struct {
	cmd    *exec.Cmd
	spec   *os.File // closing it ends the lab
	events *os.File
	gone   chan struct{}
	once   sync.Once
	log    string
}

// startSupervisor starts the supervisor in namespaces of its own.
func startSupervisor(spec Spec) (*supervisorProcess, error) {
	logs := filepath.Join(spec.Dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, err
	}
	logFile := filepath.Join(logs, logName)
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) // the supervisor empties it once the folder is its own
	if err != nil {
		return nil, err
	}
	defer log.Close()
	specRead, specWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer specRead.Close()
	eventRead, eventWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, specWrite.Close())
	}
	defer eventWrite.Close()
	p := &supervisorProcess{spec: specWrite, events: eventRead, gone: make(chan struct{}), log: logFile}
	p.cmd = &exec.Cmd{
		Path: spec.Binary, Args: []string{spec.Binary, supervisorName}, Stdout: log, Stderr: log,
		ExtraFiles: []*os.File{specRead, eventWrite}, SysProcAttr: namespaces(),
	}
	if err := p.start(); err != nil {
		return nil, errors.Join(diagnose(err), specWrite.Close(), eventRead.Close())
	}
	if err := json.NewEncoder(specWrite).Encode(spec); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// namespaces asks for what the supervisor needs: to be somebody who may make
// network namespaces, and to be the first of its processes, whose end the
// kernel makes the end of all.
func namespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL, Setsid: true,
	}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// start starts the process on a thread that lives until it has ended: the
// parent-death signal is about the thread, not the process.
func (p *supervisorProcess) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.gone)
		}
		runtime.UnlockOSThread()
	}()
	return <-started
}

// diagnose turns a refusal to make namespaces into an Unsupported and leaves
// other errors, and nil, as they are.
func diagnose(err error) error {
	for _, refusal := range []error{unix.EPERM, unix.EACCES, unix.ENOSPC, unix.EINVAL, unix.ENOSYS} {
		if errors.Is(err, refusal) {
			return &Unsupported{Reason: whyNot(os.Geteuid() == 0, readSetting, err)}
		}
	}
	return err
}

func readSetting(name string) string {
	b, err := os.ReadFile(filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/")))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// await passes on progress until the lab is ready or has failed.
func (p *supervisorProcess) await(progress func(Step)) error {
	in := bufio.NewScanner(p.events)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return fmt.Errorf("the lab's supervisor said %q: see %s", in.Text(), p.log)
		}
		switch {
		case e.Step != nil:
			progress(*e.Step)
		case e.Ready:
			return nil
		case e.Unsupported != "":
			return &Unsupported{Reason: e.Unsupported}
		case e.Failed != "":
			return errors.New(e.Failed)
		}
	}
	return fmt.Errorf("the lab's supervisor ended at start: see %s", p.log)
}

// end asks the supervisor to end.
func (p *supervisorProcess) end() { p.once.Do(func() { p.spec.Close() }) }

// close ends the supervisor, by force when it does not, and waits for it.
func (p *supervisorProcess) close() error {
	p.end()
	defer p.events.Close()
	t := time.NewTimer(closePatience)
	defer t.Stop()
	select {
	case <-p.gone:
	case <-t.C:
		_ = p.cmd.Process.Kill()
		<-p.gone
		return fmt.Errorf("the lab did not end by itself and was killed: see %s", p.log)
	}
	return nil
}

func (p *supervisorProcess) done() <-chan struct{} { return p.gone }

// inPeace tells, once it is gone, that it was asked to end.
func (p *supervisorProcess) inPeace() bool { return p.cmd.ProcessState.Success() }
