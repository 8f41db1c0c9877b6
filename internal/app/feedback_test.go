package app

import (
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// inCheckpoints are the names that files of earlier versions have, by table.
var inCheckpoints = map[string]string{
	"roots": "roots", "problems": "problems", "classes": "classes", "configs": "configs", "edges": "edges", "zones": "zones",
	"certificates": "certificates", "members": "members", "sources": "sources", "contacts": "contacts", "services": "services",
	"slices": "slices", "reports": "reports", "acks": "acks", "rejections": "rejections", "dns-last": "dns-last", "dns-names": "dns-names",
	"outdated": "outdated", "envoy.lastParts": "parts-last", "kubeconfigs": "kubeconfigs", "hub identities": "identities", "tenures-last": "tenures", "kept-last": "kept", "rollouts-last": "rollouts",
	"releases": "releases", "stale": "stale", "clusters of members": "clusters",
	"gateway classes": "gateway-classes", "gateway objects": "gateways", "grants": "grants", "namespaces": "namespaces", "placements": "placements", "globals": "globals", "tombstones": "tombstones", "bundles": "bundles", "tls policies": "tls-policies", "listener sets": "listener-sets",
	"manifests": "manifests", "leaf states": "leaf-states", "held keys": "held-keys",
	"exports": "exports", "service imports": "service-imports",
}

// TestEveryInputIsListed: whoever adds an input says whether it is a fact or
// feedback, and whether it is in the checkpoint or why not.
func TestEveryInputIsListed(t *testing.T) {
	s := &server{log: slog.New(slog.DiscardHandler), metrics: prometheus.NewRegistry(), now: time.Now}
	s.assemble()
	listed, names := map[string]int{}, map[string]string{}
	note := func(i input) {
		listed[i.table]++
		if i.saved != "" {
			names[i.table] = i.saved
		}
		if (i.saved == "") != (i.save == nil) || (i.saved == "") == (i.why == "") {
			t.Errorf("%s: in the checkpoint as %q, and not because %q", i.table, i.saved, i.why)
		}
	}
	for _, i := range s.facts() {
		note(i)
		if i.of != "" || i.carry != nil {
			t.Errorf("%s is a fact and follows from %q", i.table, i.of)
		}
	}
	for _, i := range s.feedback() {
		note(i)
		if i.of == "" {
			t.Errorf("%s is feedback of nothing", i.table)
		}
	}
	for _, table := range s.graph.Tables() {
		if table.Input && listed[table.Name] != 1 {
			t.Errorf("input %s is listed %d times among facts and feedback", table.Name, listed[table.Name])
		}
	}
	if !maps.Equal(names, inCheckpoints) {
		t.Errorf("in the checkpoint: %v, want %v", names, inCheckpoints)
	}
}
