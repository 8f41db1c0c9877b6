package leaf_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/zone"
)

// globalText is a row, a site a line.
func globalText(row leaf.GlobalRow) string {
	var out []string
	for _, f := range []struct {
		is   bool
		text string
	}{{!row.Wanted, "unwanted"}, {row.Settled, "settled"}, {row.Urgent, "urgent"}, {row.Delete != "", "delete " + row.Delete}, {row.Release.Len() > 0, "release " + row.Release.String()}} {
		if f.is {
			out = append(out, f.text)
		}
	}
	if row.Wanted {
		out = append(out, fmt.Sprintf("%v serving=%d", row.Want.Hosts, row.Want.Serving))
	}
	lines := []string{strings.Join(out, " ")}
	if n := row.Want; n.MoreHosts+n.MoreSites+n.MoreAddresses > 0 {
		lines = append(lines, fmt.Sprintf("omitted: %d hosts, %d sites, %d addresses", n.MoreHosts, n.MoreSites, n.MoreAddresses))
	}
	for _, s := range row.Want.Sites {
		lines = append(lines, siteText(s))
	}
	return strings.Join(lines, "\n")
}

func siteText(s model.GlobalSite) string {
	kind := "edge"
	if s.Member {
		kind = "member"
	}
	out := fmt.Sprintf("%s %s %s/%s %v %s serving=%v %s", kind, s.Name, s.Region, s.Zone, s.Addresses, map[model.Health]string{model.Up: "up", model.Down: "down"}[s.Health], s.Serving, s.Reason)
	if s.Drain {
		out += " drain"
	}
	if s.Except.Len() > 0 {
		out += fmt.Sprintf(" except %v", s.Except)
	}
	return strings.Join(strings.Fields(out), " ")
}

// published writes what is wanted as a writer does, and as the hub says it then. It
// reports how many objects it wrote.
func published(w *fleettest.World, t *leaf.Tables) int {
	w.Commit()
	writes := 0
	in := w.Program.In.Globals
	w.Graph.Commit(func(tx *inc.Tx) {
		for _, k := range t.Globals.Keys() {
			row, _ := t.Globals.Get(nil, k)
			if row.Settled {
				continue
			}
			writes++
			seen, there := in.Get(nil, k)
			switch {
			case row.Delete != "" && seen.Held.Len() == 0:
				in.Delete(tx, k)
			case row.Delete != "":
				seen.Leaving = 1
				in.Set(tx, k, seen)
			case row.Release.Len() > 0:
				seen.Held = model.TextsOf(slices.DeleteFunc(seen.Held.List(), row.Release.Has))
				if in.Set(tx, k, seen); seen.Held.Len() == 0 {
					in.Delete(tx, k)
				}
			default:
				if !there {
					seen.UID = "uid of " + k.Name
				}
				seen.Ours, seen.Exact, seen.Says = true, true, row.Want
				in.Set(tx, k, seen)
			}
		}
	})
	return writes
}

// globalCommands are for stories:
//
//	publish                                    write what is wanted of GlobalIngresses, and how many writes that takes
//	witness EDGE [stream=W] [probe=W]          who sees it: up, down, down-alone; none: nobody says anything
//	seen NS/NAME [foreign] [leaving] [held=F,…] [drift] [overdue]   what somebody did to one
func globalCommands(t *leaf.Tables, dns *zone.Tables) map[string]fleettest.Command {
	witness := map[string]zone.Witness{"up": {Health: model.Up}, "down": {Health: model.Down}, "down-alone": {Health: model.Down, Alone: true}}
	return map[string]fleettest.Command{
		"publish": func(w *fleettest.World, _ []string) (string, error) {
			return fmt.Sprintf("%d writes", published(w, t)), nil
		},
		"witness": func(w *fleettest.World, words []string) (string, error) {
			a := fleettest.Parse(words, "stream", "probe")
			w.Stage(func(tx *inc.Tx) {
				dns.Witnesses.Set(tx, model.Edge(a.Word(0)), zone.Witnesses{Stream: witness[a.Options["stream"]], Probe: witness[a.Options["probe"]]})
			})
			return "", a.Err
		},
		"seen": func(w *fleettest.World, words []string) (string, error) {
			a := fleettest.Parse(words, "foreign", "leaving", "held", "drift", "overdue")
			ns, name, _ := strings.Cut(a.Word(0), "/")
			k := model.Object{Kind: model.GlobalKind, Namespace: ns, Name: name}
			in := w.Program.In.Globals
			w.Stage(func(tx *inc.Tx) {
				seen, there := in.Get(nil, k)
				if !there {
					seen.UID = "other"
				}
				seen.Ours, seen.Exact = !a.Has("foreign"), !a.Has("drift")
				if a.Has("leaving") {
					seen.Leaving = 1
				}
				seen.Held = model.TextsOf(a.List("held"))
				in.Set(tx, k, seen)
				if a.Has("overdue") {
					w.Program.In.GlobalsOverdue.Set(tx, k, model.There{})
				}
			})
			return "", a.Err
		},
	}
}

