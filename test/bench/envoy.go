package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
)

// envoyNode is the node id of the real Envoy.
const envoyNode = "envoy"

// envoy is a real Envoy with one worker.
type envoy struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// envoyBinary is $SPILLWAY_ENVOY, which the Makefile sets, or envoy on PATH.
func envoyBinary() (string, error) {
	if path := os.Getenv("SPILLWAY_ENVOY"); path != "" {
		return path, nil
	}
	path, err := exec.LookPath("envoy")
	if err != nil {
		return "", errors.New("no Envoy: run `make tools`, and set SPILLWAY_ENVOY")
	}
	return path, nil
}

func startEnvoy(dir, socket, admin string) (*envoy, error) {
	binary, err := envoyBinary()
	if err != nil {
		return nil, err
	}
	boot, err := bootstrap.Render(bootstrap.Options{Edge: edge, NodeID: envoyNode, XDSSocket: socket, AdminAddress: admin})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "envoy.json")
	if err := os.WriteFile(path, boot, 0o600); err != nil {
		return nil, err
	}
	e := &envoy{cmd: exec.CommandContext(context.Background(), binary, "-c", path, "--use-dynamic-base-id", "--concurrency", "1", "-l", "error"), ended: make(chan struct{})}
	e.cmd.Stdout, e.cmd.Stderr = os.Stderr, os.Stderr
	e.cmd.SysProcAttr = diesWithParent()
	if err := e.cmd.Start(); err != nil {
		return nil, fmt.Errorf("envoy: %w", err)
	}
	go func() {
		_ = e.cmd.Wait()
		close(e.ended)
	}()
	return e, nil
}

func (e *envoy) kill() {
	_ = e.cmd.Process.Kill()
	<-e.ended
}

// main is the CPU time of the main thread, which takes configuration.
func (e *envoy) main() time.Duration {
	pid := e.cmd.Process.Pid
	return threadCPU(pid, strconv.Itoa(pid))
}

// cpu is the CPU time of all threads.
func (e *envoy) cpu() time.Duration { return processCPU(e.cmd.Process.Pid) }

// inSync waits until the real Envoy holds at least what all hosts need, and
// has acknowledged all that was sent.
func inSync(ctx context.Context, c *control, clusters int) error {
	return c.until(ctx, "Envoy is in sync", 20*time.Millisecond, func() bool {
		all, err := c.streams()
		if err != nil {
			return false
		}
		s := all[envoyNode]
		held := map[string]int{}
		for _, t := range s.Types {
			held[t.Type] = t.Held
		}
		return s.InSync && held["Cluster"] >= clusters && held["ClusterLoadAssignment"] >= clusters && held["RouteConfiguration"] >= clusters
	})
}
