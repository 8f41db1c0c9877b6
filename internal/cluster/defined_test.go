package cluster

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// TestDefinitionChanged: watches that a server ends in order may have dropped fields that
// a new definition has, so what has a definition is listed again, and nothing else is.
func TestDefinitionChanged(t *testing.T) { synctest.Test(t, testDefinitionChanged) }

func testDefinitionChanged(t *testing.T) {
	h := overScript(t, "well", slog.New(slog.DiscardHandler))
	rows, server := h.rows, h.server
	defer h.stop()
	read := func() (listeners int, backend string) {
		time.Sleep(10 * time.Second)
		rows.take()
		root := get(rows.in.Roots, model.Object{Kind: "Ingress", Namespace: "shop", Name: "web"})
		return len(get(rows.in.Gateways, model.GatewayID{Namespace: "shop", Name: "web"}).Listeners), root.Default.Service().Name()
	}
	if n, to := read(); n != 1 || to != "web" {
		t.Fatalf("at first: %d listeners, Ingress to %q", n, to)
	}
	fuller := gateway("web") // as it reads by the new definition: nobody wrote it
	fuller.Spec.Listeners = append(fuller.Spec.Listeners, gatewayv1.Listener{Name: "more", Port: 81, Protocol: gatewayv1.HTTPProtocolType})
	server.mu.Lock()
	server.anew = map[string]metav1.Object{"gateways": fuller, "ingresses": ingress("web", "other")}
	server.mu.Unlock()
	server.set("well")
	if n, to := read(); n != 2 || to != "web" {
		t.Errorf("after all watches ended: %d listeners, want 2; Ingress to %q, which has no definition", n, to)
	}
}

// TestReread: a watch that ended at its time, or was cut, is no sign of another definition.
func TestReread(t *testing.T) {
	for _, c := range []struct {
		name           string
		defined, ended bool
		lasting, since time.Duration
		want           bool
	}{
		{"early and in order", true, true, 5 * time.Minute, time.Minute, true},
		{"at its time", true, true, time.Minute, time.Minute, false},
		{"cut", true, false, 5 * time.Minute, time.Minute, false},
		{"without a time", true, true, 0, time.Minute, true},
		{"built in", false, true, 5 * time.Minute, time.Minute, false},
	} {
		s := &source{defined: c.defined}
		s.ended.Store(c.ended)
		o := &opened{source: s, lasting: c.lasting, since: time.Now().Add(-c.since)}
		if got := o.reread(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
