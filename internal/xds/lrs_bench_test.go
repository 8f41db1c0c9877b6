package xds

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// BenchmarkLoadReport is what one load report of idle clusters, of ten endpoints
// each, costs the main thread of a real Envoy and the wire. An Envoy that is not
// asked tells what its main thread takes in the same time anyway.
func BenchmarkLoadReport(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("clusters=%d", n), func(b *testing.B) {
			reports := make(chan LoadReport, 1000)
			r := newRig(b, Config{Load: func(l LoadReport) { reports <- l }, LoadInterval: 2 * time.Second})
			var changes []Change
			for i := range n {
				name := fmt.Sprintf("team-%03d/svc-%05d/http", i%200, i)
				changes = append(changes, makeCluster(b, name, 1), makeAssignment(b, name, i))
			}
			r.cfg.Store.Publish("fra", changes)
			asked := r.envoy("fra", "fra-1")
			<-reports
			silent := r.envoy("fra", "fra-2")
			for _, e := range []*envoytest.Process{asked, silent} {
				envoytest.Until(b, "all clusters", func() bool {
					return strings.Contains(e.Stats(b, "cluster_manager.active_clusters"), fmt.Sprintf(": %d", n+1))
				})
			}
			for len(reports) > 0 {
				<-reports
			}
			for range 3 { // a cluster is reported from the second report on
				<-reports
			}
			var main, idle, count float64
			for b.Loop() {
				main, idle = main-mainThread(b, asked), idle-mainThread(b, silent)
				<-reports
				main, idle = main+mainThread(b, asked), idle+mainThread(b, silent)
				count++
			}
			const more = 4
			bytes := -transmitted(b, asked)
			for range more {
				<-reports
			}
			bytes += transmitted(b, asked)
			b.ReportMetric(main/count, "ms/report")
			b.ReportMetric(idle/count, "ms/silent")
			b.ReportMetric(bytes/more, "wireB/report")
		})
	}
}

// mainThread is the CPU time that an Envoy's main thread has used, in milliseconds.
func mainThread(b *testing.B, e *envoytest.Process) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/schedstat", e.PID))
	if err != nil {
		b.Fatal(err)
	}
	return number(b, strings.Fields(string(raw))[0]) / 1e6
}

// transmitted is the bytes that an Envoy sent to its control plane.
func transmitted(b *testing.B, e *envoytest.Process) float64 {
	b.Helper()
	_, n, _ := strings.Cut(e.Stats(b, "cluster.spillway-xds.upstream_cx_tx_bytes_total"), ": ")
	return number(b, strings.TrimSpace(n))
}

func number(b *testing.B, text string) float64 {
	b.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
