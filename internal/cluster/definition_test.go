package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestDefinition: of all definitions that of GatewayClasses is a row, as metadata, which
// follows edits and is gone with it.
func TestDefinition(t *testing.T) {
	api := newFakeAPI(t)
	api.apply(definition("v1.6.3"), &metav1.PartialObjectMetadata{ObjectMeta: at("", "gateways."+model.GatewayGroup)})
	r := newRig(t, nil).watch(api).start()
	r.await("known", func() bool { return r.known })
	release := func() model.Release { return get(r.in.Releases, model.GatewayDefinition("")) }
	r.ask(func() {
		if r.in.Releases.Len() != 1 || release() != (model.Release{Version: "v1.6.3", Channel: "standard"}) {
			t.Errorf("rows %v, %+v", r.in.Releases.Keys(), release())
		}
	})
	api.apply(definition("v1.7.0"))
	r.await("another version", func() bool { return release().Version == "v1.7.0" })
	api.remove(definition(""))
	r.await("it is gone", func() bool { return r.in.Releases.Len() == 0 })
}

// TestDefinitionOfACheckpoint: what was known stays while we may not read it, and goes
// with a list that lacks it.
func TestDefinitionOfACheckpoint(t *testing.T) {
	load := func(tx *inc.Tx, in *fleet.Inputs, _ *Tables) {
		in.Releases.Set(tx, model.GatewayDefinition(""), model.Release{Version: "v1.5.0"})
	}
	for denies, want := range map[string]int{"": 0, definitionsAPI.Group: 1} {
		api := newFakeAPI(t)
		api.denies = denies
		r := newRig(t, load).watch(api).start()
		r.await("known", func() bool { return r.known })
		r.ask(func() {
			if got := r.in.Releases.Len(); got != want {
				t.Errorf("denies %q: %d rows, want %d", denies, got, want)
			}
		})
		r.stop()
	}
}

// TestDefinitionRefused: a role from before does not let us read it. That holds nothing
// up, is told once, is tried now and then, and is over when the role is there.
func TestDefinitionRefused(t *testing.T) { synctest.Test(t, testDefinitionRefused) }

func testDefinitionRefused(t *testing.T) {
	var said bytes.Buffer
	h := overScript(t, "refuses definitions", slog.New(slog.NewTextHandler(&said, nil)))
	rows, server := h.rows, h.server
	look := func(when string, releases int) {
		t.Helper()
		rows.take()
		if s := h.State(); !s.Connected || !s.Known || len(s.Waiting) > 0 || rows.in.Releases.Len() != releases {
			t.Errorf("%s: %+v, %d releases", when, s, rows.in.Releases.Len())
		}
	}
	time.Sleep(time.Second) // of the bubble: it is known at once
	look("refused", 0)
	time.Sleep(30 * time.Second)
	rows.listed(t, 0, 0, 1)
	server.set("refuses definitions")
	rows.minute(t, "refused")
	const perMinute, perTry = 3, 2 // a try asks which hub it is, too
	asked(t, server, "refused", perMinute*perTry+atFirst*len(h.sources))
	look("still refused", 0)
	server.set("well")
	rows.minute(t, "granted")
	look("granted", 1)
	server.set("refuses definitions")
	rows.minute(t, "taken away")
	look("taken away", 1)
	h.stop()
	const told = "we may not list and watch customresourcedefinitions: grant it to our account"
	if n := strings.Count(said.String(), told); n != 2 { // twice it began
		t.Errorf("told %d times in\n%s", n, &said)
	}
}
