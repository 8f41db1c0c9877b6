package xds

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// crew is several strict Envoys of two edges over two views of one store, which
// they may follow as they like. Each stream runs only when its loop would: for a
// message, when woken, or when it is time.
type crew struct {
	*world  // edits and names only
	store   *Store
	proxies [4]*crewed
	told    [2][edges]map[Ref]*toldRefusal // what an operator is told, by view and edge
}

const edges = 2

// toldRefusal is a resource that clients are said to refuse.
type toldRefusal struct {
	version string
	by      map[string]bool
}

type crewed struct {
	name     string
	identity string
	version  string // of its Envoy
	view     int
	edge     int
	member   *member // nil while disconnected
	bell     bell
	client   *envoyModel
	toClient []Response
}

func newCrew(t *rapid.T) *crew {
	c := &crew{world: &world{t: t, now: time.Unix(1000, 0), bad: rapid.Bool().Draw(t, "bad")}}
	for i := range c.desired {
		c.desired[i] = map[Ref]*Resource{}
	}
	never := func(TypeURL) bool { return false }
	for i := range c.proxies {
		c.proxies[i] = &crewed{name: string(rune('a' + i)), identity: fmt.Sprint(c.draw("identity", 2)), version: fmt.Sprint("1.", c.draw("version", 2)), edge: c.draw("edge", 4) / 3, client: newEnvoyModel(c.pick, never)}
	}
	if c.draw("grim", 3) == 0 {
		c.proxies[c.draw("who", len(c.proxies))].client.grim = true
	}
	c.restart()
	return c
}

// restart is a new control plane with the same content.
func (c *crew) restart() {
	c.store = NewStore()
	c.store.now = func() time.Time { return c.now }
	for i := range c.desired {
		for edge := range c.told[i] {
			c.told[i][edge] = map[Ref]*toldRefusal{}
		}
		c.publish(i)
	}
	for _, p := range c.proxies {
		p.member = nil
		c.connect(p)
	}
}

func (c *crew) connect(p *crewed) {
	c.disconnect(p)
	c.t.Logf("%s connects", p.name)
	p.member, p.bell = newMember(NewSession(Limits{ResponseBytes: 60, GateTimeout: time.Hour, Resume: time.Hour, AckTimeout: time.Hour}))
	p.member.session.Speaks(Client{Identity: p.identity, Node: p.name, Version: p.version})
	c.follow(p)
	p.client.connect()
}

func (c *crew) disconnect(p *crewed) {
	p.toClient = nil
	if p.member != nil {
		c.gone(p)
		c.store.leave(p.member)
		p.member = nil
	}
}

func (c *crew) publish(i int) {
	var changes []Change
	for _, k := range order {
		for n := range domain {
			ref := Ref{Type: k.url(), Name: fmt.Sprintf("n%d", n)}
			changes = append(changes, Change{ref.Type, ref.Name, c.desired[i][ref]})
		}
	}
	c.t.Logf("publish %d", i)
	c.store.Publish(viewName(i), changes)
	for _, told := range c.told[i] {
		maps.DeleteFunc(told, func(ref Ref, row *toldRefusal) bool {
			now := c.desired[i][ref]
			return now == nil || now.Version != row.version
		})
	}
}

// run is one turn of a stream's loop.
func (c *crew) run(p *crewed, req *Request) {
	var out []Response
	p.member.step(func(s *Session) {
		if req != nil {
			if err := s.Request(c.now, *req); err != nil {
				c.t.Fatal(err)
			}
		}
		out = s.Ready(c.now)
		for _, said := range s.Verdicts() {
			c.hear(p, said)
		}
	})
	for _, r := range out {
		c.t.Logf("for  %s %s nonce %s %s -%v", p.name, shortOf(r.Type), r.Nonce, said(r.Resources), r.Removed)
		c.leadOnly(p, r)
	}
	p.toClient = append(p.toClient, out...)
	c.excuse()
}

// hear does with a verdict what a server does.
func (c *crew) hear(p *crewed, said Verdict) {
	rows, ref := c.told[p.view][p.edge], Ref{Type: said.Type, Name: said.Name}
	row, now := rows[ref], c.desired[p.view][ref]
	switch {
	case said.Error != "" && !said.Lone:
		if now == nil || now.Version != said.Version {
			return // there was another one meanwhile
		}
		if row == nil {
			row = &toldRefusal{said.Version, map[string]bool{}}
			rows[ref] = row
		}
		row.by[p.name] = true
	case row == nil:
	case said.Version == "" || said.Lone:
		delete(row.by, p.name)
		if len(row.by) == 0 {
			delete(rows, ref)
		}
	case said.Version == row.version:
		delete(rows, ref)
	}
}

