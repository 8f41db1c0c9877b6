package envoy

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// BenchmarkListeners measures what a listener takes of Envoy's memory, by how many
// worker threads there are: classes with a port and a host each are added.
func BenchmarkListeners(b *testing.B) {
	for _, workers := range []int{1, 4} {
		for _, deep := range []bool{false, true} {
			b.Run(fmt.Sprintf("workers=%d/deep=%t", workers, deep), func(b *testing.B) {
				const few, many = 100, 300
				r := newRigArgs(b, timingForTests, static, usual, 0, "--concurrency", strconv.Itoa(workers))
				for b.Loop() { // figures are reported after it
				}
				var names []string
				var ports []int
				acked := map[xds.TypeURL]map[string]string{xds.Listener: {}, xds.TypeURL(RouteType): {}, xds.TypeURL(AssignmentType): {}}
				grow := func(to int) (resident, heap int) {
					r.commit(func(tx *inc.Tx) {
						for i := len(names); i < to; i++ {
							name := fmt.Sprintf("c%d", i)
							names = append(names, name)
							ports = append(ports, envoytest.FreePort(b))
							r.classWith(tx, model.Class(name), int64(i+2), uint16(ports[i]), 0, static, deep)
							host := target("web")
							host.Reply = &model.Reply{Status: 204}
							r.host(tx, model.Class(name), model.Host(name+".example"), &host)
						}
						r.together(tx, names...)
					})
					// A dump of the configuration would take memory, too.
					envoytest.Until(b, "Envoy to have it all", func() bool {
						_, verdicts := r.reports.Take()
						for _, v := range verdicts {
							acked[v.Type][v.Name] = v.Version
						}
						for url, table := range map[xds.TypeURL]Rows{xds.Listener: r.t.Listeners, xds.TypeURL(RouteType): r.t.Routes} {
							for _, key := range table.Keys() {
								if res, _ := table.Get(nil, key); acked[url][res.Name] != res.Version {
									return false
								}
							}
						}
						return !slices.ContainsFunc(ports, func(port int) bool { return !r.listens(port) })
					})
					return residentOf(b, r.proc), heapOf(b, r.proc)
				}
				resident, heap := grow(few)
				residentThen, heapThen := grow(many)
				b.ReportMetric(float64(residentThen-resident)/(many-few), "KB/listener")
				b.ReportMetric(float64(heapThen-heap)/(many-few), "heap-KB/listener")
			})
		}
	}
}

// residentOf is the memory of an Envoy, in KB.
func residentOf(b *testing.B, proc *envoytest.Process) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", proc.PID))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// heapOf is what of it is Envoy's own, without Lua, in KB.
func heapOf(b *testing.B, proc *envoytest.Process) int {
	b.Helper()
	var page struct {
		Allocated int `json:",string"`
	}
	if err := json.Unmarshal([]byte(proc.Get(b, "/memory")), &page); err != nil {
		b.Fatal(err)
	}
	return page.Allocated >> 10
}
