package envoy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// BenchmarkRoutesOfAHost measures a list and a tree of n routes in Envoy: the
// CPU of a request for the first, the middle and the last of them, the bytes of
// a change of one, and the CPU of all threads for that change.
func BenchmarkRoutesOfAHost(b *testing.B) {
	for _, n := range []int{1, 16, 64, 256, 1024} {
		for _, form := range []struct {
			name string
			sizes
		}{{"list", sizes{treeFrom: 1 << 30, part: partSize, dealtFrom: dealtFrom}}, {"tree", asTrees}} {
			b.Run(fmt.Sprintf("n=%d/%s", n, form.name), func(b *testing.B) {
				r := newRigOf(b, timingForTests, form.sizes)
				manyRoutes(b, r, n, 0)
				before, round := r.cpu(b), 0
				for b.Loop() {
					round++
					manyRoutes(b, r, n, round)
				}
				b.ReportMetric(float64((r.cpu(b)-before).Microseconds())/float64(round)/1000, "ms/change")
				for name, i := range map[string]int{"first": 0, "middle": n / 2, "last": n - 1} {
					path := fmt.Sprintf("/service-%04d/v1/list", i)
					r.flood(b, path, 500)
					began := r.cpu(b)
					r.flood(b, path, 4000)
					b.ReportMetric(float64((r.cpu(b)-began).Nanoseconds())/4000/1000, name+"-us/request")
				}
				res, _ := r.lookIn(r.t.Routes, testView, "shop.example")
				b.ReportMetric(float64(res.Size()), "B/change")
			})
		}
	}
}

// manyRoutes gives a host n routes to a backend without endpoints, and waits
// until Envoy has them. The last of them is of a round.
func manyRoutes(b *testing.B, r *rig, n, round int) {
	b.Helper()
	r.commit(func(tx *inc.Tx) {
		r.use(tx, testView, "shop/web/http", "")
		var routes []fleet.Route
		for i := range n {
			routes = append(routes, fleet.Route{Match: prefix(fmt.Sprintf("/service-%04d", i)), Target: target("web", "shop/web/http")})
		}
		def := target(fmt.Sprint("round-", round), "shop/web/http")
		r.host(tx, testClass, "shop.example", &def, routes...)
	})
	res, _ := r.lookIn(r.t.Routes, testView, "shop.example")
	_, soon := r.reports.Wake()
	for {
		<-soon
		_, verdicts := r.reports.Take()
		for _, v := range verdicts {
			if v.Type == xds.TypeURL(RouteType) && v.Version == res.Version && v.Error == "" {
				return
			}
		}
	}
}

// flood sends n requests that nobody can answer.
func (r *rig) flood(b *testing.B, path string, n int) {
	b.Helper()
	flood(b, fmt.Sprintf("127.0.0.1:%d", r.http), "shop.example", path, http.StatusServiceUnavailable, n)
}

// flood sends n requests on one connection, one after another.
func flood(b *testing.B, addr, host, path string, status, n int) {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	floodOn(b, c, host, path, status, n)
}

// floodOn does so on a connection, which it closes.
func floodOn(b *testing.B, c net.Conn, host, path string, status, n int) {
	b.Helper()
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for range n {
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host); err != nil {
			b.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != status {
			b.Fatalf("%s%s: %v %s", host, path, err, resp.Status)
		}
	}
}

func (r *rig) cpu(b *testing.B) time.Duration {
	b.Helper()
	return cpuOf(r.proc)
}

// cpuOf is the time that all threads of an Envoy ran.
func cpuOf(proc *envoytest.Process) time.Duration {
	var sum time.Duration
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", proc.PID))
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var ran int64
		_, _ = fmt.Sscan(strings.Fields(string(text))[0], &ran)
		sum += time.Duration(ran)
	}
	return sum
}
