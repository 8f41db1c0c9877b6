package ingest_test

import (
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestLeafBehind: a controller says at which version it looked, or says nothing.
func TestLeafBehind(t *testing.T) {
	for _, c := range []struct {
		status     string
		generation int64
		behind     bool
	}{
		{``, 3, false},
		{`{"conditions": 7}`, 3, false},
		{`{"conditions": [{"type": "Accepted", "status": "True", "observedGeneration": 2}]}`, 3, true},
		{`{"conditions": [{"type": "Accepted", "status": "True", "observedGeneration": 3}]}`, 3, false},
		{`{"conditions": [{"type": "Accepted", "status": "True"}]}`, 3, false},
		{`{"conditions": [{"type": "Other", "status": "True", "observedGeneration": 2}]}`, 3, false},
		{`{"parents": [{"conditions": [{"type": "Accepted", "status": "True", "observedGeneration": 3}]}, {"conditions": [{"type": "ResolvedRefs", "status": "True", "observedGeneration": 1}]}]}`, 3, true},
		{`{"conditions": [{"type": "Accepted", "status": "True", "observedGeneration": 2}]}`, 0, false},
	} {
		if got := ingest.LeafBehind([]byte(c.status), c.generation); got != c.behind {
			t.Errorf("%s at %d: %v", c.status, c.generation, got)
		}
	}
}

// TestRolloutWord: what an owner says of an edit is read, and goes along to nobody.
func TestRolloutWord(t *testing.T) {
	o := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	_, before := ingest.Manifest(o, nil)
	o.Annotations = map[string]string{v1alpha1.AnnotationRollout: " resume=1f0c9a2b "}
	if _, m := ingest.Manifest(o, nil); m.Rollout != "resume=1f0c9a2b" || m.Body != before.Body {
		t.Errorf("%+v", m)
	}
	o.Annotations[v1alpha1.AnnotationRollout] = string(make([]byte, 1000))
	if _, m := ingest.Manifest(o, nil); m.Rollout != "" {
		t.Errorf("%+v", m)
	}
}

// TestRulesOfASpec: what a spec alone asks for is what its object does.
func TestRulesOfASpec(t *testing.T) {
	k := model.Object{Kind: "HTTPRoute", Namespace: "shop", Name: "web"}
	w, err := ingest.WholeOf(`{"metadata": {}, "spec": {"hostnames": ["b.example", "*.a.example", "b.example"], "rules": [{}, {"matches": [{"path": {"type": "Exact", "value": "/x"}}]}, {"matches": [{"path": {"type": "Exact", "value": "/x"}}]}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	if hosts := ingest.HostsIn(w.Spec); !slices.Equal(hosts, []model.Host{"**.a.example", "b.example"}) {
		t.Errorf("%q", hosts)
	}
	if matches := ingest.MatchesIn(k.Kind, w.Spec); !slices.Equal(matches, []model.Match{model.Everything, {Kind: model.PathExact, Path: "/x"}}) {
		t.Errorf("%v", matches)
	}
	if hosts := ingest.HostsIn(map[string]any{}); !slices.Equal(hosts, []model.Host{""}) {
		t.Errorf("%q", hosts)
	}
	k.Kind = model.OpenShiftRoute
	spec := map[string]any{"host": "a.example", "path": "/x", "to": map[string]any{"kind": "Service", "name": "web"}}
	if h, m, ok := ingest.RuleIn(k, spec); !ok || h != "a.example" || m.Path != "/x" {
		t.Errorf("%s %v %v", h, m, ok)
	}
	if _, _, ok := ingest.RuleIn(k, map[string]any{"host": 7}); ok {
		t.Error("what can't be read asks for something")
	}
}
