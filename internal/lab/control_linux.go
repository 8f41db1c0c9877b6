package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// control serves control.sock.
type control struct {
	s  *supervisor
	l  *net.UnixListener
	wg sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // that are ended with the control; those that asked for the end of the lab are not
}

func (s *supervisor) serveControl(ctx context.Context) (*control, error) {
	path, release, err := shortSocket(s.spec.Dir)
	if err != nil {
		return nil, err
	}
	defer release()
	mask := syscall.Umask(0o177)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	syscall.Umask(mask)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // the path may be short-lived; clean removes it
	c := &control{s: s, l: l, conns: map[net.Conn]bool{}}
	c.wg.Go(func() { c.accept(ctx) })
	return c, nil
}

func (c *control) accept(ctx context.Context) {
	for {
		conn, err := c.l.AcceptUnix()
		if err != nil {
			return
		}
		c.mu.Lock()
		c.conns[conn] = true
		c.mu.Unlock()
		c.wg.Go(func() {
			down := c.serve(ctx, conn)
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.conns, conn)
			if down {
				c.s.asked = append(c.s.asked, conn)
				c.s.stop()
				return
			}
			conn.Close()
		})
	}
}

// close ends what is asked for and waits for that; a connection that asked for
// the end of the lab stays open until the process ends.
func (c *control) close() {
	c.l.Close()
	c.mu.Lock()
	for conn := range c.conns {
		conn.Close()
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// serve answers one request; true when that was for the end of the lab.
func (c *control) serve(ctx context.Context, conn *net.UnixConn) (down bool) {
	buf, oob := make([]byte, 64<<10), make([]byte, syscall.CmsgSpace(3*4))
	n, oobn, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil || n == 0 {
		return false
	}
	files := received(oob[:oobn])
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	in := json.NewDecoder(io.MultiReader(bytes.NewReader(buf[:n]), conn))
	var r request
	if err := in.Decode(&r); err != nil {
		return false
	}
	resp, err := c.do(ctx, r, files, in)
	if err != nil {
		resp.Error = err.Error()
	}
	_ = json.NewEncoder(conn).Encode(resp)
	return r.Op == "down"
}

func (c *control) do(ctx context.Context, r request, files []*os.File, in *json.Decoder) (resp response, err error) {
	s := c.s
	switch r.Op {
	case "status":
		st := s.status()
		return response{Status: &st}, nil
	case "exec":
		return s.exec(ctx, r, files, in)
	case "down":
		return resp, nil
	case "cut":
		err = s.cut(r.Name, r.Part, r.Mode)
	case "heal":
		err = s.heal(r.Name)
	case "pause":
		err = s.pause(r.Name)
	case "kill-edge":
		err = s.killEdge(r.Name)
	case "kill-member":
		err = s.killMember(r.Name)
	case "kill-hub":
		err = s.killHub()
	default:
		return resp, fmt.Errorf("this lab knows no %q: it may be of another version", r.Op)
	}
	s.log.Info("asked", "op", r.Op, "name", r.Name, "part", r.Part, "mode", r.Mode, "error", err)
	s.save()
	return resp, err
}

// received takes the open files out of a control message.
func received(oob []byte) []*os.File {
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var out []*os.File
	for _, m := range msgs {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			out = append(out, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return out
}

// exec runs a command in a place until it ends, the client goes away or the
// lab ends. Its process group dies with it.
func (s *supervisor) exec(ctx context.Context, r request, files []*os.File, in *json.Decoder) (resp response, err error) {
	p := s.place(r.Name)
	if p == nil {
		return resp, fmt.Errorf("no place %q: `spillway lab status` lists them", r.Name)
	}
	if len(files) != 3 || len(r.Argv) == 0 {
		return resp, errors.New("an exec needs a command and three open files")
	}
	cmd := &exec.Cmd{
		Path: r.Argv[0], Args: r.Argv, Env: r.Env, Dir: r.Dir, Stdin: files[0], Stdout: files[1], Stderr: files[2],
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if err := p.space.Start(cmd); err != nil {
		return resp, err
	}
	for _, f := range files {
		f.Close()
	}
	pid := cmd.Process.Pid
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
	defer stop()
	over := make(chan struct{})
	go signalsTo(pid, in, over)
	err = cmd.Wait()
	close(over)
	_ = syscall.Kill(-pid, syscall.SIGKILL) // what it left in the background
	resp.Exit = cmd.ProcessState.ExitCode()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		resp.Exit = 128 + int(ws.Signal())
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return resp, err
}

// signalsTo passes the client's signals on, and kills when the client is gone.
func signalsTo(pid int, in *json.Decoder, over <-chan struct{}) {
	for {
		var m signalMessage
		err := in.Decode(&m)
		select {
		case <-over:
			return
		default:
		}
		if err != nil {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
			return
		}
		_ = syscall.Kill(-pid, syscall.Signal(m.Signal))
	}
}

func (s *supervisor) place(name string) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places {
		if p != nil && p.name == name {
			return p
		}
	}
	return nil
}
