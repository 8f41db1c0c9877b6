package xds

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/model"
)

// byParent has "*.a" for "x.a", and "*." for every name with a dot.
func byParent(limit int) Aliases {
	return Aliases{
		Type: Secret, Limit: limit,
		For: func(name string) iter.Seq[string] {
			return func(yield func(string) bool) {
				_, parent, dotted := strings.Cut(name, ".")
				_ = dotted && (parent == "" || yield("*."+parent)) && yield("*.")
			}
		},
		Covers: func(published, name string) bool {
			_, parent, dotted := strings.Cut(name, ".")
			return dotted && (published == "*." || published == "*."+parent && parent != "")
		},
		Body: func(body []byte, name string) []byte { return append(body[:len(body):len(body)], " for "+name...) },
	}
}

// asker is a client that follows secrets by name, and what it holds.
type asker struct {
	t        testing.TB
	store    *Store
	member   *member
	wants    map[string]bool
	holds    map[string]string // bodies
	versions map[string]string
	flight   []Response
	refused  []string // names that it was told are absent
}

func newAsker(t testing.TB, s *Store, view string) *asker {
	b := &asker{t: t, store: s, wants: map[string]bool{}, holds: map[string]string{}, versions: map[string]string{}}
	b.member, _ = newMember(NewSession(Limits{Grace: time.Second}))
	s.follow(b.member, view, "")
	return b
}

func (b *asker) say(r Request) {
	r.Type = Secret
	if err := b.member.say(b.store.now(), b.member.session, r); err != nil {
		b.t.Fatal(err)
	}
}

func (b *asker) ask(names ...string) {
	for _, name := range names {
		b.wants[name] = true
	}
	b.say(Request{Subscribe: names})
}

func (b *asker) leave(name string) {
	delete(b.wants, name)
	delete(b.holds, name)
	delete(b.versions, name)
	b.say(Request{Unsubscribe: []string{name}})
}

// reconnect opens a new stream, on which the client says what it has.
func (b *asker) reconnect() {
	view := b.member.group.key.view
	b.store.leave(b.member)
	b.member, _ = newMember(NewSession(Limits{Grace: time.Second}))
	b.store.follow(b.member, view, "")
	b.flight = nil
	b.say(Request{Subscribe: slices.Sorted(maps.Keys(b.wants)), Initial: maps.Clone(b.versions)})
}

// look takes what is ready; answer applies and acknowledges one response.
func (b *asker) look() {
	b.member.step(func(s *Session) { b.flight = append(b.flight, s.Ready(b.store.now())...) })
}

func (b *asker) answer() bool {
	if len(b.flight) == 0 {
		return false
	}
	r := b.flight[0]
	b.flight = b.flight[1:]
	for _, res := range r.Resources {
		if b.wants[res.Name] {
			b.holds[res.Name], b.versions[res.Name] = string(res.Bytes()), res.Version
		}
	}
	for _, name := range r.Removed {
		delete(b.holds, name)
		delete(b.versions, name)
		b.refused = append(b.refused, name)
	}
	b.say(Request{Nonce: r.Nonce})
	return true
}

// settle answers everything until nothing is left, also what waits for a grace.
func (b *asker) settle(advance func()) {
	for range 4 {
		for more := true; more; more = b.answer() {
			b.look()
		}
		advance()
	}
}

func aliasStore(limit int) (s *Store, advance func()) {
	now := time.Unix(0, 0)
	s = NewStore()
	s.now = func() time.Time { return now }
	s.Alias(byParent(limit))
	return s, func() { now = now.Add(time.Minute) }
}

func secretNamed(name, version string) Change {
	if version == "" {
		return Change{Type: Secret, Name: name}
	}
	return Change{Secret, name, &Resource{Name: name, Version: version + " of " + name, Body: model.Bytes(version)}}
}

