package xds

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write what the stories in testdata say now")

// shortTypes are the words of the stories.
var shortTypes = map[string]TypeURL{
	"cluster": Cluster, "assignment": ClusterLoadAssignment, "listener": Listener,
	"scope": ScopedRoute, "routes": RouteConfiguration, "secret": Secret,
}

func shortOf(t TypeURL) string {
	for s, u := range shortTypes {
		if u == t {
			return s
		}
	}
	return string(t)
}

// TestStories drives one session by the files in testdata: commands, a line
// ----, and what was sent or said. Commands of a story:
//
//	publish [-TYPE/NAME | TYPE/NAME@VERSION[>TYPE/NAME,...]]...   one publish of the view
//	edit ...                                                      the same, as the store does with a few changes: they go first
//	view NAME                                                     publishes go to, and the stream moves to, another view
//	hold TYPE... | hold none                                      hold names of these types
//	subscribe TYPE NAME... [NAME=VERSION]...                      a request; NAME=VERSION are initial versions
//	unsubscribe TYPE NAME...
//	ack TYPE [all]                                                acknowledge what is unanswered, once or until there is none
//	nack TYPE ERROR                                               reject it
//	tick DURATION
//	reconnect                                                     a new stream that knows nothing
//	state                                                         what the session keeps
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { runStory(t, f) })
	}
}

func runStory(t *testing.T, path string) {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w := newTeller()
	var out strings.Builder
	for _, block := range strings.Split(strings.TrimSpace(string(raw)), "\n\n") {
		input, _, _ := strings.Cut(block+"\n", "----\n")
		out.WriteString(input)
		got := w.run(t, input)
		if strings.Contains(block, "----") || got != "" {
			out.WriteString("----\n" + got)
		}
		out.WriteString("\n")
	}
	got := strings.TrimSpace(out.String()) + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != string(raw) {
		t.Errorf("the story went otherwise (run with -update to see the difference in git):\n%s", got)
	}
}

// teller is a store with a session, driven by words.
type teller struct {
	views   map[string]*catalog
	current *catalog
	session *Session
	now     time.Time
	held    map[TypeURL]bool
	nonces  map[TypeURL]string
}

func newTeller() *teller {
	w := &teller{views: map[string]*catalog{}, held: map[TypeURL]bool{}, now: time.Unix(1000, 0)}
	w.use("main")
	w.connect()
	return w
}

func (w *teller) use(name string) {
	c, ok := w.views[name]
	if !ok {
		c = &catalog{held: func(t TypeURL, _ string) bool { return w.held[t] }}
		w.views[name] = c
	}
	w.current = c
}

func (w *teller) connect() {
	if w.session != nil {
		w.session.Attach(w.now, &catalog{})
	}
	w.session = NewSession(Limits{ResponseBytes: 120})
	w.session.Report(Listener, RouteConfiguration)
	w.session.Attach(w.now, w.current)
	w.nonces = map[TypeURL]string{}
}

func (w *teller) run(t *testing.T, input string) string {
	var out strings.Builder
	sc := bufio.NewScanner(strings.NewReader(input))
	for sc.Scan() {
		line := sc.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		out.WriteString(w.command(t, words[0], words[1:]))
	}
	return out.String()
}

func (w *teller) command(t *testing.T, verb string, args []string) string {
	switch verb {
	case "publish":
		w.publish(t, args, false)
	case "edit":
		w.publish(t, args, true)
	case "view":
		w.use(args[0])
		w.session.Attach(w.now, w.current)
	case "hold":
		w.held = map[TypeURL]bool{}
		for _, a := range args {
			if a != "none" {
				w.held[shortTypes[a]] = true
			}
		}
		w.session.rehold()
	case "subscribe", "unsubscribe":
		r := Request{Type: typeOf(t, args[0])}
		for _, a := range args[1:] {
			name, version, initial := strings.Cut(a, "=")
			switch {
			case initial:
				if r.Initial == nil {
					r.Initial = map[string]string{}
				}
				r.Initial[name] = version
			case verb == "subscribe":
				r.Subscribe = append(r.Subscribe, name)
			default:
				r.Unsubscribe = append(r.Unsubscribe, name)
			}
		}
		w.request(t, r)
	case "ack":
		return w.ack(t, args)
	case "nack":
		u := typeOf(t, args[0])
		r := Request{Type: u, Nonce: w.nonces[u], Rejected: true, Error: strings.Join(args[1:], " ")}
		delete(w.nonces, u)
		w.request(t, r)
	case "tick":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(d)
	case "reconnect":
		w.connect()
	case "state":
		return w.state()
	default:
		t.Fatalf("no command %q", verb)
	}
	return w.flush()
}

