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

	"github.com/spillway-dev/spillway/internal/model"
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

// TestStories drives streams by the files in testdata: commands, a line
// ----, and what was sent or said. Commands of a story:
//
//	publish [-TYPE/NAME | TYPE/NAME@VERSION[>TYPE/NAME,...]]...   one publish of the view; up to two changes go first
//	                                                              VERSION? is unsure, as is every name of its family: up to a dot
//	                                                              COLLECTION: before some of them: they go there; =COLLECTION,... is what the view is made of from now on
//	view NAME                                                     publishes go to, and the stream moves to, another view
//	hold TYPE... | hold none                                      hold names of these types
//	subscribe TYPE NAME... [NAME=VERSION]...                      a request; NAME=VERSION are initial versions
//	unsubscribe TYPE NAME...
//	world                                                         from now on the client is a gRPC client
//	want TYPE [=VERSION] NAME...                                  its request: all names that it wants
//	ack TYPE [all]                                                acknowledge what is unanswered, once or until there is none
//	settle                                                        every stream acknowledges until nothing is unanswered
//	nack TYPE ERROR                                               reject it
//	tick DURATION
//	reconnect                                                     a new stream that knows nothing
//	stream NAME [VERSION [IDENTITY]]                                  what follows is for another stream, a new one if there is none; "lead" is the one asked first
//	leave                                                         the stream ends; what follows is for the first one
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

// teller is a store with streams, driven by words.
type teller struct {
	store   *Store
	view    string
	streams []*told
	*told   // the one that commands are for
	now     time.Time
	held    map[TypeURL]bool
	envoy   string // version of what connects
	proved  string // identity of what connects
}

// told is one stream.
type told struct {
	name   string // empty for the first
	bell   bell
	class  Class
	face   Face
	member *member
	wanted map[TypeURL][]string // by a gRPC client
	nonces map[TypeURL]string
}

func newTeller() *teller {
	w := &teller{store: NewStore(), held: map[TypeURL]bool{}, now: time.Unix(1000, 0)}
	w.store.now = func() time.Time { return w.now }
	w.store.Families(familyForTests)
	w.store.few = 2
	w.use("main")
	w.stream("")
	return w
}

func (w *teller) use(name string) {
	w.view = name
	c := w.store.collection(name)
	c.published, c.held = true, w.isHeld
}

func (w *teller) isHeld(t TypeURL, _ string) bool { return w.held[t] }

func (w *teller) content() *catalog { return w.member.session.content }

// stream makes a stream the one that commands are for; it connects if it is
// new. The first name is that of the stream that is there.
func (w *teller) stream(name string) {
	if len(w.streams) == 1 && w.name == "" {
		w.name = name
		w.member.session.Speaks(Client{Identity: w.proved, Node: name, Version: w.envoy})
		return
	}
	i := slices.IndexFunc(w.streams, func(x *told) bool {
		return x.name == name || name == "lead" && x.member.session == w.content().rollout.lead
	})
	if i >= 0 {
		w.told = w.streams[i]
		return
	}
	w.told = &told{name: name}
	w.streams = append(w.streams, w.told)
	w.connect()
}

func (w *teller) connect() {
	if w.member != nil {
		w.store.leave(w.member)
	}
	w.face, w.wanted = faceOf(w.class, Limits{ResponseBytes: 120}), map[TypeURL][]string{}
	w.member, w.bell = newMember(w.face.Base())
	w.member.session.Report(Listener, RouteConfiguration)
	w.member.session.Speaks(Client{Identity: w.proved, Node: w.name, Version: w.envoy})
	w.store.follow(w.member, w.view, "")
	w.nonces = map[TypeURL]string{}
}

