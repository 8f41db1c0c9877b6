package syncer

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/syncer/syncertest"
)

// What may happen to a root while a part of the fleet is away is a table in
// docs/leaves.md, and each of its cells a test here.

// event is what happens to a root: what it says before and after; nil: it is not there.
type event struct{ before, after map[string]any }

var events = map[string]event{
	"create":      {nil, map[string]any{"path": "/"}},
	"edit":        {map[string]any{"path": "/"}, map[string]any{"path": "/v2"}},
	"delete":      {map[string]any{"path": "/"}, nil},
	"key rotated": {map[string]any{"tls.key": "old"}, map[string]any{"tls.key": "new"}},
}

// absences are who is away while that happens, and how it comes back.
var absences = map[string]func(*away){
	"hub away": func(w *away) {
		w.hubAway(true)
		w.happen()
		w.still()
		w.drift() // what is known is kept up meanwhile
		w.hubAway(false)
	},
	"member away": func(w *away) {
		w.memberAway(true)
		w.happen()
		w.pause()
		w.still()
		w.memberAway(false)
	},
	"both away": func(w *away) {
		w.hubAway(true)
		w.memberAway(true)
		w.happen()
		w.restart() // and serve starts, without a checkpoint
		w.pause()
		w.still()
		w.memberAway(false)
		w.pause()
		w.still()
		w.hubAway(false)
	},
	"member returns older": func(w *away) {
		old := w.f.Snapshot()
		w.happen()
		w.reached()
		w.f.Restore(old, false)
		w.pause()
		w.reached()
		w.f.Restore(old, true) // and goes on with versions that were used before
	},
	"member returns wiped": func(w *away) {
		w.happen()
		w.reached()
		w.wiped = true
		w.f.Restore(map[string]*unstructured.Unstructured{}, false)
	},
	"hub restored from a backup": func(w *away) {
		backup := maps.Clone(w.roots)
		w.happen()
		w.reached()
		w.roots = backup
		w.restart()
		w.hubAway(false)
	},
}

// away is a hub with roots, serve that hears of them, and a member with their leaves.
type away struct {
	t      *testing.T
	m      *member
	f      *syncertest.API
	r      *run
	event  event
	roots  map[string]map[string]any // on the hub
	heard  map[string]map[string]any // by serve
	cut    bool                      // the hub is away
	wiped  bool                      // what is of others is gone, too
	others map[string]string         // objects that are not ours, as they were
}

// TestGoingAway: whatever happens while whoever is away, what is wanted is reached when
// all are back, nothing of ours is left over, and nothing of others was touched.
func TestGoingAway(t *testing.T) {
	for what, event := range events {
		for who, absent := range absences {
			t.Run(what+", "+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newAway(t, event)
					absent(w)
					w.pause()
					w.reached()
					if len(w.f.Wrong) > 0 {
						t.Errorf("written over what is not ours: %v", w.f.Wrong)
					}
				})
			})
		}
	}
}

// TestTheTableOfGoingAway: the table in the documentation has the cells that are tested,
// and no others.
func TestTheTableOfGoingAway(t *testing.T) {
	data, err := os.ReadFile("../../docs/leaves.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(data), "## Going away\n")
	if !found {
		t.Fatal("there is no such table")
	}
	var columns, rows []string
	for line := range strings.SplitSeq(text, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !strings.HasPrefix(line, "|") && columns == nil, strings.HasPrefix(line, "|--"):
		case !strings.HasPrefix(line, "|"):
			slices.Sort(rows)
			slices.Sort(columns)
			if want := slices.Sorted(maps.Keys(events)); !slices.Equal(rows, want) {
				t.Errorf("rows %v, tested are %v", rows, want)
			}
			if want := slices.Sorted(maps.Keys(absences)); !slices.Equal(columns, want) {
				t.Errorf("columns %v, tested are %v", columns, want)
			}
			return
		case columns == nil:
			columns = cells[1:]
		default:
			rows = append(rows, cells[0])
			if slices.Contains(cells, "") || len(cells) != len(columns)+1 {
				t.Errorf("a cell says nothing: %s", line)
			}
		}
	}
	t.Fatal("the table does not end")
}

const other = "kept" // a root that nothing happens to

