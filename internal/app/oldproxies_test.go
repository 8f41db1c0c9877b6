package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

func TestTooOld(t *testing.T) {
	for version, want := range map[string]bool{
		"1.36.4": true, "1.9.0": true, "0.99.0": true, "1.38.2": true, "1.39.0": false, "1.40.0": false, "2.0.0": false, "": false, "dev": false, "1": false,
	} {
		if tooOld(version) != want {
			t.Errorf("%q is too old: %t", version, !want)
		}
	}
}

// TestOldProxies: an Edge is told of its proxies that are older than what we render,
// as long as they are there, and the log once.
func TestOldProxies(t *testing.T) {
	g := inc.New()
	rows := inc.Input[model.Object, model.Findings](g, "old proxies")
	var log bytes.Buffer
	o := newOldProxies(rows, slog.New(slog.NewTextHandler(&log, nil)))
	edge := model.Object{Kind: "Edge", Name: "fra"}
	stream := func(n uint64, class xds.Class, version string, open bool) {
		p := xds.Proxy{Edge: "fra", Node: fmt.Sprint("fra-", n), Class: class}
		g.Commit(func(tx *inc.Tx) {
			o.streamed(tx, []xds.StreamChange{{Proxy: p, Stream: n, Version: version, Open: open}})
		})
	}
	says := func(want ...string) {
		t.Helper()
		all, _ := rows.Get(nil, edge)
		if len(want) == 0 && len(all) == 0 {
			return
		}
		if len(all) != 1 || all[0].Reason != model.ReasonOldProxy || all[0].Severity != model.Warning {
			t.Fatalf("got %v", all)
		}
		for _, part := range want {
			if !strings.Contains(all[0].Message, part) {
				t.Errorf("%q is not in: %s", part, all[0].Message)
			}
		}
	}
	logged := func(want int) {
		t.Helper()
		if n := strings.Count(log.String(), "\n"); n != want {
			t.Errorf("%d lines, want %d:\n%s", n, want, log.String())
		}
	}
	stream(1, xds.Envoy, "1.40.0", true)
	stream(2, xds.GRPC, "1.30.0", true)
	says()
	stream(3, xds.Envoy, "1.36.4", true)
	says("fra-3 is Envoy 1.36.4", "1.39")
	stream(3, xds.Envoy, "1.36.4", true) // it serves by now
	stream(4, xds.Envoy, "1.36.4", true)
	says("fra-3 is Envoy 1.36.4, fra-4 is Envoy 1.36.4: ")
	logged(1)
	for n := uint64(5); n < 8; n++ {
		stream(n, xds.Envoy, "1.20.0", true)
	}
	says("fra-5 is Envoy 1.20.0, 2 more are as old")
	logged(2)
	for n := uint64(3); n < 8; n++ {
		stream(n, xds.Envoy, map[bool]string{true: "1.36.4", false: "1.20.0"}[n < 5], false)
	}
	says()
	if len(o.open) != 0 {
		t.Errorf("%v is left", o.open)
	}
}
