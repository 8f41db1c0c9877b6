package lab

import (
	"errors"
	"fmt"
	"time"
)

// Part is what `cut` cuts of a member.
type Part string

// The parts of a member: its API as users and the control plane reach it, its
// pods as everything outside of it reaches them, or both.
const (
	PartAPI  Part = "api"
	PartData Part = "data"
	PartBoth Part = "both"
)

// Mode is how a cut behaves.
type Mode string

// Drop answers nothing: connections hang. Refuse answers with resets.
const (
	ModeDrop   Mode = "drop"
	ModeRefuse Mode = "refuse"
)

// Step is one report of a lab that starts.
type Step struct {
	Name    string        `json:"name"` // such as "network", "hub", "member eu-1", "edge eu"
	Done    bool          `json:"done"` // false: begun
	Elapsed time.Duration `json:"elapsed"`
}

// Status is what a lab consists of and how it does. It is also what DIR/lab.json
// holds, as of the last start, end, cut or healing; process costs there are of
// that moment.
type Status struct {
	PID     int            `json:"pid"` // of the supervisor
	Started time.Time      `json:"started"`
	Dir     string         `json:"dir"`
	Usage   Usage          `json:"usage"` // of the supervisor, which is also router and kubelets
	Hub     *APIStatus     `json:"hub,omitempty"`
	Members []MemberStatus `json:"members"`
	Edges   []EdgeStatus   `json:"edges"`
	Places  []PlaceStatus  `json:"places"`
	XDSPort int            `json:"xdsPort"` // where the edges expect the control plane on 127.0.0.1 of the host
	DNSPort int            `json:"dnsPort"` // where the places expect our DNS server on 127.0.0.1 of the host
}

// Usage is what a process has cost so far.
type Usage struct {
	RSS int64   `json:"rss"` // bytes
	CPU float64 `json:"cpu"` // seconds
}

// ProcessStatus is one supervised process.
type ProcessStatus struct {
	Running  bool   `json:"running"`
	Paused   bool   `json:"paused,omitempty"`
	PID      int    `json:"pid,omitempty"`      // as the host counts
	Restarts int    `json:"restarts"`           // that nobody asked for
	LastExit string `json:"lastExit,omitempty"` // how it ended the last time
	Usage    Usage  `json:"usage"`
}

// APIStatus is one API server.
type APIStatus struct {
	Kubeconfig string        `json:"kubeconfig"`
	Server     string        `json:"server"`        // URL of the forwarder that the kubeconfig names
	Cut        Mode          `json:"cut,omitempty"` // empty: not cut
	Process    ProcessStatus `json:"process"`
}

// MemberStatus is one member.
type MemberStatus struct {
	Name    string    `json:"name"`
	Region  string    `json:"region,omitempty"`
	Zones   []string  `json:"zones"`
	API     APIStatus `json:"api"`
	PodNet  string    `json:"podNet"`            // CIDR of all its pods
	Ingress string    `json:"ingress,omitempty"` // address of its ingress controller: on the host's loopback and in every place
	DataCut Mode      `json:"dataCut,omitempty"` // empty: not cut
	Pods    int       `json:"pods"`
}

// EdgeStatus is one edge.
type EdgeStatus struct {
	Name      string        `json:"name"`
	Place     string        `json:"place"`
	Region    string        `json:"region,omitempty"`
	Zone      string        `json:"zone,omitempty"`
	Address   string        `json:"address"` // public: on the host's loopback and in every place
	HTTPPort  int           `json:"httpPort"`
	HTTPSPort int           `json:"httpsPort"`
	Admin     string        `json:"admin"` // HOST:PORT of Envoy's admin listener, on the host
	Process   ProcessStatus `json:"process"`
}

// PlaceStatus is one place that commands can run in.
type PlaceStatus struct {
	Name    string `json:"name"`
	Edge    string `json:"edge"`    // the edge it is of
	Client  bool   `json:"client"`  // beside the edge; false: the edge's own namespace
	Address string `json:"address"` // in the fleet's network
	Source  string `json:"source"`  // where DNS and xDS from it seem to come from, on the host
}

// Unsupported is the error of a machine that can't run a lab. Its text is one
// line: what is missing and what to do instead.
type Unsupported struct {
	Reason string
}

func (u *Unsupported) Error() string {
	return fmt.Sprintf("a lab can't run here: %s; or point `spillway serve --kubeconfig` at real clusters, or use a Linux virtual machine", u.Reason)
}

// ExitCode is the command's exit code for it.
func (u *Unsupported) ExitCode() int { return 3 }

// ExitCode is that of a command that a lab's error ends: 1, if it says no other.
func ExitCode(err error) int {
	var unable *Unsupported
	if errors.As(err, &unable) {
		return unable.ExitCode()
	}
	return 1
}
