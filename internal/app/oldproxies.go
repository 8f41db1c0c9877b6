package app

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// oldestMinor is the oldest Envoy 1.x that does all that is rendered (docs/envoy.md says
// what older ones do not). One that does not know a field ignores it, or refuses what has
// it.
const oldestMinor = 39

// edgesTold is of how many edges it is known what was logged; it is logged again
// after so many.
const edgesTold = 1024

// namedProxies is how many old proxies a finding names.
const namedProxies = 3

// oldProxies tells of each edge which of its proxies are too old. It belongs to the
// loop's goroutine.
type oldProxies struct {
	rows *inc.Table[model.Object, model.Findings]
	log  *slog.Logger
	open map[string]map[uint64]oldProxy // streams of old proxies, by edge
	told map[string]string              // the versions that were logged, by edge
}

type oldProxy struct{ node, version string }

func newOldProxies(rows *inc.Table[model.Object, model.Findings], log *slog.Logger) *oldProxies {
	return &oldProxies{rows: rows, log: log, open: map[string]map[uint64]oldProxy{}, told: map[string]string{}}
}

// tooOld tells whether a version of Envoy is. One that can't be read is not.
func tooOld(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && (major < 1 || major == 1 && minor < oldestMinor)
}

// streamed takes openings and closings of streams. It runs inside a commit.
func (o *oldProxies) streamed(tx *inc.Tx, changes []xds.StreamChange) {
	touched := map[string]bool{}
	for _, s := range changes {
		if s.Class != xds.Envoy || !tooOld(s.Version) {
			continue
		}
		was, had := o.open[s.Edge][s.Stream]
		now := oldProxy{s.Node, s.Version}
		switch {
		case s.Open && (!had || was != now):
			if o.open[s.Edge] == nil {
				o.open[s.Edge] = map[uint64]oldProxy{}
			}
			o.open[s.Edge][s.Stream] = now
		case had && !s.Open:
			delete(o.open[s.Edge], s.Stream)
		default:
			continue
		}
		touched[s.Edge] = true
	}
	for edge := range touched {
		o.tell(tx, edge)
	}
}

// tell writes the finding of an edge, and logs it when there are other versions.
func (o *oldProxies) tell(tx *inc.Tx, edge string) {
	object := model.Object{Kind: "Edge", Name: edge}
	if len(o.open[edge]) == 0 {
		delete(o.open, edge)
		o.rows.Delete(tx, object)
		return
	}
	all := slices.SortedFunc(maps.Values(o.open[edge]), func(a, b oldProxy) int {
		return cmp.Or(strings.Compare(a.node, b.node), strings.Compare(a.version, b.version))
	})
	all = slices.Compact(all) // a proxy that reconnects may have two
	var who, versions []string
	for _, p := range all {
		who, versions = append(who, fmt.Sprintf("%s is Envoy %s", p.node, p.version)), append(versions, p.version)
	}
	if more := len(who) - namedProxies; more > 0 {
		who = append(who[:namedProxies], fmt.Sprintf("%d more are as old", more))
	}
	finding := model.WarningOf(object, "", model.ReasonOldProxy,
		"%s: what Spillway sends is for 1.%d and newer. An older one refuses a part of it, or leaves it out without a word, such as the certificates of clients. Start a newer Envoy", strings.Join(who, ", "), oldestMinor)
	o.rows.Set(tx, object, model.Findings{finding})
	slices.Sort(versions)
	if said := strings.Join(slices.Compact(versions), " "); o.told[edge] != said {
		if len(o.told) >= edgesTold {
			clear(o.told)
		}
		o.told[edge] = said
		o.log.Warn("proxies are too old", "edge", edge, "finding", finding.Message)
	}
}
