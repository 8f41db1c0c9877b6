package e2e

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// binary is the spillway to test: $SPILLWAY_BIN, or bin/spillway of this
// repository. Without one the test is skipped, in CI it fails.
func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("SPILLWAY_BIN")
	if path == "" {
		path = filepath.Join("..", "..", "bin", "spillway")
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("no binary: %v", err)
	}
	t.Skipf("no binary (%v): run `make build` or set $SPILLWAY_BIN", err)
	return ""
}

const (
	failed = 1 // it failed
	wrong  = 2 // the command line is wrong
)

// noEnvoy is where none is, so that no fleet starts by accident.
const noEnvoy = "/nowhere/envoy"

// hang ends a command that should have ended by itself.
const hang = 2 * time.Minute

// run runs spillway and returns its exit code and what it wrote.
func run(t *testing.T, bin string, args []string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=/nowhere", "HOME=" + cmd.Dir, "SPILLWAY_ENVOY=" + noEnvoy, "SPILLWAY_CONTOUR=" + noEnvoy}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", args, err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%v did not end:\n%s", args, errs.String())
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// errorLine is the one line that is no log.
func errorLine(t *testing.T, stderr string) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "time=") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "spillway: ") {
		t.Fatalf("not one line:\n%s", stderr)
	}
	return lines[0]
}

