package rbac_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/eventually"
)

// restEnv is how long members are looked at while nothing happens; not at all without it.
const restEnv = "SPILLWAY_REST"

// writesTo counts the writes of an API server's clients to some resources, by resource and
// verb, as it counts them itself. Tries are none.
func writesTo(t *testing.T, a *admin, resources ...string) map[string]int {
	t.Helper()
	body, err := a.core.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(body)) {
		labels, is := strings.CutPrefix(line, "apiserver_request_total{")
		if !is {
			continue
		}
		labels, value, _ := strings.Cut(labels, "} ")
		at := map[string]string{}
		for pair := range strings.SplitSeq(labels, ",") {
			name, text, _ := strings.Cut(pair, "=")
			at[name] = strings.Trim(text, `"`)
		}
		switch at["verb"] {
		case "GET", "LIST", "WATCH", "CONNECT":
			continue
		}
		for _, r := range resources {
			if at["resource"] == r && at["dry_run"] == "" && at["subresource"] == "" {
				n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				if err != nil {
					t.Fatal(err)
				}
				out[fmt.Sprintf("%s %s %s", at["verb"], r, at["code"])] += int(n)
			}
		}
	}
	return out
}

// TestWritesOfLeaves: an edit of a root is one write in each member that has its leaf, and
// nothing else is: judged by what members count. With SPILLWAY_REST=10m it is looked for
// as long whether anything is written at rest.
func TestWritesOfLeaves(t *testing.T) {
	t.Parallel()
	rest, err := time.ParseDuration(cmp.Or(os.Getenv(restEnv), "0s"))
	if err != nil {
		t.Fatal(err)
	}
	f := newLeafFleet(t)
	for _, m := range f.members {
		m.applyFile("member-leaves.yaml")
	}
	f.start()
	f.root("web", "/")
	f.root("other", "/")
	f.has("web", "/", "eu-1", "eu-2")
	f.has("other", "/", "eu-1", "eu-2")
	f.says("eu-1", "web", `{"ip": "192.0.2.1"}`)
	f.says("eu-2", "web", `{"hostname": "a.lb.example"}`)
	f.addresses("web", "192.0.2.1", "a.lb.example")
	count := func() map[string]map[string]int {
		out := map[string]map[string]int{}
		for name, m := range f.members {
			out[name] = writesTo(t, m, "ingresses", "secrets", "namespaces")
		}
		return out
	}
	before := count()
	f.root("web", "/b")
	f.has("web", "/b", "eu-1", "eu-2")
	f.says("eu-1", "web", `{"ip": "192.0.2.2"}`) // which comes after it
	f.addresses("web", "192.0.2.2", "a.lb.example")
	after := count()
	for name := range f.members {
		want := maps.Clone(before[name])
		want["APPLY ingresses 200"]++
		if !maps.Equal(after[name], want) {
			t.Errorf("%s: an edit took it from %v to %v", name, before[name], after[name])
		}
	}
	if rest == 0 {
		return
	}
	end := time.Now().Add(rest)
	if err := (eventually.Patience{Poll: time.Second}).Await(t.Context(), "rest", func(context.Context) error {
		if left := time.Until(end); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, now := range count() {
		if !maps.Equal(now, after[name]) {
			t.Errorf("%s: %s of rest took it from %v to %v", name, rest, after[name], now)
		}
	}
}