// leave closes the stream; commands are for the first one then.
func (w *teller) leave() {
	w.store.leave(w.member)
	w.streams = slices.DeleteFunc(w.streams, func(x *told) bool { return x == w.told })
	w.told = w.streams[0]
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
		w.publish(t, args)
	case "view":
		w.use(args[0])
		w.store.follow(w.member, w.view, "")
	case "stream":
		w.envoy, w.proved = "", ""
		if len(args) > 1 {
			w.envoy = args[1]
		}
		if len(args) > 2 {
			w.proved = args[2]
		}
		w.stream(args[0])
	case "leave":
		w.leave()
	case "hold":
		w.held = map[TypeURL]bool{}
		for _, a := range args {
			if a != "none" {
				w.held[shortTypes[a]] = true
			}
		}
		w.member.session.rehold()
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
	case "world":
		w.class = GRPC
		w.connect()
	case "want":
		u := typeOf(t, args[0])
		r := Request{Type: u}
		if len(args) > 1 && strings.HasPrefix(args[1], "=") { // the version_info of an earlier stream
			r.Version, args = args[1], args[1:]
		}
		w.wanted[u] = args[1:]
		w.request(t, r)
	case "ack":
		return w.ack(t, args)
	case "settle":
		return w.settle(t)
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

func (w *teller) publish(t *testing.T, args []string) {
	var c Commit
	to := w.view
	for _, a := range args {
		if list, ok := strings.CutPrefix(a, "="); ok {
			c.Views = append(c.Views, ViewOf{w.view, strings.Split(list, ",")})
			continue
		}
		if in, ok := strings.CutSuffix(a, ":"); ok {
			to = in
			continue
		}
		i := slices.IndexFunc(c.Contents, func(x Content) bool { return x.Collection == to })
		if i < 0 {
			i = len(c.Contents)
			c.Contents = append(c.Contents, Content{Collection: to, Held: w.isHeld})
		}
		c.Contents[i].Changes = append(c.Contents[i].Changes, parseChange(t, a))
	}
	w.store.Commit(c)
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
	version, unsure := strings.CutSuffix(version, "?")
	var refs []Ref
	for _, u := range strings.Split(uses, ",") {
		if word, name, ok := strings.Cut(u, "/"); ok {
			refs = append(refs, Ref{Type: typeOf(t, word), Name: name})
		}
	}
	body := model.BodyOf(nil, refs...)
	if unsure {
		body = model.Doubtful{Body: body, Family: familyForTests(name)}
	}
	ch.Resource = &Resource{Name: name, Version: version, Body: body}
	return ch
}

// familyForTests is what a name begins with, up to a dot.
func familyForTests(name string) string {
	family, _, _ := strings.Cut(name, ".")
	return family
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

func (w *teller) settle(t *testing.T) string {
	out, now := "", w.told
	for again := true; again; {
		again = false
		for _, w.told = range w.streams {
			for _, u := range Types {
				if w.nonces[u] != "" {
					out += w.ack(t, []string{shortOf(u)})
					again = true
				}
			}
		}
	}
	w.told = now
	return out
}

func (w *teller) request(t *testing.T, r Request) {
	r.Names = w.wanted[r.Type]
	if err := w.member.say(w.now, w.face, r); err != nil {
		t.Fatal(err)
	}
}

// flush prints what the stream sends and reports; then the others that were
// woken or have waited long enough.
func (w *teller) flush() string {
	out := w.told.flush(w.now)
	for again := true; again; {
		again = false
		for _, x := range w.streams {
			if x.due(w.now) {
				out += x.flush(w.now)
				again = true
			}
		}
	}
	return out
}

// due tells whether a stream's loop would run now.
func (x *told) due(now time.Time) bool {
	at, ok := x.member.session.Deadline()
	_, late := x.member.session.Overdue(now)
	return x.bell.rang() || ok && !at.After(now) && !late
}

func (x *told) flush(now time.Time) string {
	var out strings.Builder
	var responses []Response
	var verdicts []Verdict
	x.member.step(func(s *Session) { responses, verdicts = x.face.Ready(now), s.Verdicts() })
	who := x.name
	if who != "" {
		who += " "
	}
	for _, r := range responses {
		x.nonces[r.Type] = r.Nonce
		fmt.Fprintf(&out, "%s-> %s", who, shortOf(r.Type))
		for _, res := range r.Resources {
			fmt.Fprintf(&out, " %s@%s", res.Name, res.Version)
		}
		for _, name := range r.Removed {
			fmt.Fprintf(&out, " -%s", name)
		}
		out.WriteString("\n")
	}
	for _, v := range verdicts {
		lone := ""
		if v.Lone {
			lone = "alone "
		}
		fmt.Fprintf(&out, "%s<- %s %s@%s %s%s\n", who, shortOf(v.Type), v.Name, v.Version, lone, cmpOr(v.Error, "ok"))
	}
	return out.String()
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// version returns what the client has, given the current resource.
func (t *topic) version(id uint32, res *resource) string {
	if v, stale := t.staleVersion(id); stale {
		return v
	}
	if res != nil {
		return res.Version
	}
	return ""
}

func (w *teller) state() string {
	var out strings.Builder
	for k := range kinds {
		t := &w.member.session.topics[k]
		if !t.asked {
			continue
		}
		fmt.Fprintf(&out, "%s: has", shortOf(k.url()))
		var has []string
		t.has.each(func(id uint32) bool {
			has = append(has, w.content().name(k, id)+"@"+t.version(id, w.content().get(k, id)))
			return true
		})
		slices.Sort(has)
		fmt.Fprintf(&out, " %v gated %d leaving %d unknown %d quarantined %d", has, len(t.gated), len(t.leaving), len(t.unknown), len(t.quarantine))
		if n := t.waiting.count(); n > 0 {
			fmt.Fprintf(&out, " waiting %d", n)
		}
		out.WriteString("\n")
	}
	if _, timed := w.member.session.Deadline(); timed {
		out.WriteString("waits for time\n")
	}
	return out.String()
}
