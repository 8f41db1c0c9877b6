package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/spillway-dev/spillway/test/rig"
)

// keepsChannel is the name of the policy, and of its binding, by which the Gateway API
// keeps the experimental channel from taking the place of the standard one. Its message
// says to remove it first.
const keepsChannel = "safe-upgrades.gateway.networking.k8s.io"

// experimental gives the hub, which has the standard channel of the Gateway API, the
// experimental one of the same version, as a user does: `serve` runs on.
func (x *examples) experimental(ctx context.Context) error {
	for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		if err := x.Hub.Delete(ctx, kind, "", keepsChannel); err != nil {
			return err
		}
	}
	definitions, err := experimentalDefinitions(ctx)
	if err != nil {
		return err
	}
	for _, o := range definitions {
		if err := x.apply(ctx, x.Hub, o); err != nil {
			return err
		}
	}
	return nil
}

// experimentalDefinitions are those of the module that go.mod pins, without the kinds of
// the group gateway.networking.x-k8s.io, which nobody serves.
func experimentalDefinitions(ctx context.Context) (out []object, err error) {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		return nil, fmt.Errorf("where is the module of the Gateway API: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(string(bytes.TrimSpace(dir)), "config/crd/experimental/gateway.networking.k8s.io_*.yaml"))
	for _, file := range files {
		all, wrong := rig.Documents(file)
		err = errors.Join(err, wrong)
		for _, o := range all {
			if o["kind"] == "CustomResourceDefinition" {
				out = append(out, o)
			}
		}
	}
	if err == nil && len(out) == 0 {
		err = errors.New("the module of the Gateway API has no definitions of the experimental channel")
	}
	return out, err
}