func newAway(t *testing.T, e event) *away {
	m, f := fakeMember(t)
	w := &away{t: t, m: m, f: f, event: e, roots: map[string]map[string]any{other: {"path": "/kept"}}, heard: map[string]map[string]any{}, others: map[string]string{}}
	if e.before != nil {
		w.roots["x"] = e.before
	}
	for name, hub := range map[string]string{"theirs": "", "of-another-hub": "another"} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"of": "them"}}}
		o.SetName(name)
		if hub != "" {
			o.SetLabels(map[string]string{v1alpha1.LabelHub: hub})
		}
		w.others[name] = string(m.create(configMaps, o).GetUID())
	}
	w.restart()
	w.hubAway(false)
	w.pause()
	w.reached()
	return w
}

// restart is a serve that knows nothing but what the hub says.
func (w *away) restart() {
	if w.r != nil {
		w.r.end()
	}
	w.heard = map[string]map[string]any{}
	w.r = w.m.run(nil, configMaps)
}

func (w *away) hubAway(is bool) {
	w.cut = is
	w.hear()
}

// hear tells serve what the hub says, if it is there: all of it.
func (w *away) hear() {
	if w.cut {
		return
	}
	for name, data := range w.roots {
		if !maps.Equal(w.heard[name], data) {
			key, leaf := w.m.configMap(name, maps.Clone(data))
			if data["tls.key"] != nil {
				leaf.Root.Kind = "Secret"
			}
			w.r.Want(key, leaf)
		}
	}
	for name := range w.heard {
		if w.roots[name] == nil {
			w.r.Want(w.m.key(configMaps, name), nil)
		}
	}
	w.heard = maps.Clone(w.roots)
	w.r.Complete()
}

// happen has the event happen on the hub.
func (w *away) happen() {
	if delete(w.roots, "x"); w.event.after != nil {
		w.roots["x"] = w.event.after
	}
	w.hear()
	if !w.cut {
		w.pause()
	}
}

func (w *away) memberAway(is bool) {
	w.f.Mu.Lock()
	if w.f.Answer = nil; is {
		w.f.Answer = func(r *http.Request) int {
			if r.Header.Get(syncertest.HubHeader) != "" {
				return http.StatusServiceUnavailable
			}
			return 0
		}
	}
	w.f.Mu.Unlock()
	if is {
		w.f.Cut(false)
	}
}

// pause is long enough for all that has to be done, and tried again.
func (w *away) pause() { time.Sleep(2 * relist) }

// drift has somebody change the other leaf, which is put right.
func (w *away) drift() {
	w.t.Helper()
	key := w.m.key(configMaps, other)
	w.m.patch(key, `{"data":{"path":"/theirs"}}`)
	w.pause()
	if got := at(w.m.get(key), "data", "path"); got != "/kept" {
		w.t.Errorf("what is known is not kept up: %v", got)
	}
}

// still checks that the member has what it had before the event.
func (w *away) still() {
	w.t.Helper()
	before := maps.Clone(w.roots)
	if delete(before, "x"); w.event.before != nil {
		before["x"] = w.event.before
	}
	w.has(before)
}

// reached checks that the member has what the hub says.
func (w *away) reached() {
	w.t.Helper()
	w.has(w.roots)
}

func (w *away) has(want map[string]map[string]any) {
	w.t.Helper()
	for id, o := range w.f.Snapshot() {
		name := strings.TrimPrefix(id, w.m.namespace+"/")
		switch uid, theirs := w.others[name]; {
		case theirs && uid != string(o.GetUID()):
			w.t.Errorf("%s is another", name)
		case !theirs && want[name] == nil:
			w.t.Errorf("%s is there", name)
		}
	}
	for name, data := range want {
		if o := w.m.get(w.m.key(configMaps, name)); o == nil || fmt.Sprint(at(o, "data")) != fmt.Sprint(data) || ownerOf(o, w.m.hub) != ours {
			w.t.Errorf("%s is %v, want %v", name, o, data)
		}
	}
	for name := range w.others {
		if !w.wiped && w.m.get(w.m.key(configMaps, name)) == nil {
			w.t.Errorf("%s is gone", name)
		}
	}
}
