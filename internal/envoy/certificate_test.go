package envoy

import (
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/model"
)

// selfSigned makes a certificate with a common name.
func selfSigned(t testing.TB, name string) model.Certificate {
	t.Helper()
	c, err := fleettest.SelfSigned(name)
	if err != nil {
		t.Fatal(err)
	}
	return model.Certificate{Chain: c.Chain, Key: c.Key}
}