// globalEdit draws an edit of a world with edges, members and roots of classes of both.
func globalEdit(t *rapid.T, f fleets) []string {
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	var key, line, gone string
	switch what := pick("kind", "leaf", "leaf", "edge", "witness", "ack", "streams", "config"); what {
	case "leaf":
		return f.edit(t)
	case "edge":
		edge := pick("edge", "fra", "ams")
		key = "edge " + edge
		line = key + " region=eu addresses=" + map[string]string{"fra": "203.0.113.1", "ams": "203.0.113.2"}[edge] + pick("drain", "", "", " drain")
		if edge == "ams" {
			gone = "delete edge ams"
		}
	case "witness":
		key = "witness " + pick("edge", "fra", "ams")
		line = key + pick("stream", "", " stream=up", " stream=down", " stream=down-alone") + pick("probe", "", " probe=up", " probe=down")
	case "ack":
		key = "ack " + pick("edge", "fra", "ams") + " " + pick("host", "h.example", "i.example")
		line, gone = key, "un"+key
	case "streams":
		key = "streams " + pick("edge", "fra", "ams")
		line = key + " " + pick("streams", "1", "0")
	case "config":
		class := pick("class", "l1", "l2", "e")
		key = "config k" + class
		line = key + map[string]string{"l1": " leaf", "l2": " leaf", "e": ""}[class] + pick("global", " global", " global", "")
	}
	if gone != "" && pick("deleted", "no", "no", "yes") == "yes" {
		if _, there := f[key]; !there {
			return nil
		}
		delete(f, key)
		return []string{gone}
	}
	f[key] = line
	return []string{line}
}

func globalWorld(t *rapid.T) (*fleettest.World, *leaf.Tables) {
	var tables *leaf.Tables
	w := fleettest.New(func(g *inc.Graph, p *fleet.Program) map[string]fleettest.Command {
		dns := zone.Declare(g, p)
		tables = leaf.Declare(g, p, leaf.Outputs{Serves: dns.Serves, Sites: dns.Sites(p)})
		return globalCommands(tables, dns)
	})
	if _, err := w.Do("class e config=ke age=1", "config ke global", "edge fra region=eu addresses=203.0.113.1"); err != nil {
		t.Fatal(err)
	}
	w.Commit()
	return w, tables
}

func globalsShown(t *leaf.Tables) string {
	out := fleettest.Rows(t.Globals, func(row leaf.GlobalRow) string { return fmt.Sprintf("%+v", row) })
	return strings.Join(append(out, fleettest.Rows(t.Findings, fleettest.FindingsText)...), "\n")
}

// TestGlobalsFromScratch: what is wanted of GlobalIngresses follows from the inputs, of
// which what they say is one; and once what is wanted is written nothing more is.
func TestGlobalsFromScratch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, tables := globalWorld(t)
		f := fleets{}
		for range rapid.IntRange(1, 40).Draw(t, "edits") {
			if _, err := w.Do(globalEdit(t, f)...); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "commit") {
				w.Commit()
			}
			if rapid.Bool().Draw(t, "publish") {
				published(w, tables)
				if n := published(w, tables); n > 0 {
					t.Fatalf("%v: after it was written %d more are to be written\n%s", f, n, globalsShown(tables))
				}
			}
		}
		w.Commit()
		again, anew := globalWorld(t)
		for _, key := range slices.Sorted(maps.Keys(f)) {
			if _, err := again.Do(f[key]); err != nil {
				t.Fatal(err)
			}
		}
		again.Stage(func(tx *inc.Tx) {
			for _, k := range w.Program.In.Globals.Keys() {
				seen, _ := w.Program.In.Globals.Get(nil, k)
				again.Program.In.Globals.Set(tx, k, seen)
			}
		})
		again.Commit()
		if got, want := globalsShown(tables), globalsShown(anew); got != want {
			t.Fatalf("%v\n\n%s\n\nfrom scratch:\n%s", f, got, want)
		}
	})
}

// TestSilenceWritesNothing: when no witness, no proxy and no member says anything any
// more, as for a process that starts, no GlobalIngress is to be written.
func TestSilenceWritesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, tables := globalWorld(t)
		f := fleets{}
		for range rapid.IntRange(1, 40).Draw(t, "edits") {
			if _, err := w.Do(globalEdit(t, f)...); err != nil {
				t.Fatal(err)
			}
		}
		down := func(line string) bool { return strings.Contains(line, "down") }
		for key, line := range f { // an edge that is down is one again until it is known to be
			if strings.HasPrefix(key, "witness ") && down(line) {
				if _, err := w.Do(key + " stream=up probe=up"); err != nil {
					t.Fatal(err)
				}
			}
		}
		published(w, tables)
		before := globalsShown(tables)
		if _, err := w.Do("streams fra -", "streams ams -", "witness fra", "witness ams"); err != nil {
			t.Fatal(err)
		}
		for _, k := range w.Program.In.LeafStates.Keys() {
			w.Stage(func(tx *inc.Tx) { w.Program.In.LeafStates.Delete(tx, k) })
		}
		for _, m := range w.Program.In.Members.Keys() {
			w.Stage(func(tx *inc.Tx) { w.Program.In.Sources.Delete(tx, m) })
			spec, _ := w.Program.In.Members.Get(nil, m)
			spec.Seen = true
			w.Stage(func(tx *inc.Tx) { w.Program.In.Members.Set(tx, m, spec) })
		}
		if n := published(w, tables); n > 0 {
			t.Fatalf("%d writes: %v\n\n%s\n\nbefore:\n%s", n, f, globalsShown(tables), before)
		}
	})
}
