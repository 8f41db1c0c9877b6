package xds

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	health "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	load "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// TestTheDoorTakesTurns: whoever has the longest line waits for its own, and has
// half of the places at most.
func TestTheDoorTakesTurns(t *testing.T) {
	d := newDoor(4)
	type waiter struct {
		name string
		in   chan struct{}
	}
	var all []waiter
	come := func(who string, n int) {
		for i := range n {
			all = append(all, waiter{fmt.Sprint(who, i), d.queue(speaker{edge: who})})
		}
	}
	entered := func() string {
		var out []string
		all = slices.DeleteFunc(all, func(w waiter) bool {
			select {
			case <-w.in:
				out = append(out, w.name)
				return true
			default:
				return false
			}
		})
		return strings.Join(out, " ")
	}
	check := func(what, want string) {
		t.Helper()
		if got := entered(); got != want {
			t.Errorf("%s: %q are let in, want %q", what, got, want)
		}
	}
	come("a", 9)
	check("a storm", "a0 a1")
	come("b", 3)
	check("another one", "b0 b1")
	come("c", 1)
	check("no room", "")
	d.exit(speaker{edge: "a"}, true)
	check("a turn", "a2")
	d.exit(speaker{edge: "a"}, true)
	check("the next turn", "c0")
	d.exit(speaker{edge: "b"}, true)
	check("in turns", "b2")

	gone := all[0] // a3
	d.desert(speaker{edge: "a"}, gone.in)
	all = all[1:]
	d.exit(speaker{edge: "c"}, true)
	check("one gave up", "a4")
	d.exit(speaker{edge: "a"}, true)
	check("again", "a5")
	for _, w := range all {
		d.desert(speaker{edge: "a"}, w.in)
	}
	for who, n := range map[string]int{"a": 2, "b": 2} {
		for range n {
			d.exit(speaker{edge: who}, true)
		}
	}
	if d.in != 0 || len(d.inside)+len(d.lines)+len(d.turns) != 0 {
		t.Errorf("something is left: %+v", d)
	}
	late := d.queue(speaker{edge: "a"})
	d.desert(speaker{edge: "a"}, late) // it was let in, and gave up in that moment
	if d.in != 0 {
		t.Error("a place is lost")
	}
}

// TestWhoAnswersNothingHasOnePlace: of a speaker whose streams took nothing of what
// they were sent one at a time loads its first state, until one answers.
func TestWhoAnswersNothingHasOnePlace(t *testing.T) {
	d, who := newDoor(8), speaker{edge: "a"}
	inside := func(want int) {
		t.Helper()
		if d.inside[who] != want {
			t.Errorf("%d are inside, want %d", d.inside[who], want)
		}
	}
	for range 2*mostMute + 10 {
		d.queue(who)
	}
	inside(4)
	for range mostMute + 3 { // the last of the four that are inside stays
		d.exit(who, false)
	}
	inside(1)
	d.exit(who, false)
	inside(1)
	d.exit(who, true)
	inside(4)
}

// TestAStormDelaysNoOtherEdge: of one edge very many streams say hello and nothing
// more. The time does not pass, so none of them gives its place back; a proxy of
// another edge has its first answer all the same.
func TestAStormDelaysNoOtherEdge(t *testing.T) {
	began := time.Now()
	r := newRig(t, Config{Now: func() time.Time { return began }})
	for _, edge := range []string{"storm", "fra"} {
		r.cfg.Store.Publish(edge, []Change{makeAssignment(t, "a", 1)})
	}
	const storm = 48
	for i := range storm {
		r.client("storm", fmt.Sprint(i)).subscribe(ClusterLoadAssignment)
	}
	envoytest.Until(t, "all of the storm are here", func() bool { return r.server.quota.count() == storm })
	good := r.client("fra", "good")
	good.subscribe(ClusterLoadAssignment, "a")
	if got := text(good.receive()); !strings.HasPrefix(got, "a@") {
		t.Errorf("got %s", got)
	}
	r.server.door.mu.Lock()
	defer r.server.door.mu.Unlock()
	for who, line := range r.server.door.lines {
		if who.edge != "storm" || len(line) != storm-r.server.door.ofOne {
			t.Errorf("%d of %s wait", len(line), who.edge)
		}
	}
}