func TestAliases(t *testing.T) {
	s, advance := aliasStore(0)
	b := newAsker(t, s, "v")
	expect := func(when string, want map[string]string) {
		t.Helper()
		b.settle(advance)
		if !maps.Equal(b.holds, want) {
			t.Errorf("%s it holds %v, want %v", when, b.holds, want)
		}
	}
	b.ask("x.a")
	expect("before the first publish", nil)
	s.Publish("v", []Change{secretNamed("*.a", "1")})
	expect("what was asked for before", map[string]string{"x.a": "1 for x.a"})
	b.ask("y.a", "x.b")
	expect("asked for later", map[string]string{"x.a": "1 for x.a", "y.a": "1 for y.a"})
	s.Publish("v", []Change{secretNamed("*.a", "2")})
	expect("after a rotation", map[string]string{"x.a": "2 for x.a", "y.a": "2 for y.a"})
	s.Publish("v", []Change{secretNamed("x.a", "own")})
	expect("with its own", map[string]string{"x.a": "own", "y.a": "2 for y.a"})
	s.Publish("v", []Change{secretNamed("x.a", ""), secretNamed("*.", "any")})
	expect("without its own, and with one for everybody", map[string]string{"x.a": "2 for x.a", "y.a": "2 for y.a", "x.b": "any for x.b"})
	s.Publish("v", []Change{secretNamed("*.a", "")})
	expect("without the best", map[string]string{"x.a": "any for x.a", "y.a": "any for y.a", "x.b": "any for x.b"})
	s.Publish("v", []Change{secretNamed("*.", "")})
	expect("without any", nil)
	slices.Sort(b.refused)
	if want := []string{"x.a", "x.b", "x.b", "y.a"}; !slices.Equal(b.refused, want) { // x.b twice: at first, and at the end
		t.Errorf("it was told that these are absent: %v, want %v", b.refused, want)
	}
}

// A name that is unknown is said to be absent at once, and leaves no trace.
func TestUnknownNamesAreForgotten(t *testing.T) {
	s, advance := aliasStore(0)
	s.Publish("v", []Change{secretNamed("*.a", "1")})
	b := newAsker(t, s, "v")
	for i := range 1000 {
		name := fmt.Sprintf("x%d.b", i)
		b.ask(name)
		b.look()
		if len(b.flight) != 1 || !slices.Equal(b.flight[0].Removed, []string{name}) {
			t.Fatalf("%s is answered %+v", name, b.flight)
		}
		b.answer()
		b.leave(name)
	}
	b.settle(advance)
	if c := s.see("v"); len(c.of[secret].ids) != 1 || len(c.aliases.users) != 0 {
		t.Errorf("%d names are kept", len(c.of[secret].ids))
	}
}

// However many names a client asks for, it has as many as the limit: the oldest is
// withdrawn, and sent again when it is asked for again.
func TestAliasesAreBounded(t *testing.T) {
	const limit = 10
	s, advance := aliasStore(limit)
	s.Publish("v", []Change{secretNamed("*.a", "1"), secretNamed("own.a", "own")})
	b := newAsker(t, s, "v")
	b.ask("own.a")
	for i := range 100 {
		name := fmt.Sprintf("x%d.a", i)
		b.ask(name)
		b.look()
		b.answer()
		if b.holds[name] == "" {
			t.Fatalf("%s was not answered", name)
		}
		b.settle(advance)
		for _, name := range b.refused { // as Envoy does
			b.leave(name)
		}
		b.refused = nil
	}
	if len(b.holds) != limit+1 || b.holds["own.a"] != "own" || b.holds["x99.a"] == "" {
		t.Errorf("it holds %v", b.holds)
	}
	if c := s.see("v"); len(c.aliases.rows) != limit || len(c.aliases.users) != limit {
		t.Errorf("%d aliases for %d", len(c.aliases.rows), len(c.aliases.users))
	}
	b.ask("x0.a")
	b.settle(advance)
	if b.holds["x0.a"] != "1 for x0.a" {
		t.Error("x0.a is not sent again")
	}
}

// After any publishes, requests, moves and answers, in any order, a client holds
// for each name that it wants what the view has for it, but for those that are not
// published themselves and that it gave up for newer ones.
func TestAskersHoldWhatTheirViewHas(t *testing.T) {
	views := []string{"v", "w"}
	names := []string{"x.a", "y.a", "x.b", "*.a", "*.b", "*.", "plain"}
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(rt, "limit")
		s, advance := aliasStore(limit)
		clients := []*asker{newAsker(t, s, "v"), newAsker(t, s, "v")}
		published := map[string]map[string]string{"v": {}, "w": {}}
		version := 0
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			c := rapid.SampledFrom(clients).Draw(rt, "client")
			view, name := rapid.SampledFrom(views).Draw(rt, "view"), rapid.SampledFrom(names).Draw(rt, "name")
			switch rapid.SampledFrom([]string{"publish", "publish", "delete", "ask", "ask", "leave", "move", "reconnect", "look", "answer", "answer", "wait"}).Draw(rt, "step") {
			case "publish":
				version++
				published[view][name] = fmt.Sprint(version)
				s.Publish(view, []Change{secretNamed(name, published[view][name])})
			case "delete":
				delete(published[view], name)
				s.Publish(view, []Change{secretNamed(name, "")})
			case "ask":
				c.ask(name)
			case "leave":
				c.leave(name)
			case "move":
				s.follow(c.member, view, "")
			case "reconnect":
				c.reconnect()
			case "look":
				c.look()
			case "answer":
				c.answer()
			case "wait":
				advance()
			}
		}
		for _, view := range views {
			s.Publish(view, nil) // one that was never published says nothing is absent
		}
		for _, id := range views {
			checkAliases(rt, s.group(groupKey{id, ""}))
		}
		for _, c := range clients {
			c.settle(advance)
			view, want := c.member.group.key.view, map[string]string{}
			for name := range c.wants {
				v := resolved(published[view], name)
				id, known := s.names.find(secret, name)
				if gaveUp := known && c.member.session.unpublished.givenUp.has(id); v != "" && !gaveUp {
					want[name] = v
				}
			}
			if !maps.Equal(c.holds, want) {
				rt.Fatalf("in %s, which has %v, it holds %v, want %v", view, published[view], c.holds, want)
			}
		}
	})
}

