package apiserver

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// Records wait for the end of the start, which drops them, or for its failure,
// which shows them; after the stop there are none.
func TestLogs(t *testing.T) {
	for _, c := range []struct {
		name string
		act  func(logs)
		want string
	}{
		{"starting", func(logs) {}, ""},
		{"ready", logs.ready, "WARN msg=after component=etcd n=1\n"},
		{"failed", logs.failed, "WARN msg=before component=kube\nWARN msg=after component=etcd n=1\n"},
		{"stopped", logs.mute, ""},
		{"stopped while ready", func(l logs) { l.ready(); l.mute() }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			noTime := func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}
			l := routeLogs(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: noTime})))
			kube := slog.New(l).With("component", "kube")
			kube.Info("dropped")
			kube.Error("before")
			c.act(l)
			l.zap().Info("dropped")
			l.zap().With(zap.Int("n", 1)).Error("after")
			if last := l.gate.last; last != "dropped" {
				t.Errorf("klog.Fatal would say %q", last)
			}
			if got := strings.ReplaceAll(out.String(), "level=", ""); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}
