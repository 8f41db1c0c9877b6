package main

import (
	"context"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/openshift"
)

// routeKind is that of OpenShift. Its conditions say of no generation what they are about.
const routeKind = "Route"

// openShift gives the hub the definition of Routes: `serve` finds it, and runs on.
func (x *examples) openShift(ctx context.Context) error {
	var definition object
	if err := yaml.Unmarshal(openshift.Routes, &definition); err != nil {
		return fmt.Errorf("the definition of Routes: %w", err)
	}
	return x.apply(ctx, x.Hub, definition)
}
