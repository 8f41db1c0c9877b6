package hub

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/eventually"
)

// TestBury: a MemberCluster that is deleted loses its finalizer for leaves once the
// tombstone is there, also where somebody tried before, and never where the hub does not
// take it. The tombstone goes when it is told to.
func TestBury(t *testing.T) {
	f := newFakeHub()
	const stones = "/apis/spillway.dev/v1alpha1/membertombstones/"
	f.add(euPath, object("spillway.dev/v1alpha1", "MemberCluster"))
	w := run(t, f)
	w.Open()
	held := func() bool {
		return strings.Contains(fmt.Sprint(at(f.get(euPath), "metadata", "finalizers")), "spillway.dev/leaves")
	}
	w.GuardLeaves("eu-1")
	eventually.True(t, "it is held back", held)
	leaving := f.get(euPath)
	leaving["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-27T00:00:00Z"
	leaving["metadata"].(map[string]any)["uid"] = "0123456789"
	leaving["spec"] = map[string]any{"connection": map[string]any{"kubeconfigSecretRef": map[string]any{"name": "eu-1", "key": "kubeconfig"}}}
	f.add(euPath, leaving)
	f.mu.Lock()
	f.broken, f.breaks = func(r *http.Request) bool { return r.Method == http.MethodPost }, answers(http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, "Content-Type", "application/json")
	f.mu.Unlock()
	w.Bury("eu-1", Grave{Cluster: "c-1", Hub: "h", Leaves: 3})
	eventually.True(t, "it was tried", func() bool { return w.state.queue.NumRequeues(job{leafing, memberObject("eu-1")}) > 1 })
	if !held() {
		t.Error("it is let go, and nobody remembers its leaves")
	}
	f.mu.Lock()
	f.broken = nil
	f.mu.Unlock()
	eventually.True(t, "it is let go", func() bool { return !held() })
	spec := at(f.get(stones+"eu-1-01234567"), "spec")
	if got := fmt.Sprint(spec); got != "map[clusterUID:c-1 connection:map[kubeconfigSecretRef:map[key:kubeconfig name:eu-1]] hubUID:h leaves:3 member:eu-1 memberUID:0123456789]" {
		t.Errorf("remembered: %s", got)
	}
	f.add(euPath, leaving)
	w.Bury("eu-1", Grave{Cluster: "c-1", Hub: "h", Leaves: -1})
	eventually.True(t, "it is let go again", func() bool { return !held() })
	w.Unbury("eu-1-01234567")
	eventually.True(t, "it is forgotten", func() bool { return len(f.below(stones)) == 0 })
}
