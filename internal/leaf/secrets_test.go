package leaf_test

import (
	"fmt"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
)

// TestSecretsReferredTo: a Secret counts as long as something names it, be it of ours, a
// leaf, or a copy that a member has; one that is there, and nothing else, does not.
func TestSecretsReferredTo(t *testing.T) {
	var tables *leaf.Tables
	w := fleettest.New(func(g *inc.Graph, p *fleet.Program) map[string]fleettest.Command {
		tables = leaf.Declare(g, p, leaf.Outputs{})
		return nil
	})
	for _, step := range []struct{ line, want string }{
		{"class e age=1", "[]"},
		{"secret shop/idle h.example", "[]"},
		{"ingress shop/a age=1 class=e tls=cert@h.example h.example/->x:80", "[shop/cert]"},
		{"ingress shop/b age=1 class=other tls=cert@h.example;two@i.example h.example/->x:80", "[shop/cert shop/two]"},
		{"delete ingress shop/a", "[shop/cert shop/two]"},
		{"delete ingress shop/b", "[]"},
		{"gateway shop/g age=1 class=e l:HTTPS:443:h.example,secret=cert m:HTTPS:443:i.example,secret=certs/wide", "[certs/wide shop/cert]"},
		{"listenerset shop/s age=1 to=shop/g l:HTTPS:443:i.example,secret=certs/set", "[certs/set certs/wide shop/cert]"},
		{"delete gateway shop/g", "[certs/set]"},
		{"delete listenerset shop/s", "[]"},
		{"heldkey m1 shop/cert cert-0 Held", "[shop/cert]"},
		{"heldkey m1 shop/cert cert-0 -", "[]"},
	} {
		if _, err := w.Do(step.line); err != nil {
			t.Fatal(err)
		}
		w.Commit()
		if got := fmt.Sprint(tables.Secrets.Keys()); got != step.want {
			t.Errorf("after %q: %s, want %s", step.line, got, step.want)
		}
	}
}