// TestRevokedWhileItWaits: a stream that waits for its first answer ends as any
// other when its identity is taken out of its Edge, and leaves no place behind.
func TestRevokedWhileItWaits(t *testing.T) {
	began := time.Now()
	var gone atomic.Bool
	r := newRig(t, Config{InitialSyncs: 1, Now: func() time.Time { return began }, ViewOf: func(edge string) (string, bool) {
		return "v", edge != "fra" || !gone.Load()
	}})
	r.cfg.Store.Publish("v", nil)
	first, waits := r.client("par", "1"), r.client("fra", "2")
	first.subscribe(Secret, "x")
	first.receive()
	waits.subscribe(Secret, "x")
	envoytest.Until(t, "both are here", func() bool { return r.server.quota.count() == 2 })
	gone.Store(true)
	r.server.Reassign()
	if s := waits.end(); s.Code() != codes.NotFound {
		t.Errorf("ended with %v", s)
	}
	if err := first.str.CloseSend(); err != nil {
		t.Fatal(err)
	}
	last := r.client("nyc", "3")
	last.subscribe(Secret, "x")
	last.receive()
}

// TestStreamsOfOneIdentity: it has so many of each service, and is told which limit
// that is; who is another one has as many.
func TestStreamsOfOneIdentity(t *testing.T) {
	const most = 2
	service, _ := NewHealth(asked, nil)
	r := newRig(t, Config{Services: []Service{service, Load}, MaxOfOne: most})
	r.cfg.Store.Publish("fra", nil)
	r.cfg.Store.Publish("par", nil)
	conn := dial(t, "unix://"+r.socket, insecure.NewCredentials())
	open := func(edge, node string) map[string]grpc.ClientStream {
		h, l := helloOthers(t, conn, &core.Node{Cluster: edge, Id: node})
		return map[string]grpc.ClientStream{"health": h, "load": l}
	}
	all := func() bool {
		return r.server.quota.count() == most && r.server.beside[0].count() == most && r.server.beside[1].count() == most
	}
	for i := range most {
		r.client("fra", fmt.Sprint(i)).subscribe(Secret, "x")
		open("fra", fmt.Sprint(i))
	}
	envoytest.Until(t, "all are here", all)
	over := r.client("fra", "other")
	over.subscribe(Secret, "x")
	for what, str := range open("fra", "other") {
		s := grpcstatus.Convert(str.RecvMsg(&load.LoadStatsResponse{}))
		if s.Code() != codes.ResourceExhausted || !strings.Contains(s.Message(), "fra has 2 streams of that service, the limit of one identity") || !strings.HasPrefix(s.Message(), what) {
			t.Errorf("one more of %s: %v", what, s)
		}
	}
	if s := over.end(); s.Code() != codes.ResourceExhausted || !strings.Contains(s.Message(), "fra has 2 ADS streams, the limit of one identity") {
		t.Errorf("one more: %v", s)
	}
	par := r.client("par", "n")
	par.subscribe(Secret, "x")
	par.receive()
	if h, _ := helloOthers(t, conn, &core.Node{Cluster: "par", Id: "n"}); h.RecvMsg(&health.HealthCheckSpecifier{}) != nil {
		t.Error("another edge has no health stream")
	}
}

