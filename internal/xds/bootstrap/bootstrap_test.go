package bootstrap

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

var socket = Options{Edge: "fra", NodeID: "fra-1", XDSSocket: "/run/spillway/xds.sock"}

func TestRefusals(t *testing.T) {
	with := func(f func(*Options)) Options {
		o := Options{Edge: "fra", NodeID: "fra-1", XDSAddress: "xds.example:18000", CA: "/ca", Cert: "/cert", Key: "/key"}
		f(&o)
		return o
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{with(func(o *Options) { o.Edge = "" }), "--edge"},
		{with(func(o *Options) { o.NodeID = "" }), "--node-id"},
		{with(func(o *Options) { o.Edge = `F R"A` }), `--edge "F R\"A" can't be the name of an Edge`},
		{with(func(o *Options) { o.NodeID = "a\nb" }), `--node-id "a\nb"`},
		{Options{Edge: "fra", NodeID: "1", XDSSocket: "rel/path"}, "not an absolute path"},
		{with(func(o *Options) { o.XDSAddress = "" }), "--xds-address"},
		{with(func(o *Options) { o.XDSSocket = "/s" }), "either"},
		{with(func(o *Options) { o.XDSAddress = "xds.example" }), "HOST:PORT"},
		{with(func(o *Options) { o.XDSAddress = "xds.example:99999" }), "HOST:PORT"},
		{with(func(o *Options) { o.Key = "" }), "mTLS"},
		{with(func(o *Options) { o.CA, o.Cert, o.Key = "", "", "" }), "loopback only"},
		{with(func(o *Options) { o.Cert = "cert.pem" }), "absolute"},
		{with(func(o *Options) { o.AdminAddress = "0.0.0.0:9901" }), "not loopback"},
		{with(func(o *Options) { o.AdminAddress, o.AdminPath = "127.0.0.1:9901", "/a" }), "either --admin-path or --admin-port"},
		{with(func(o *Options) { o.AdminPath = "a.sock" }), "absolute"},
		{with(func(o *Options) { o.AdminPath = "/" + strings.Repeat("x", 107) }), "--admin-path is 108 bytes long: the path of a unix socket has at most 107"},
		{Options{Edge: "fra", NodeID: "1", XDSSocket: "/" + strings.Repeat("x", 107)}, "--xds-socket is 108 bytes long"},
		{Options{Edge: "fra", NodeID: "1", XDSSocket: "/s", CA: "/ca"}, "takes no certificates"},
	} {
		if _, err := Render(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}

func TestCommand(t *testing.T) {
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := Command()
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		err := cmd.Execute()
		return out.String(), err
	}
	got, err := run("envoy", "--edge", "fra", "--node-id", "fra-1", "--xds-socket", "/run/spillway/xds.sock", "--health=false")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Render(socket)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the command prints something else:\n%s", got)
	}
	if !strings.Contains(got, `"pipe": {
        "path": "/run/spillway/envoy-admin.sock",
        "mode": 384
      }`) {
		t.Errorf("the admin interface is no unix socket for Envoy's user alone:\n%s", got)
	}
	if _, err := run("envoy", "--edge", "fra"); err == nil {
		t.Error("no node id was accepted")
	}
	proxy := []string{"envoy", "--edge", "fra", "--node-id", "fra-1", "--xds-socket", "/run/spillway/xds.sock", "--health=false"}
	for _, c := range []struct {
		flags []string
		want  Options
	}{
		{[]string{"--admin-path", "/run/a.sock"}, Options{AdminPath: "/run/a.sock"}},
		{[]string{"--admin-port", "9901"}, Options{AdminAddress: "127.0.0.1:9901"}},
	} {
		c.want.Edge, c.want.NodeID, c.want.XDSSocket = socket.Edge, socket.NodeID, socket.XDSSocket
		want, err := Render(c.want)
		if got, gotErr := run(append(proxy, c.flags...)...); err != nil || gotErr != nil || got != string(want) {
			t.Errorf("%v: %v %v\n%s", c.flags, err, gotErr, got)
		}
	}
	if _, err := run(append(proxy, "--admin-path", "/a", "--admin-port", "1")...); err == nil {
		t.Error("a socket and a port were accepted")
	}
}

// TestAdminSocket: the admin interface is where it should be, for its own user
// only and on no port, and a proxy that was killed takes its socket over.
func TestAdminSocket(t *testing.T) {
	o := Options{Edge: "fra", NodeID: "fra-1", XDSAddress: "127.0.0.1:1", AdminPath: filepath.Join(t.TempDir(), "admin.sock")}
	conf, err := Render(o)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p := envoytest.Start(t, conf, o.AdminPath)
		envoytest.Until(t, "the admin interface", func() bool { return strings.Contains(p.Get(t, "/server_info"), "fra-1") })
		info, err := os.Stat(o.AdminPath)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("%s: %s", o.AdminPath, info.Mode())
		}
		if listeners := p.Get(t, "/listeners"); listeners != "" {
			t.Errorf("it listens on %s", listeners)
		}
		p.Stop() // by SIGKILL
	}
}

// TestEnvoyAccepts has the real Envoy check every form of the configuration.
func TestEnvoyAccepts(t *testing.T) {
	binary := envoytest.Binary(t)
	ca := envoytest.NewCA(t)
	cert, key := ca.Leaf(t, "fra", envoytest.URI("spiffe://spillway.test/edge/fra"))
	for name, o := range map[string]Options{
		"socket":    socket,
		"plaintext": {Edge: "fra", NodeID: "1", XDSAddress: "127.0.0.1:18000"},
		"address":   {Edge: "fra", NodeID: "1", XDSAddress: "10.0.0.1:18000", CA: ca.File, Cert: cert, Key: key, Health: true},
		"name":      {Edge: "fra", NodeID: "1", XDSAddress: "xds.example:18000", CA: ca.File, Cert: cert, Key: key, Health: true, MaxHeapBytes: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Render(o)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Render(o)
			if err != nil || !bytes.Equal(out, again) {
				t.Fatalf("rendered differently: %v", err)
			}
			path := filepath.Join(t.TempDir(), "envoy.json")
			if err := os.WriteFile(path, out, 0o600); err != nil {
				t.Fatal(err)
			}
			if msg, err := exec.Command(binary, "--mode", "validate", "-c", path, "-l", "error").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s\n%s", err, msg, out)
			}
		})
	}
}
