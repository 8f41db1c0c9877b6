package bootstrap

import (
	"bytes"
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
		{with(func(o *Options) { o.XDSAddress = "" }), "--xds-address"},
		{with(func(o *Options) { o.XDSSocket = "/s" }), "either"},
		{with(func(o *Options) { o.XDSAddress = "xds.example" }), "HOST:PORT"},
		{with(func(o *Options) { o.XDSAddress = "xds.example:99999" }), "HOST:PORT"},
		{with(func(o *Options) { o.Key = "" }), "mTLS"},
		{with(func(o *Options) { o.CA, o.Cert, o.Key = "", "", "" }), "loopback only"},
		{with(func(o *Options) { o.Cert = "cert.pem" }), "absolute"},
		{with(func(o *Options) { o.AdminAddress = "0.0.0.0:9901" }), "not loopback"},
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
		cmd.SetErr(&out)
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
	if _, err := run("envoy", "--edge", "fra"); err == nil {
		t.Error("no node id was accepted")
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
