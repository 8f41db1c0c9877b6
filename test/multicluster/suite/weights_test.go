package suite

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

var weights = []test{
	{
		name:        "WeightsAcrossMembers",
		description: "Requests are split by weight among backends in different members; weight 0 gets none.",
		kinds:       both,
		run:         weightsAcrossMembers,
	},
	{
		name:        "WeightsWithBackendNowhere",
		description: "The part of a backend that no member has is answered 500, and the rest is served.",
		kinds:       both,
		run:         weightsWithBackendNowhere,
	},
	{
		name:        "WeightsOfServiceAndServiceImport",
		description: "Requests are split by weight between a Service and a ServiceImport of one rule.",
		needs:       []string{featureService},
		kinds:       imports,
		run:         weightsOfBothKinds,
	},
}

// part is who gets which weight.
type part struct {
	who    string // a Service's name, or a status
	weight int
}

func weightsAcrossMembers(w *world) {
	r := request{address: w.gateway()}
	var parts []part
	for i, m := range w.members {
		w.offers("in-"+m.name, m)
		parts = append(parts, part{"in-" + m.name, 2*i + 1})
	}
	w.offers("none", w.members...)
	parts = append(parts, part{"none", 0})
	w.route("split", w.splitRule(parts))
	w.resolved("split")
	w.split(r, parts)
}

func weightsWithBackendNowhere(w *world) {
	r := request{address: w.gateway()}
	m := w.members[1]
	w.offers("in-"+m.name, m)
	parts := []part{{"in-" + m.name, 3}, {"nowhere", 1}}
	w.route("split", w.splitRule(parts))
	w.accepted("split")
	w.split(r, []part{parts[0], {"500", 1}})
}

func weightsOfBothKinds(w *world) {
	r := request{address: w.gateway()}
	exports, has := w.members[0], w.members[1]
	w.offers("exported", exports)
	w.hasService("local", has)
	w.route("split", "[{backendRefs: ["+refTo(service, "local", port, "weight: 9")+", "+refTo(serviceImport, "exported", port, "weight: 1")+"]}]")
	w.resolved("split")
	w.split(r, []part{{"local", 9}, {"exported", 1}})
}

func (w *world) splitRule(parts []part) string {
	var refs []string
	for _, p := range parts {
		refs = append(refs, refTo(w.kind, p.who, port, fmt.Sprint("weight: ", p.weight)))
	}
	return "[{backendRefs: [" + strings.Join(refs, ", ") + "]}]"
}

// who answered: a Service, or nobody but a status.
func who(a answer) string {
	switch {
	case a.err != nil:
		return "no answer"
	case a.backend != "":
		return a.backend
	}
	return strconv.Itoa(a.status)
}

// seen returns when somebody has answered.
func (w *world) seen(r request, somebody string) {
	w.Helper()
	w.await("an answer of "+somebody, func(ctx context.Context) error {
		if a := w.ask(ctx, r); who(a) != somebody {
			return fmt.Errorf("asked %s, and came %s", r, a)
		}
		return nil
	})
}

const draws = 1000

// split demands that requests are split so. It waits until each part that should be
// answered was once: before that the implementation may have another route.
func (w *world) split(r request, parts []part) {
	w.Helper()
	total := 0
	for _, p := range parts {
		total += p.weight
		if p.weight > 0 {
			w.seen(r, p.who)
		}
	}
	got := map[string]int{}
	for range draws {
		got[who(w.ask(w.Context(), r))]++
	}
	sum := 0
	for _, p := range parts {
		sum += got[p.who]
		expected, chance := share(draws, p.weight, total)
		if math.Abs(float64(got[p.who])-expected) > chance {
			w.Errorf("asked %d times %s, expected %.0f (within %.0f) from %s, and came %d (all: %v)", draws, r, expected, chance, p.who, got[p.who], got)
		}
	}
	if sum != draws {
		w.Errorf("asked %d times %s, expected answers of %v alone, and came %v", draws, r, parts, got)
	}
	w.Logf("%v of %v", got, parts)
}

// share is how many of some draws fall to a part, and by how much they may differ by
// chance: five times the standard deviation of a binomial distribution, which one draw in
// 1.7 million does not keep.
func share(draws, weight, total int) (expected, within float64) {
	p := float64(weight) / float64(total)
	n := float64(draws)
	return n * p, 5 * math.Sqrt(n*p*(1-p))
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		draws, weight, total int
		expected, within     float64
	}{
		{1000, 1, 4, 250, 68.5},
		{1000, 0, 4, 0, 0},
		{1000, 4, 4, 1000, 0},
		{100, 1, 2, 50, 25},
	} {
		expected, within := share(c.draws, c.weight, c.total)
		if expected != c.expected || math.Abs(within-c.within) > 0.1 {
			t.Errorf("%+v: %v within %v", c, expected, within)
		}
	}
}
