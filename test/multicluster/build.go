package main

import (
	"context"
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
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./test/multicluster/suite")
	if cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr; cmd.Run() != nil {
		return "", fmt.Errorf("%s failed", cmd)
	}
	return program, nil
}
