package lab

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// request is one line of JSON that opens a connection to control.sock. An exec
// carries three file descriptors with it, and signals may follow.
type request struct {
	Op   string   `json:"op"` // status, cut, heal, pause, kill-edge, kill-member, kill-hub, exec, down
	Name string   `json:"name,omitempty"`
	Part Part     `json:"part,omitempty"`
	Mode Mode     `json:"mode,omitempty"`
	Argv []string `json:"argv,omitempty"` // the first is an absolute path
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`
}

// signalMessage follows an exec.
type signalMessage struct {
	Signal int `json:"signal"`
}

// response is the answer, one line of JSON.
type response struct {
	Error  string  `json:"error,omitempty"`
	Exit   int     `json:"exit"`
	Status *Status `json:"status,omitempty"`
}

// event is what the supervisor tells the process that started it.
type event struct {
	Step        *Step  `json:"step,omitempty"`
	Ready       bool   `json:"ready,omitempty"`
	Failed      string `json:"failed,omitempty"`
	Unsupported string `json:"unsupported,omitempty"`
}

const socketName = "control.sock"

// shortSocket is a path of dir's control socket that fits into a socket
// address, which has room for some hundred bytes only. release frees it.
func shortSocket(dir string) (path string, release func(), err error) {
	path = filepath.Join(dir, socketName)
	if len(path) < 100 {
		return path, func() {}, nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), socketName), func() { d.Close() }, nil
}

// dialControl connects to the lab in dir.
func dialControl(dir string) (*net.UnixConn, error) {
	path, release, err := shortSocket(dir)
	if err == nil {
		defer release()
		var c *net.UnixConn
		if c, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"}); err == nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no lab runs in %s: start one with `spillway lab up --dir %s`", dir, dir)
}

// ask sends a request and waits for the answer.
func ask(c net.Conn, r request) (response, error) {
	var resp response
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return resp, fmt.Errorf("ask the lab: %w", err)
	}
	return answer(json.NewDecoder(c))
}

func answer(d *json.Decoder) (response, error) {
	var resp response
	if err := d.Decode(&resp); err != nil {
		return resp, fmt.Errorf("the lab ended meanwhile: %w", err)
	}
	if resp.Error != "" {
		return resp, fmt.Errorf("%s", resp.Error)
	}
	return resp, nil
}