// TestConnectionsOfOneIdentity: so many connections, too, whatever is asked on them.
func TestConnectionsOfOneIdentity(t *testing.T) {
	const most = 2
	ca := envoytest.NewCA(t)
	cert, key := ca.Leaf(t, "server", envoytest.IP("127.0.0.1"))
	e, err := ListenTLS("127.0.0.1:0", cert, key, ca.File)
	if err != nil {
		t.Fatal(err)
	}
	store := NewStore()
	store.Publish("v", nil)
	s, stop := serve(t, Config{Store: store, ViewOf: func(string) (string, bool) { return "v", true }, MaxOfOne: most}, e)
	defer stop()
	dialAs := func(edge string) *grpc.ClientConn {
		return dial(t, e.Addr().String(), clientTLS(t, ca, ca, envoytest.URI("spiffe://spillway.test/edge/"+edge)))
	}
	var open []*grpc.ClientConn
	for i := range most {
		conn := dialAs("fra")
		c := openClient(t, conn, "fra", fmt.Sprint(i))
		c.subscribe(Secret, "x")
		c.receive()
		open = append(open, conn)
	}
	over := openClient(t, dialAs("fra"), "fra", "over")
	over.subscribe(Secret, "x")
	if got := over.end(); got.Code() != codes.Unavailable {
		t.Errorf("one more ended with %v", got)
	}
	other := openClient(t, dialAs("par"), "par", "n")
	other.subscribe(Secret, "x")
	other.receive()
	if err := open[0].Close(); err != nil {
		t.Fatal(err)
	}
	envoytest.Until(t, "room", func() bool { return s.connections.count() == most })
	again := openClient(t, dialAs("fra"), "fra", "again")
	again.subscribe(Secret, "x")
	again.receive()
}

// TestSilentConnectionsMakeRoom: of connections that prove nothing the oldest is
// closed for one more; the others stay.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	h := newHandshakes(insecure.NewCredentials(), nil, nil)
	h.most = 2
	var ends []net.Conn
	for range 4 {
		near, far := net.Pipe()
		t.Cleanup(func() { _, _ = near.Close(), far.Close() })
		h.begin(near)
		ends = append(ends, far)
	}
	for i, far := range ends {
		if err := far.SetReadDeadline(time.Time{}); (err != nil) != (i < 2) { // a pipe tells whether its other end is closed
			t.Errorf("connection %d: %v", i, err)
		}
	}
	if h.pending.Len() != 2 {
		t.Errorf("%d are waited for", h.pending.Len())
	}
}

// TestNamesOfOneIdentity: what its streams bring is counted together, each name
// once, and as long as somebody follows it.
func TestNamesOfOneIdentity(t *testing.T) {
	s := NewStore()
	s.Publish("v", []Change{makeAssignment(t, "a", 1)})
	limits := Limits{NameBytes: 100 * (nameCost + 10)}
	join := func(identity string) (*member, func(...string) error) {
		m, _ := newMember(NewSession(limits))
		m.session.Speaks(Client{Identity: identity})
		s.follow(m, "v", identity)
		return m, func(names ...string) error {
			return m.say(s.now(), m.session, Request{Type: ClusterLoadAssignment, Subscribe: names})
		}
	}
	names := many(150, 10)
	first, ask := join("one")
	_, same := join("one")
	_, other := join("other")
	for what, err := range []error{ask(names[:99]...), same(names[:99]...), same(names[99]), other(names[50:]...)} {
		if err != nil {
			t.Errorf("step %d: %v", what, err)
		}
	}
	if err := same("beyond-100"); err == nil || !strings.Contains(err.Error(), "more than 13800 bytes") {
		t.Errorf("beyond: %v", err)
	}
	s.Publish("v", []Change{makeAssignment(t, names[0], 1)}) // it is there now
	s.lock()
	if got, want := s.names.brought("one"), 100*(nameCost+10); got != want {
		t.Errorf("it pays %d bytes, want %d", got, want)
	}
	s.unlock()
	for _, g := range s.groups {
		for _, m := range slices.Clone(g.members) {
			if m != first {
				s.leave(m)
			}
		}
	}
	s.leave(first)
	if len(s.names.purses) != 0 {
		t.Errorf("somebody pays for nothing: %v", s.names.purses)
	}
}

