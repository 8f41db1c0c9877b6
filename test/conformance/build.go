package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// version is one of the suite.
type version struct {
	name    string
	mod     string                      // go.mod, beside that of the suite; empty: go.mod itself
	echo    string                      // package of the echo server
	prepare func(context.Context) error // nil: nothing is to be made first
	images  []string                    // that the echo server stands for
	servers []string                    // images that the name server stands for
	instead []string                    // what is not as upstream has it, for the report
}

const suite = "test/conformance/suite"

var versions = map[string]version{first.name: first, second.name: second}

// late is what both versions are told otherwise (suite/patient_test.go).
const late = "Pods are listed to the suite when their Services have them as endpoints: pods of the lab are ready sooner than the EndpointSlice controller tries again."

var first = version{
	name: "1.6.3", echo: earlierEcho,
	images: []string{"registry.k8s.io/gateway-api/echo-basic"}, servers: []string{"registry.k8s.io/coredns/coredns"},
	instead: []string{
		"The echo server is built from conformance/echo-basic of the suite's module, and not of the released image.",
		"The image registry.k8s.io/coredns/coredns, which tests of UDPRoute alone use, is test/conformance/nameserver of Spillway: it answers as the plugin whoami does.",
		late,
	},
}

var second = version{
	name: "1.7.0", mod: "v1.7.0.mod", echo: imagesModule + "/echo-basic", prepare: standIn,
	images: []string{"registry.k8s.io/gateway-api/conformance/echo-basic"},
	instead: []string{
		"The module sigs.k8s.io/gateway-api-conformance-images is made of conformance/echo-basic of the suite's v1.6.3: its echo server, and what tests import.",
		late,
	},
}

// built is what is made of a version.
type built struct {
	version
	test string // the suite's program
	echo string // the echo server
	dns  string // the name server; empty: none is needed
	crds string // folder of the definitions
}

func (v version) build(ctx context.Context) (built, error) {
	dir, err := filepath.Abs("build")
	if err != nil {
		return built{}, err
	}
	b := built{version: v, test: filepath.Join(dir, "conformance-"+v.name+".test"), echo: filepath.Join(dir, "echo-basic-"+v.name)}
	if v.prepare != nil {
		if err := v.prepare(ctx); err != nil {
			return b, err
		}
	}
	if _, err := v.command(ctx, "test", "-c", "-o", b.test, "."); err != nil {
		return b, err
	}
	if _, err := v.command(ctx, "build", "-ldflags", "-s -w", "-o", b.echo, v.echo); err != nil {
		return b, err
	}
	if len(v.servers) > 0 {
		b.dns = filepath.Join(dir, "nameserver")
		cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", b.dns, "./test/conformance/nameserver")
		if cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr; cmd.Run() != nil {
			return b, fmt.Errorf("%s failed", cmd)
		}
	}
	module, err := v.command(ctx, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api")
	b.crds = filepath.Join(module, "config", "crd", "standard")
	return b, err
}

// command runs the go command in the suite's module.
func (v version) command(ctx context.Context, verb string, args ...string) (string, error) {
	if v.mod != "" {
		args = append([]string{"-modfile=" + v.mod}, args...)
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{verb}, args...)...)
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = suite, &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return strings.TrimSpace(out.String()), nil
}
