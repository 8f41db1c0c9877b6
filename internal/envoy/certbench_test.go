package envoy

import (
	"crypto/tls"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// mainThread is the CPU time that Envoy's main thread has used, in milliseconds.
func (r *rig) mainThread(t testing.TB) float64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/schedstat", r.proc.PID))
	if err != nil {
		t.Fatal(err)
	}
	ns, err := strconv.ParseFloat(strings.Fields(string(raw))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return ns / 1e6
}

// resident is Envoy's memory in MiB.
func (r *rig) resident(t testing.TB) float64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", r.proc.PID))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(raw))[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * float64(os.Getpagesize()) / (1 << 20)
}

func (r *rig) bytesSent() float64 { return float64(r.server.Streams()[0].BytesSent) }

// certified serves n TLS names, each with a certificate of its own that a
// client has asked for.
func certified(b *testing.B, certificates delivery, n int) *rig {
	b.Helper()
	r := shops(b, certificates)
	before := r.resident(b)
	r.commit(func(tx *inc.Tx) {
		for i := range n {
			r.present(b, tx, model.Host(fmt.Sprintf("h%d.example", i)), fmt.Sprintf("cert%d", i), "old")
		}
	})
	for i := range n {
		r.awaitCertificate(b, fmt.Sprintf("h%d.example", i), "old")
	}
	b.Logf("%s: %.1f KiB a certificate in Envoy", certificates, (r.resident(b)-before)*1024/float64(n))
	return r
}

func (r *rig) awaitCertificate(t testing.TB, sni, want string) {
	t.Helper()
	envoytest.Until(t, sni+" to be presented with "+want, func() bool {
		name, _, err := r.shake(&tls.Config{ServerName: sni})
		return err == nil && name == want
	})
}

// BenchmarkCertificate is what a certificate that comes, and one that is
// rotated, costs the main thread of a real Envoy and the wire.
func BenchmarkCertificate(b *testing.B) {
	for _, certificates := range []delivery{static, onDemand} {
		for _, n := range []int{100, 300, 1000} {
			r := certified(b, certificates, n)
			for name, change := range map[string]func(tx *inc.Tx, i int) (sni string){
				"added": func(tx *inc.Tx, i int) string {
					host := fmt.Sprintf("new%d.example", i)
					r.present(b, tx, model.Host(host), host, fmt.Sprint(i))
					return host
				},
				"rotated": func(tx *inc.Tx, i int) string {
					r.present(b, tx, "h7.example", "cert7", fmt.Sprint(i))
					return "h7.example"
				},
			} {
				b.Run(fmt.Sprintf("%s/%d/%s", certificates, n, name), func(b *testing.B) {
					cpu, sent, i := r.mainThread(b), r.bytesSent(), 0
					for b.Loop() {
						i++
						var sni string
						r.commit(func(tx *inc.Tx) { sni = change(tx, i) })
						r.awaitCertificate(b, sni, fmt.Sprint(i))
					}
					b.ReportMetric((r.mainThread(b)-cpu)/float64(i), "main-ms/op")
					b.ReportMetric((r.bytesSent()-sent)/float64(i), "sent-B/op")
				})
			}
		}
	}
}