// TestWordsArePrintable: what a client says is short and harmless where it comes
// in: its words, and what it calls itself.
func TestWordsArePrintable(t *testing.T) {
	const hostile = "bad\x1b[2Jname\r\nspillway: all is well\u202e"
	r := newRig(t, Config{ReportTypes: Types})
	r.cfg.Store.Publish("fra", []Change{makeAssignment(t, "a", 1)})
	c := r.client("fra", hostile)
	c.subscribe(ClusterLoadAssignment, "a")
	c.nack(c.receive(), strings.Repeat("\x1b]0;x\a", 1<<17))
	var said ProxyVerdict
	envoytest.Until(t, "the rejection is told", func() bool {
		_, verdicts := r.cfg.Reports.Take()
		for _, v := range verdicts {
			said = v
		}
		return said.Error != ""
	})
	for what, got := range map[string]string{"words": said.Error, "node": said.Node, "in streams": r.server.Streams()[0].Node} {
		if printable(got) != got || len(got) > maxWords {
			t.Errorf("%s: %d bytes, %.100q", what, len(got), got)
		}
	}
	if !strings.HasPrefix(said.Node, "bad [2Jname  spillway: all is well") {
		t.Errorf("the node is %q", said.Node)
	}
	if a, b := clipped("x\n", maxNode), clipped("x\t", maxNode); a == b {
		t.Errorf("two are one, %q", a)
	}
}

// TestWordsOfManyRefusals: of a stream that refuses very much less is kept.
func TestWordsOfManyRefusals(t *testing.T) {
	s := NewStore()
	var changes []Change
	names := many(manyRefused+1, 10)
	for _, name := range names {
		changes = append(changes, makeAssignment(t, name, 1))
	}
	s.Publish("v", changes)
	m, _ := newMember(NewSession(Limits{}))
	s.follow(m, "v", "")
	for i, name := range names {
		if err := m.say(s.now(), m.session, Request{Type: ClusterLoadAssignment, Subscribe: []string{name}}); err != nil {
			t.Fatal(err)
		}
		out := m.session.Ready(s.now())
		if err := m.say(s.now(), m.session, Request{Type: ClusterLoadAssignment, Nonce: out[0].Nonce, Rejected: true, Error: strings.Repeat("é", 5000)}); err != nil {
			t.Fatal(err)
		}
		longest := maxWords
		if i >= manyRefused {
			longest = fewWords
		}
		for _, v := range m.session.Verdicts() {
			if len(v.Error) > longest || len(v.Error) < longest/2 {
				t.Fatalf("of refusal %d %d bytes are kept", i, len(v.Error))
			}
		}
	}
}

// TestLongVersionsAreNotKept: a version that can't be ours is one that nobody knows.
func TestLongVersionsAreNotKept(t *testing.T) {
	s := NewStore()
	s.Publish("v", []Change{makeAssignment(t, "a", 1)})
	m, _ := newMember(NewSession(Limits{}))
	s.follow(m, "v", "")
	if err := m.say(s.now(), m.session, Request{Type: ClusterLoadAssignment, Subscribe: []string{"a"}, Initial: map[string]string{"a": strings.Repeat("9", maxVersion+1)}}); err != nil {
		t.Fatal(err)
	}
	topic := &m.session.topics[assignment]
	id, _ := s.names.find(assignment, "a")
	if version, stale := topic.staleVersion(id); !stale || version != "" {
		t.Errorf("%d bytes are kept, stale: %t", len(version), stale)
	}
	if out := m.session.Ready(s.now()); len(out) != 1 || len(out[0].Resources) != 1 {
		t.Errorf("it is sent %v", out)
	}
}

// TestStreamsThatCameAndWent: while nobody takes the changes, streams that nobody
// knows leave no more of them than so many; one that is known is told of, and one
// that is open.
func TestStreamsThatCameAndWent(t *testing.T) {
	var r Reports
	r.opened(StreamChange{Stream: 1, Open: true})
	r.Take()
	for i := range uint64(3 * maxStreamChanges) {
		r.opened(StreamChange{Stream: 10 + i, Open: true})
		r.stream(StreamChange{Stream: 10 + i})
	}
	r.opened(StreamChange{Stream: 2, Open: true})
	r.stream(StreamChange{Stream: 1})
	if n := len(r.streams); n > maxStreamChanges+2 {
		t.Errorf("%d changes are kept", n)
	}
	all, _ := r.Take()
	open := map[uint64]bool{}
	for _, c := range all {
		open[c.Stream] = c.Open
	}
	if is, told := open[1]; is || !told {
		t.Error("a stream that was known is not said to be closed")
	}
	if !open[2] {
		t.Error("a stream that is open is not told")
	}
}
