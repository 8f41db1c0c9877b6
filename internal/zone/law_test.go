package zone

import (
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
	"pgregory.net/rapid"
)

// TestScopeIsHonest: whoever shares the prefix that an answer's scope names gets
// that answer, from the same resolver.
func TestScopeIsHonest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawWorld(t).snapshot(t)
		q := Question{Name: []byte(wire(rapid.SampledFrom(someNames).Draw(t, "name"))), Type: rapid.SampledFrom([]Type{TypeA, TypeAAAA}).Draw(t, "type"), Class: ClassIN}
		a := drawClient(t)
		if !a.Subnet.IsValid() || a.Subnet.Bits() == 0 {
			t.Skip("no subnet")
		}
		r := Answer(s, q, a)
		most := SubnetBits6
		if a.Subnet.Addr().Is4() {
			most = SubnetBits4
		}
		if r.Scope > most {
			t.Fatalf("scope %d", r.Scope)
		}
		other := netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "other4")))
		if a.Subnet.Addr().Is6() {
			other = netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "other6")))
		}
		cut, _ := a.Subnet.Addr().Prefix(min(a.Subnet.Bits(), most))
		near := join(cut.Addr(), other, r.Scope)
		b := Client{Addr: a.Addr, Subnet: netip.PrefixFrom(near, rapid.IntRange(max(r.Scope, 1), near.BitLen()).Draw(t, "source"))}
		got := Answer(s, q, b)
		if got.Scope > r.Scope { // of the same answer it may be said of fewer clients
			got.Scope = r.Scope
		}
		if show(got) != show(r) {
			t.Fatalf("%v and %v share %d bits but not the answer:\n%s%s", a.Subnet, b.Subnet, r.Scope, show(r), show(got))
		}
	})
}