// inUse is an address that somebody else has.
func inUse(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// nobody is a kubeconfig of an API server that does not answer.
const nobody = `apiVersion: v1
kind: Config
current-context: nobody
clusters: [{name: nobody, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: nobody, user: {token: none}}]
contexts: [{name: nobody, context: {cluster: nobody, user: nobody}}]
`

// Wrong input ends in one line on stderr that names it and says what to do, and
// in the exit code of its kind.
func TestWrongInput(t *testing.T) {
	bin := binary(t)
	taken := inUse(t)
	_, port, _ := net.SplitHostPort(taken)
	kubeconfig, broken := file(t, "hub.kubeconfig", nobody), file(t, "broken", "{")
	text := file(t, "text", "no program")
	serve := []string{"serve", "--kubeconfig", kubeconfig, "--dns-address=", "--admin-address=127.0.0.1:0"}
	with := func(base []string, more ...string) []string { return append(append([]string(nil), base...), more...) }

	for _, c := range []struct {
		name string
		args []string
		code int
		want []string // all in the line
	}{
		{"unknown command", []string{"deploy"}, wrong, []string{`"deploy"`, "spillway --help"}},
		{"unknown flag", []string{"serve", "--nope"}, wrong, []string{"--nope", "spillway serve --help"}},
		{"flag of another type", []string{"demo", "--xds-port=many"}, wrong, []string{"--xds-port", "many", "spillway demo --help"}},
		{"an argument too many", []string{"serve", "hub"}, wrong, []string{"hub", "spillway serve --help"}},
		{"an argument too few", []string{"lab", "cut", "eu-1"}, wrong, []string{"2", "spillway lab cut --help"}},

		{"nearly a command", []string{"serv"}, wrong, []string{`"serv"`, `did you mean "serve"?`}},
		{"nearly a command of a command", []string{"lab", "cutt"}, wrong, []string{`"cutt"`, `did you mean "cut"?`, "spillway lab --help"}},
		{"nearly a flag", []string{"serve", "--state-dri=x"}, wrong, []string{"--state-dri", `did you mean "--state-dir"?`}},
		{"unknown short flag", []string{"get", "hosts", "-x"}, wrong, []string{"'x'", "spillway get --help"}},
		{"no such proxy", []string{"bootstrap", "nginx"}, wrong, []string{`"nginx"`, "spillway bootstrap --help"}},
		{"no such shell", []string{"completion", "csh"}, wrong, []string{`"csh"`, "spillway completion --help"}},
		{"no kind", []string{"get"}, wrong, []string{"members, edges, fronts, hosts, plans, streams, keys, findings", "spillway get --help"}},
		{"nearly a kind", []string{"get", "hots"}, wrong, []string{`did you mean "hosts"?`}},
		{"no table", []string{"get", "table"}, wrong, []string{"spillway get tables"}},
		{"no such format", []string{"get", "hosts", "-o", "xml"}, wrong, []string{"xml", "table, wide, json or yaml"}},
		{"no such format of the version", []string{"version", "-o", "xml"}, wrong, []string{"xml", "table, json or yaml"}},
		{"no such format of the lab", []string{"lab", "status", "-o", "yaml"}, wrong, []string{"yaml", "table or json"}},
		{"nothing to cut", []string{"lab", "cut", "eu-1", "apis"}, wrong, []string{`"apis"`, "api, data or both"}},
		{"no way to cut", []string{"lab", "cut", "eu-1", "api", "--mode", "half"}, wrong, []string{"half", "drop or refuse"}},

		{"no such kubeconfig", []string{"serve", "--kubeconfig", "none"}, failed, []string{"--kubeconfig", "none", "no such file"}},
		{"kubeconfig is none", []string{"serve", "--kubeconfig", broken}, failed, []string{"--kubeconfig", broken}},
		{"no kubeconfig", []string{"serve"}, failed, []string{"--kubeconfig"}},

		{"admin port in use", with(serve, "--admin-address", taken), failed, []string{taken, "address already in use", "--admin-address"}},
		{"xDS port in use", with(serve, "--envoyxds", "--xds-address", taken), failed, []string{taken, "address already in use", "--xds-address"}},
		{"DNS port in use", with(serve, "--dns-address", taken), failed, []string{taken, "address already in use"}},
		{"admin off loopback", with(serve, "--admin-address", "0.0.0.0:0"), wrong, []string{"0.0.0.0", "--admin-cert"}},
		{"admin address is none", with(serve, "--admin-address", "here"), wrong, []string{"--admin-address", "here", "IP:PORT"}},
		{"plaintext off loopback", with(serve, "--envoyxds", "--xds-address", "0.0.0.0:0"), wrong, []string{"--envoyxds", "127.0.0.1"}},
		{"TCP without certificates", with(serve, "--xds-address", "127.0.0.1:0"), wrong, []string{"--xds-cert", "--xds-key", "--xds-client-ca"}},
		{"half of mTLS", with(serve, "--xds-address", "127.0.0.1:0", "--xds-cert", "a.crt"), wrong, []string{"--xds-key", "--xds-client-ca"}},
		{"no such certificate", with(serve, "--xds-address", "127.0.0.1:0", "--xds-cert", "a.crt", "--xds-key", "a.key", "--xds-client-ca", "ca.crt"), failed, []string{"a.crt"}},
		{"no socket there", with(serve, "--xds-socket", "/nowhere/xds.sock"), failed, []string{"/nowhere"}},
		{"no such port", with(serve, "--envoyxds", "--envoy-listener-port", "0"), wrong, []string{"--envoy-listener-port", "1 to 65535"}},
		{"no such level", with(serve, "--log-level", "loud"), wrong, []string{"--log-level", "debug, info, warn or error"}},
		{"no such places", with(serve, "--dns-address", "127.0.0.1:0", "--places", "none"), failed, []string{"--places", "none"}},

		{"no namespace", with(serve, "--secret-namespaces", "shop,My Shop"), wrong, []string{"--secret-namespaces", "My Shop", "lower case"}},
		{"a namespace twice", with(serve, "--secret-namespaces", "shop,web,shop"), wrong, []string{"--secret-namespaces", "shop twice"}},
		{"no such trust domain", with(serve, "--trust-domain", "a b"), wrong, []string{"--trust-domain", "a b"}},
		{"no name of an edge", []string{"bootstrap", "envoy", "--node-id", "a", "--xds-socket", "/s", "--edge", `F R"A`}, wrong, []string{"--edge", "lower"}},
		{"a socket somewhere", []string{"bootstrap", "grpc", "--node-id", "a", "--edge", "fra", "--xds-socket", "s"}, wrong, []string{"--xds-socket", "absolute"}},
		{"two admin interfaces", []string{"proxy", "drain", "--admin-path", "/a", "--admin-port", "1"}, wrong, []string{"--admin-path", "--admin-port"}},
		{"hub without a folder", []string{"hub"}, wrong, []string{"--data-dir"}},
		{"bootstrap of nobody", []string{"bootstrap", "envoy"}, wrong, []string{"--edge"}},
		{"nobody to ask", []string{"get", "findings", "--admin-address", "127.0.0.1:1"}, failed, []string{"127.0.0.1:1", "--admin-address"}},
		{"no lab", []string{"lab", "status"}, failed, []string{"spillway lab up"}},
		{"lab without Envoy", []string{"lab", "up"}, failed, []string{noEnvoy, "--envoy"}},
		{"image without a program", []string{"lab", "up", "--image", "web"}, wrong, []string{"--image", "NAME=PATH"}},

		{"demo without Envoy", []string{"demo"}, failed, []string{noEnvoy, "--envoy"}},
		{"demo leaf without Contour", []string{"demo", "leaf", "--envoy", bin}, failed, []string{noEnvoy, "make tools", "SPILLWAY_CONTOUR"}},
		{"Envoy is no program", []string{"demo", "--envoy", text}, failed, []string{text, "--envoy"}},
		{"demo with a port in use", []string{"demo", "--envoy", bin, "--xds-port", port}, failed, []string{taken, "--xds-port"}},
		{"demo with no such port", []string{"demo", "--envoy", bin, "--dns-port", "0"}, wrong, []string{"--dns-port", "1 to 65535"}},
		{"no such story", []string{"demo", "--envoy", bin, "leaves"}, wrong, []string{`"leaves"`, "demo"}},
		{"no such chapter", []string{"demo", "--envoy", bin, "--only", "end"}, wrong, []string{"--only", `"end"`, "nearest"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := run(t, bin, c.args)
			if code != c.code || stdout != "" {
				t.Errorf("exit code %d, want %d; stdout %q", code, c.code, stdout)
			}
			line := errorLine(t, stderr)
			if c.code == failed && !strings.Contains(line, "in use") && strings.Contains(line, "another spillway?") {
				t.Errorf("%q blames another spillway", line)
			}
			for _, want := range c.want {
				if !strings.Contains(line, want) {
					t.Errorf("%q does not say %q", line, want)
				}
			}
		})
	}
}
