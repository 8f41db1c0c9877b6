package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// build makes the suite's program.
func build(ctx context.Context) (string, error) {
	program, err := filepath.Abs(filepath.Join("build", "multicluster.test"))
	if err != nil {
		return "", err
	}
	_, err = goCommand(ctx, "test", "-c", "-o", program, "./test/multicluster/suite")
	return program, err
}

// The module with the definitions of ServiceExport and ServiceImport. Nothing is built
// of it, so go.mod does not have it.
const (
	mcs    = "sigs.k8s.io/mcs-api@v0.5.2"
	mcsSum = "h1:N+vrRiCIb0WJ0dxbBo7VfNv2WJigOHEo4gsLXpffVs8="
)

// definitions is the folder that they are in.
func definitions(ctx context.Context) (string, error) {
	out, err := goCommand(ctx, "mod", "download", "-json", mcs)
	if err != nil {
		return "", err
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	if module.Sum != mcsSum {
		return "", fmt.Errorf("%s is %s, and should be %s", mcs, module.Sum, mcsSum)
	}
	return filepath.Join(module.Dir, "config", "crd"), nil
}

func goCommand(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	return out.Bytes(), nil
}