// TestLocalNetworksAreApart: an entry for the whole world does not place those who
// are in a local network, so the answer to others is none for them.
func TestLocalNetworksAreApart(t *testing.T) {
	world, err := NewPlaces([]PlaceEntry{{netip.MustParsePrefix("0.0.0.0/0"), model.Place{Region: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	edges := []*Edge{NewEdge("a", model.Place{Region: "a"}, addrs([]string{"192.0.2.1"})), NewEdge("b", model.Place{Region: "b"}, addrs([]string{"192.0.2.2"}))}
	s := (&Snapshot{}).WithZone(NewZone(Spec{Apex: wire("example")})).WithHost(wire("example"), NewRecordSet(edges)).WithPlaces(world)
	for _, c := range []struct {
		client, want string
		scope        int
	}{
		{"9.0.0.0/8", "192.0.2.2", 7},    // 8.0.0.0/7 without 10.0.0.0/8
		{"8.0.0.0/5", "192.0.2.2", 7},    // beside it
		{"10.0.0.0/8", "192.0.2.1", 8},   // it
		{"0.0.0.0/1", "192.0.2.1", 8},    // by its first address
		{"192.0.2.0/24", "192.0.2.2", 9}, // beside 192.168.0.0/16
	} {
		r := Answer(s, Question{Name: []byte(wire("example")), Type: TypeA, Class: ClassIN}, Client{Subnet: netip.MustParsePrefix(c.client)})
		if got := r.Answer[0].Addr.String(); got != c.want || r.Scope != c.scope {
			t.Errorf("%s: %s for %d bits, want %s for %d", c.client, got, r.Scope, c.want, c.scope)
		}
	}
}

// join is the first bits of a and the rest of b.
func join(a, b netip.Addr, bits int) netip.Addr {
	x, y := a.AsSlice(), b.AsSlice()
	for i := range bits {
		mask := byte(0x80) >> (i % 8)
		y[i/8] = y[i/8]&^mask | x[i/8]&mask
	}
	out, _ := netip.AddrFromSlice(y)
	return out
}

// fixed locates everybody at one place with so many bits.
type fixed struct {
	region string
	bits   int
}

func (f fixed) Locate(netip.Addr, int) (model.Place, int, bool) {
	return model.Place{Region: f.region}, f.bits, f.region != ""
}

// TestGeoComesSecond: a miss in the first locator counts, its bits bind both.
func TestGeoComesSecond(t *testing.T) {
	edges := []*Edge{NewEdge("a", model.Place{Region: "a"}, addrs([]string{"192.0.2.1"})), NewEdge("b", model.Place{Region: "b"}, addrs([]string{"192.0.2.2"}))}
	s := (&Snapshot{}).WithZone(NewZone(Spec{Apex: wire("example")})).WithHost(wire("example"), NewRecordSet(edges))
	for _, c := range []struct {
		places, geo Locator
		want        string
		scope       int
	}{
		{fixed{"b", 10}, fixed{"a", 20}, "192.0.2.2", 10},
		{fixed{"", 10}, fixed{"b", 8}, "192.0.2.2", 10},
		{fixed{"", 10}, fixed{"b", 12}, "192.0.2.2", 12},
		{fixed{"", 10}, fixed{"", 32}, "192.0.2.1", 24},
		{nil, fixed{"b", 12}, "192.0.2.2", 12},
		{(*Places)(nil), nil, "192.0.2.1", 0},
	} {
		r := Answer(s.WithPlaces(c.places).WithGeo(c.geo), Question{Name: []byte(wire("example")), Type: TypeA, Class: ClassIN}, Client{Subnet: netip.MustParsePrefix("198.51.100.0/24")})
		if got := r.Answer[0].Addr.String(); got != c.want || r.Scope != c.scope {
			t.Errorf("%v, %v: %s scope %d, want %s scope %d", c.places, c.geo, got, r.Scope, c.want, c.scope)
		}
	}
}

// TestStepSettles: a second step changes nothing, what stays exists, and a host
// with a candidate is never left without an edge.
func TestStepSettles(t *testing.T) {
	ids := []model.Edge{"a", "b", "c"}
	witness := rapid.Custom(func(t *rapid.T) Witness {
		w := Witness{Health: rapid.SampledFrom([]model.Health{model.Unknown, model.Up, model.Down}).Draw(t, "health")}
		w.Alone = w.Health == model.Down && rapid.Bool().Draw(t, "alone")
		return w
	})
	rapid.Check(t, func(t *rapid.T) {
		prev := rapid.SliceOfDistinct(rapid.SampledFrom(ids), rapid.ID[model.Edge]).Draw(t, "prev")
		slices.Sort(prev)
		var states []EdgeState
		for _, id := range rapid.SliceOfDistinct(rapid.SampledFrom(ids), rapid.ID[model.Edge]).Draw(t, "edges") {
			states = append(states, EdgeState{Edge: id, Room: rapid.SampledFrom([]steer.Room{steer.Best, 8, steer.NoRoom}).Draw(t, "room"), Unsure: rapid.Bool().Draw(t, "unsure"), Drain: rapid.Bool().Draw(t, "drain"), Stream: witness.Draw(t, "stream"), Probe: witness.Draw(t, "probe")})
		}
		once := Step(prev, states)
		if twice := Step(once, states); !slices.Equal(once, twice) {
			t.Fatalf("%v, then %v", once, twice)
		}
		reversed := slices.Clone(states)
		slices.Reverse(reversed)
		if other := Step(prev, reversed); !slices.Equal(once, other) {
			t.Fatalf("order matters: %v, %v", once, other)
		}
		if want := dumbStep(prev, states); !slices.Equal(once, want) {
			t.Fatalf("from %v by %+v: %v, want %v", prev, states, once, want)
		}
		for _, e := range states {
			open := EdgeState{Edge: e.Edge, Room: steer.Best, Drain: e.Drain, Stream: e.Stream, Probe: e.Probe}
			if in, _ := open.Standing(); in && e.Unsure && slices.Contains(prev, e.Edge) && !slices.Contains(once, e.Edge) {
				t.Fatalf("%s was named, nobody is sure of it, and it is gone: %v", e.Edge, once)
			}
		}
		if slices.ContainsFunc(once, func(id model.Edge) bool {
			return !slices.ContainsFunc(states, func(e EdgeState) bool { return e.Edge == id })
		}) {
			t.Fatalf("%v names an edge that does not exist", once)
		}
	})
}

// dumbStep tries room after room: the first that some edge has that stands.
func dumbStep(prev []model.Edge, states []EdgeState) []model.Edge {
	var out, last []model.Edge
	for room := 0; room < int(steer.NoRoom) && len(out) == 0; room++ {
		for _, e := range states {
			if in, _ := e.Standing(); in && int(e.Room) == room {
				out = append(out, e.Edge)
			}
		}
	}
	for _, e := range states {
		if !slices.Contains(prev, e.Edge) {
			continue
		}
		last = append(last, e.Edge)
		e.Room = steer.Best
		if in, _ := e.Standing(); in && e.Unsure {
			out = append(out, e.Edge)
		}
	}
	if len(out) == 0 {
		out = last
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestTrust(t *testing.T) {
	up, unknown := Witness{Health: model.Up}, Witness{}
	down := func(since int64) Witness { return Witness{Health: model.Down, Since: since} }
	for _, c := range []struct {
		what      string
		in        []Witness
		distrusts bool
	}{
		{"one of two is lost", []Witness{up, down(100)}, false},
		{"the only one is lost", []Witness{down(100)}, false},
		{"two of two at once", []Witness{down(100), down(105)}, true},
		{"two of three at once", []Witness{up, down(100), down(105)}, true},
		{"two of three, an hour apart", []Witness{up, down(100), down(3700)}, false},
		{"two of four at once is not more than half", []Witness{up, up, down(100), down(100)}, false},
		{"those of which nothing is known do not count", []Witness{unknown, unknown, unknown, up, down(100), down(101)}, true},
	} {
		got := Trust(c.in, 10)
		for i, w := range c.in {
			want := w
			if c.distrusts && w.Health == model.Down {
				want = Witness{}
			}
			if got[i] != want {
				t.Errorf("%s: witness %d is %+v, want %+v", c.what, i, got[i], want)
			}
		}
	}
}

func TestTrustKeepsAnOlderLoss(t *testing.T) {
	in := []Witness{{Health: model.Down, Since: 1, Alone: true}, {Health: model.Down, Since: 1000}, {Health: model.Down, Since: 1001}, {Health: model.Up}, {Health: model.Down, Since: 1002}}
	got := Trust(in, 10)
	if got[0] != in[0] || got[1] != (Witness{}) || got[2] != (Witness{}) || got[4] != (Witness{}) {
		t.Fatalf("%+v", got)
	}
}

func TestParseName(t *testing.T) {
	long := "a123456789012345678901234567890123456789012345678901234567890.b"
	for text, want := range map[string]Name{
		"shop.example": "\x04shop\x07example\x00", "Shop.EXAMPLE.": "\x04shop\x07example\x00", ".": "\x00", "": "\x00", "*.a": "\x01*\x01a\x00",
	} {
		if got, err := ParseName(text); got != want || err != nil {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
	for _, bad := range []string{"a..b", ".a", "a b", "a\\.b", "ä.b", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl.a", long + "." + long + "." + long + "." + long + ".abcdefgh"} {
		if got, err := ParseName(bad); err == nil {
			t.Errorf("%q: %q, want an error", bad, got)
		}
	}
	if got := Name("\x03a.b\x02\x00\\\x00").String(); got != `a\.b.\000\\.` {
		t.Errorf("%s", got)
	}
}

func TestEdgeKeepsUsableAddresses(t *testing.T) {
	e := NewEdge("x", model.Place{}, addrs([]string{"2001:db8::2", "::ffff:192.0.2.1", "192.0.2.1", "fe80::1%eth0", "224.0.0.1", "0.0.0.0", "2001:db8::1"}))
	if got := e.Addresses(TypeA); !slices.Equal(got, addrs([]string{"192.0.2.1"})) {
		t.Errorf("A %v", got)
	}
	if got := e.Addresses(TypeAAAA); !slices.Equal(got, addrs([]string{"2001:db8::1", "2001:db8::2"})) {
		t.Errorf("AAAA %v", got)
	}
}

func TestPlacesRefusesWhatIsUnclear(t *testing.T) {
	for _, list := range [][]string{{"192.0.2.1/24"}, {"192.0.2.0/24", "192.0.2.0/24"}, {"::ffff:192.0.2.0/120"}} {
		var entries []PlaceEntry
		for _, p := range list {
			entries = append(entries, PlaceEntry{Prefix: netip.MustParsePrefix(p)})
		}
		if _, err := NewPlaces(entries); err == nil {
			t.Errorf("%v: no error", list)
		}
	}
}

func hostName(i int) Name { return wire("h" + strconv.Itoa(i) + ".g.example") }

// benchSnapshot has n hosts on ten edges, and a place for each /16.
func benchSnapshot(t testing.TB, n int) *Snapshot {
	var edges []*Edge
	for i := range 10 {
		p := model.Place{Region: "r" + strconv.Itoa(i%5), Zone: "z" + strconv.Itoa(i), Latitude: float64(i*13 - 60), Longitude: float64(i*31 - 150), Located: true}
		edges = append(edges, NewEdge(model.Edge("e"+strconv.Itoa(i)), p, addrs([]string{"192.0.2." + strconv.Itoa(i), "2001:db8::" + strconv.Itoa(i)})))
	}
	s := (&Snapshot{}).WithZone(NewZone(Spec{Apex: wire("g.example"), TTL: 30, SOA: SOA{Minimum: 30}}))
	set := NewRecordSet(edges)
	for i := range n {
		s = s.WithHost(hostName(i), set)
	}
	var places []PlaceEntry
	for i := range 4096 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(i >> 4), byte(i << 4), 0, 0}), 16)
		places = append(places, PlaceEntry{p, model.Place{Latitude: float64(i%140 - 70), Longitude: float64(i%360 - 180), Located: true}})
	}
	table, err := NewPlaces(places)
	if err != nil {
		t.Fatal(err)
	}
	return s.WithPlaces(table)
}

func benchQueries(n int) ([]Question, []Client) {
	qs, cs := make([]Question, 1024), make([]Client, 1024)
	for i := range qs {
		qs[i] = Question{Name: []byte(hostName(i * 37 % n)), Type: TypeA, Class: ClassIN}
		cs[i].Subnet = netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(i), byte(i * 16), byte(i / 4), 0}), 24)
	}
	return qs, cs
}

func TestAnswerAllocatesNothing(t *testing.T) {
	s := benchSnapshot(t, 100)
	space := make([]Record, 0, MaxRecords)
	_, cs := benchQueries(100)
	for _, text := range []string{"h7.g.example", "nothing.g.example", "g.example", "h1.other"} {
		q := Question{Name: []byte(wire(text)), Type: TypeA, Class: ClassIN}
		if n := testing.AllocsPerRun(100, func() { AnswerInto(space, s, q, cs[3]) }); n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

func BenchmarkAnswer(b *testing.B) {
	for _, n := range []int{10, 10000} {
		b.Run("hosts="+strconv.Itoa(n), func(b *testing.B) {
			s := benchSnapshot(b, n)
			qs, cs := benchQueries(n)
			space := make([]Record, 0, MaxRecords)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				AnswerInto(space, s, qs[i%1024], cs[i%1024])
			}
		})
	}
	b.Run("nobody", func(b *testing.B) {
		s := benchSnapshot(b, 10000)
		q := Question{Name: []byte(wire("nothing.g.example")), Type: TypeA, Class: ClassIN}
		space := make([]Record, 0, MaxRecords)
		b.ReportAllocs()
		for b.Loop() {
			AnswerInto(space, s, q, Client{})
		}
	})
}

func BenchmarkChangeOneHost(b *testing.B) {
	s := benchSnapshot(b, 10000)
	sets := []*RecordSet{NewRecordSet(nil), HeldRecordSet()}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s = s.WithHost(hostName(i%10000), sets[i%2])
	}
}
