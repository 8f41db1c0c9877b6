package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/spillway-dev/spillway/internal/lab"
)

// Options are the flags of `spillway demo`.
type Options struct {
	Dir       string   // of the lab
	Envoy     string   // empty: as lab.FindEnvoy finds it
	Loopback  string   // of the lab
	XDSPort   int      // on 127.0.0.1
	DNSPort   int      // on 127.0.0.1
	AdminPort int      // on 127.0.0.1
	Check     bool     // tell briefly and end
	Report    string   // file for the figures; empty: none
	Only      []string // chapters to tell; empty: all

	plot *plot
}

func (o *Options) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.Check, "check", false, "tell the story without pauses, one line a chapter, and end; fail if a chapter fails")
	f.StringVar(&o.Report, "report", "", "write what was measured to this file, as JSON")
	f.StringSliceVar(&o.Only, "only", nil, "chapters to tell, such as nearest,scale (default: all)")
	f.StringVar(&o.Dir, "dir", ".lab", "folder of the lab: kubeconfigs, certificates, logs")
	f.StringVar(&o.Envoy, "envoy", "", "Envoy to run as edges (default: $SPILLWAY_ENVOY, .tools/envoy, PATH)")
	f.StringVar(&o.Loopback, "loopback", "127.0", "part of the loopback for edges' addresses; demos beside each other need their own")
	f.IntVar(&o.XDSPort, "xds-port", 18000, "port of spillway serve for edges, on 127.0.0.1")
	f.IntVar(&o.DNSPort, "dns-port", 1053, "port of our DNS server, on 127.0.0.1")
	f.IntVar(&o.AdminPort, "admin-port", 18080, "admin port of spillway serve, on 127.0.0.1")
}

// spec is the lab that the story wants.
func (o *Options) spec() lab.Spec {
	s := o.plot.spec()
	s.Dir, s.Envoy, s.Loopback, s.XDSPort, s.DNSPort = o.Dir, o.Envoy, o.Loopback, o.XDSPort, o.DNSPort
	return s
}

var localhost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

func (o *Options) dns() string   { return onLocalhost(o.DNSPort) }
func (o *Options) admin() string { return onLocalhost(o.AdminPort) }

func onLocalhost(port int) string {
	return netip.AddrPortFrom(localhost, uint16(port)).String()
}

// validate finds what is wrong with the flags alone.
func (o *Options) validate() error {
	for _, name := range o.Only {
		if !slices.Contains(o.plot.names(), name) {
			return fmt.Errorf("--only %q: the chapters are %s", name, strings.Join(o.plot.names(), ", "))
		}
	}
	for _, p := range o.ports() {
		if p.port < 1 || p.port > 65535 {
			return fmt.Errorf("%s %d: use 1 to 65535", p.flag, p.port)
		}
	}
	if o.XDSPort == o.DNSPort || o.XDSPort == o.AdminPort || o.DNSPort == o.AdminPort {
		return errors.New("--xds-port, --dns-port and --admin-port must differ")
	}
	return nil
}

type portFlag struct {
	flag string
	port int
}

func (o *Options) ports() []portFlag {
	return []portFlag{{"--xds-port", o.XDSPort}, {"--dns-port", o.DNSPort}, {"--admin-port", o.AdminPort}}
}

// prepare finds what is missing before anything starts, and says what to do.
func (o *Options) prepare() error {
	if err := o.validate(); err != nil {
		return err
	}
	var err error
	if o.Envoy, err = lab.FindEnvoy(o.Envoy); err != nil {
		return err
	}
	if slices.ContainsFunc(o.plot.spec().Members, func(m lab.MemberSpec) bool { return m.Contour }) {
		if _, err := lab.FindContour(""); err != nil {
			return err
		}
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	return o.freePorts()
}

// freePorts finds a port that somebody else has. That one may be taken a moment
// later is the business of whoever listens then.
func (o *Options) freePorts() error {
	for _, p := range o.ports() {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp4", onLocalhost(p.port))
		if err != nil {
			return fmt.Errorf("%s is not free (another spillway?): end it or choose another %s: %w", onLocalhost(p.port), p.flag, err)
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}