// checkAliases: each name that a session follows and its view does not publish it
// has, or gave up; it has no more than it may; and the view has rows for just those
// that some session has.
func checkAliases(t interface{ Fatalf(string, ...any) }, g *group) {
	c, users := &g.content, map[uint32]int{}
	for _, m := range g.members {
		u := &m.session.unpublished
		for _, turns := range []turns{u.known, u.unknown} {
			if len(turns.at) > c.aliases.Limit {
				t.Fatalf("a session has %d names", len(turns.at))
			}
			for id := range turns.at {
				users[id]++
			}
		}
		m.session.topics[secret].sub.each(func(id uint32) bool {
			res := c.get(secret, id)
			is := []bool{res != nil && res.source() == nil, u.known.at[id] > 0, u.unknown.at[id] > 0, u.givenUp.has(id)}
			one := slices.DeleteFunc(slices.Clone(is), func(b bool) bool { return !b })
			if len(one) != 1 || is[1] && res == nil || is[2] && res != nil {
				t.Fatalf("%s: published, known, unknown, given up: %v; there is %v", c.name(secret, id), is, res)
			}
			return true
		})
	}
	if !maps.Equal(users, c.aliases.users) {
		t.Fatalf("users are %v, want %v", c.aliases.users, users)
	}
	for id := range c.aliases.rows {
		if users[id] == 0 {
			t.Fatalf("%s is there for nobody", c.name(secret, id))
		}
	}
}

// resolved is what a view has for a name, looked up afresh.
func resolved(published map[string]string, name string) string {
	if v := published[name]; v != "" {
		return v
	}
	for from := range byParent(0).For(name) {
		if v := published[from]; v != "" && from != name {
			return v + " for " + name
		}
	}
	return ""
}

// BenchmarkSettleAliases is a publish of one secret among 50,000, in a view of which
// a client has as many aliases as it may.
func BenchmarkSettleAliases(b *testing.B) {
	s, _ := aliasStore(0)
	var all []Change
	for i := range 50_000 {
		all = append(all, secretNamed(fmt.Sprintf("own%d.b", i), "1"))
	}
	s.Publish("v", append(all, secretNamed("*.a", "1")))
	c := newAsker(b, s, "v")
	for i := range aliasLimit {
		c.ask(fmt.Sprintf("x%d.a", i))
	}
	for i := 0; b.Loop(); i++ {
		s.Publish("v", []Change{secretNamed("own7.b", fmt.Sprint(i))})
	}
}

// TestRotationLooksAtNoName: what there is for names is looked up anew only where
// a certificate that changed covers them.
func TestRotationLooksAtNoName(t *testing.T) {
	s, looked := NewStore(), 0
	s.Alias(Aliases{
		Type:   Secret,
		Covers: func(published, name string) bool { return published == "new" },
		For:    func(name string) iter.Seq[string] { looked++; return slices.Values([]string(nil)) },
	})
	publish := func(name, version string) int {
		looked = 0
		s.Publish("v", []Change{{Secret, name, &Resource{Name: name, Version: version}}})
		return looked
	}
	publish("tls", "1")
	b := newAsker(t, s, "v")
	b.ask(many(1000, 10)...)
	if n := publish("tls", "2"); n != 0 {
		t.Errorf("a rotation looked for %d names", n)
	}
	if n := publish("new", "1"); n != 1000 {
		t.Errorf("a new certificate was looked at for %d names", n)
	}
}