// gone: what a client said is forgotten when it is gone from its view.
func (c *crew) gone(p *crewed) {
	told := c.told[p.view][p.edge]
	for ref, row := range told {
		if delete(row.by, p.name); len(row.by) == 0 {
			delete(told, ref)
		}
	}
}

// toldAll: at rest it is told who refuses what, unless somebody of the edge
// accepted it.
func (c *crew) toldAll() {
	want := [2][edges]map[Ref]map[string]bool{{{}, {}}, {{}, {}}}
	for _, p := range c.proxies {
		s := p.member.session
		for k := range s.topics {
			for id, q := range s.topics[k].quarantine {
				ref := Ref{Type: kind(k).url(), Name: s.content.name(kind(k), id)}
				res := s.content.get(kind(k), id)
				if res == nil || res.Version != q.version || s.content.rollout.isHeld(kind(k), id) {
					continue
				}
				all := want[p.view][p.edge]
				if all[ref] == nil {
					all[ref] = map[string]bool{}
				}
				all[ref][p.name] = true
			}
		}
	}
	for view := range want {
		for edge := range want[view] {
			c.toldThese(view, edge, want[view][edge])
		}
	}
}

func (c *crew) toldThese(view, edge int, want map[Ref]map[string]bool) {
	told := c.told[view][edge]
	for ref, by := range want {
		if row := told[ref]; row == nil || !maps.Equal(row.by, by) {
			c.t.Fatalf("view %d, edge %d: %v refuse %s %s, told %+v", view, edge, by, shortOf(ref.Type), ref.Name, row)
		}
	}
	for ref, row := range told {
		if want[ref] == nil {
			c.t.Fatalf("view %d, edge %d: told %+v of %s %s", view, edge, row, shortOf(ref.Type), ref.Name)
		}
	}
}

// follow has a proxy follow its view, among those of its edge.
func (c *crew) follow(p *crewed) { c.store.follow(p.member, viewName(p.view), fmt.Sprint(p.edge)) }

// leadOnly: nobody is sent what enough others rejected, and only the lead what
// nobody accepted.
func (c *crew) leadOnly(p *crewed, r Response) {
	k := kindOf[r.Type]
	for _, res := range r.Resources {
		id, _ := c.store.names.find(k, res.Name)
		ro := &p.member.session.content.rollout
		if ro.untried[k].has(id) && ro.lead != p.member.session {
			c.t.Fatalf("%s is not the lead and is sent %s %s@%s, which nobody tried", p.name, shortOf(r.Type), res.Name, res.Version)
		}
		if ro.bars(p.member.session, k, id) {
			c.t.Fatalf("%s is sent %s %s@%s, which two others rejected", p.name, shortOf(r.Type), res.Name, res.Version)
		}
	}
}

// excuse: a route may lead to a cluster that another client rejected, as to one
// that this client rejected, unless this client is known to have a copy.
func (c *crew) excuse() {
	for _, p := range c.proxies {
		if p.member == nil {
			continue
		}
		content := p.member.session.content
		for _, k := range []kind{cluster, scope, routes, listener} { // what others wait for
			for id := range content.rollout.by[k] {
				c.outvoted(p, &content.rollout, k, id)
				if content.rollout.bars(p.member.session, k, id) && (k == listener || !p.member.session.topics[k].arrived(id)) {
					p.client.refused[k][content.name(k, id)] = true
				}
			}
		}
	}
}

// outvoted: a resource is kept from a client that was not asked by refusals of two
// identities or of two nodes of its own, and of one that runs what it runs.
func (c *crew) outvoted(p *crewed, ro *rollout, k kind, id uint32) {
	identities, nodes := map[string]bool{}, map[string]bool{}
	var version bool
	for _, x := range ro.by[k][id] {
		by := x.session.client
		if x.session.place.wrong {
			continue
		}
		identities[by.Identity] = true
		if by.Identity == p.identity {
			nodes[by.Node] = true
		}
		version = version || by.Version == p.version
	}
	if ro.bars(p.member.session, k, id) && (max(len(identities), len(nodes)) < quorum || !version) {
		c.t.Fatalf("%s of %s does not get what nodes %v of its own and identities %v refused", p.name, p.identity, nodes, identities)
	}
}

