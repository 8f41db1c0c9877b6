package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestCertificatesExpire: whoever uses one that is over is told, until there is
// another, which is timed anew.
func TestCertificatesExpire(t *testing.T) {
	w := newWorld()
	e := newExpiries(w.p, w.put)
	w.load()
	id, root := model.SecretID{Namespace: "shop", Name: "cert"}, model.Object{Kind: "Ingress", Namespace: "shop", Name: "shop"}
	now := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	cert := func(left time.Duration) {
		w.g.Commit(func(tx *inc.Tx) {
			w.p.In.Certificates.Set(tx, id, model.Certificate{Chain: []byte(fmt.Sprint(left)), Key: []byte("key"), Names: []string{"shop.example"}, NotAfter: now.Add(left).Unix()})
		})
	}
	w.g.Commit(func(tx *inc.Tx) {
		w.p.In.Roots.Set(tx, root, model.Root{TLS: []model.TLS{{Hosts: []model.Host{"shop.example"}, Secret: id, Field: "spec.tls[0]"}}})
	})
	expect := func(when string, after time.Duration, over bool, next time.Duration) {
		t.Helper()
		now = now.Add(after)
		writes, at := e.due(now)
		w.g.Commit(func(tx *inc.Tx) {
			for _, write := range writes {
				write(tx)
			}
		})
		w.turn()
		var told []string
		findings, _ := w.p.Findings.Get(nil, root)
		for _, f := range findings {
			told = append(told, fmt.Sprint(f))
		}
		all := strings.Join(told, "\n")
		if got := strings.Contains(all, "spec.tls[0].secretName CertificateExpired the certificate in Secret shop/cert ended at 2026-11-25 01:00 UTC"); got != over {
			t.Errorf("%s: told %t, want %t: %s", when, got, over, all)
		}
		if want := now.Add(next); next > 0 && !at.Equal(want) || next == 0 && !at.IsZero() {
			t.Errorf("%s: the next is at %s", when, at)
		}
	}
	cert(time.Hour)
	expect("it is good", 0, false, time.Hour)
	expect("a second before", time.Hour-time.Second, false, time.Second)
	expect("it is over", time.Second, true, 0)
	cert(2 * time.Hour)
	expect("there is another", 0, false, 2*time.Hour)
	w.g.Commit(func(tx *inc.Tx) { w.p.In.Certificates.Delete(tx, id) })
	expect("it is gone", 0, false, 0)
}