func typeOf(t *testing.T, word string) TypeURL {
	u, ok := shortTypes[word]
	if !ok {
		u = TypeURL(word)
		if !strings.Contains(word, ".") {
			t.Fatalf("no type %q", word)
		}
	}
	return u
}

func (w *teller) publish(t *testing.T, args []string, hurry bool) {
	var marks []rowID
	var olds []string
	for _, a := range args {
		ch := parseChange(t, a)
		if row, old, changed := w.current.put(ch); changed {
			marks, olds = append(marks, row), append(olds, old)
		}
	}
	for i, m := range marks {
		w.session.mark(w.now, m, olds[i])
		if hurry {
			w.session.hurry(m)
		}
	}
	w.current.sweep()
}

func parseChange(t *testing.T, a string) Change {
	del := strings.HasPrefix(a, "-")
	a = strings.TrimPrefix(a, "-")
	a, uses, _ := strings.Cut(a, ">")
	a, version, _ := strings.Cut(a, "@")
	word, name, _ := strings.Cut(a, "/")
	ch := Change{Type: typeOf(t, word), Name: name}
	if del {
		return ch
	}
	ch.Resource = &Resource{Name: name, Version: version}
	for _, u := range strings.Split(uses, ",") {
		if word, name, ok := strings.Cut(u, "/"); ok {
			ch.Resource.Refs = append(ch.Resource.Refs, Ref{typeOf(t, word), name})
		}
	}
	return ch
}

func (w *teller) ack(t *testing.T, args []string) string {
	u := typeOf(t, args[0])
	all := len(args) > 1
	out := ""
	for w.nonces[u] != "" {
		r := Request{Type: u, Nonce: w.nonces[u]}
		delete(w.nonces, u)
		w.request(t, r)
		out += w.flush()
		if !all {
			break
		}
	}
	return out
}

func (w *teller) request(t *testing.T, r Request) {
	if err := w.session.Request(w.now, r); err != nil {
		t.Fatal(err)
	}
}

// flush prints what the session sends and reports.
func (w *teller) flush() string {
	var out strings.Builder
	for _, r := range w.session.Ready(w.now) {
		w.nonces[r.Type] = r.Nonce
		fmt.Fprintf(&out, "-> %s", shortOf(r.Type))
		for _, res := range r.Resources {
			fmt.Fprintf(&out, " %s@%s", res.Name, res.Version)
		}
		for _, name := range r.Removed {
			fmt.Fprintf(&out, " -%s", name)
		}
		out.WriteString("\n")
	}
	for _, v := range w.session.Verdicts() {
		fmt.Fprintf(&out, "<- %s %s@%s %s\n", shortOf(v.Type), v.Name, v.Version, cmpOr(v.Error, "ok"))
	}
	return out.String()
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (w *teller) state() string {
	var out strings.Builder
	for k := range kinds {
		t := &w.session.topics[k]
		if !t.asked {
			continue
		}
		fmt.Fprintf(&out, "%s: has", shortOf(k.url()))
		var has []string
		t.has.each(func(id uint32) bool {
			has = append(has, w.current.name(k, id)+"@"+t.version(id, w.current.get(k, id)))
			return true
		})
		slices.Sort(has)
		fmt.Fprintf(&out, " %v gated %d leaving %d unknown %d quarantined %d\n", has, len(t.gated), len(t.leaving), len(t.unknown), len(t.quarantine))
	}
	if _, timed := w.session.Deadline(); timed {
		out.WriteString("waits for time\n")
	}
	return out.String()
}