// deliver moves one message of a proxy, in a random direction.
func (c *crew) deliver(p *crewed) bool {
	if p.member == nil {
		return false
	}
	up, down := len(p.client.out) > 0, len(p.toClient) > 0
	switch {
	case up && (!down || c.draw("direction", 2) == 0):
		r := p.client.out[0]
		p.client.out = p.client.out[1:]
		c.t.Logf("up   %s %s +%v -%v has %v nonce %s %s", p.name, shortOf(r.Type), r.Subscribe, r.Unsubscribe, r.Initial, r.Nonce, r.Error)
		c.run(p, &r)
	case down:
		r := p.toClient[0]
		p.toClient = p.toClient[1:]
		c.t.Logf("down %s %s nonce %s", p.name, shortOf(r.Type), r.Nonce)
		if err := p.client.receive(r); err != nil {
			c.t.Fatal(p.name, err)
		}
		for _, rc := range p.client.have[routes] {
			if err := p.client.usable(rc); err != nil {
				c.t.Fatal(p.name, err)
			}
		}
	default:
		return false
	}
	return true
}

// loops runs the streams that are woken or late.
func (c *crew) loops() bool {
	ran := false
	for _, p := range c.proxies {
		if p.member == nil {
			continue
		}
		if at, ok := p.member.session.Deadline(); !p.bell.rang() && (!ok || at.After(c.now)) {
			continue
		}
		ran = true
		c.run(p, nil)
	}
	return ran
}

func (c *crew) step() {
	p := c.proxies[c.draw("proxy", len(c.proxies))]
	switch c.draw("step", 20) {
	case 0, 1, 2:
		i := c.draw("view", 4) / 3 // mostly the first
		for range 1 + c.draw("edits", 3) {
			c.edit(c.desired[i])
		}
		c.publish(i)
	case 3:
		c.now = c.now.Add(time.Duration(c.draw("tick", 30)) * 100 * time.Millisecond)
	case 4:
		switch c.draw("often", 12) {
		case 0:
			c.restart()
		case 1:
			c.disconnect(p)
		case 2, 3, 4:
			c.connect(p)
		case 5, 6:
			if p.member != nil {
				c.gone(p)
				p.view = 1 - p.view
				c.follow(p)
				c.run(p, nil)
			}
		}
	case 5, 6, 7, 8:
		c.loops()
	default:
		c.deliver(p)
	}
	c.excuse()
	for _, p := range c.proxies {
		if p.member == nil {
			continue
		}
		if why := p.member.session.violated(); why != "" {
			c.t.Fatalf("%s: %s", p.name, why)
		}
	}
}

// settle delivers everything and lets all waits end.
func (c *crew) settle() {
	for _, p := range c.proxies {
		if p.member == nil {
			c.connect(p)
		}
	}
	for range 300 {
		busy := c.loops()
		for _, p := range c.proxies {
			for c.deliver(p) {
				busy = true
			}
		}
		if busy {
			continue
		}
		var next time.Time
		for _, p := range c.proxies {
			if at, ok := p.member.session.Deadline(); ok && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		if next.IsZero() {
			return
		}
		c.now = next
	}
	c.t.Fatal("does not come to rest")
}

// inSync: every client has what its view has, apart from what was rejected.
func (c *crew) inSync() {
	for _, p := range c.proxies {
		if !p.member.session.Quiet() {
			c.t.Fatalf("%s waits for nothing: %+v", p.name, p.member.session.status())
		}
		if p.client.grim {
			continue
		}
		w := &world{t: c.t, session: p.member.session}
		w.desired[0] = c.desired[p.view]
		(&envoyFollower{world: w, client: p.client}).inSync()
	}
}

// TestRollout: with several streams, whatever is published, rejected, lost,
// reconnected, moved or restarted, be there a client that rejects everything:
// only one stream at a time is sent what nobody accepted, nobody is sent what
// two others rejected, no route ever leads to a cluster the client lacks, and
// in the end all others have what their view has, apart from what all of them
// reject, and just that is told.
func TestRollout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCrew(t)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			c.step()
		}
		c.settle()
		c.inSync()
		c.toldAll()
	})
}
