package app

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// listed is a case of many members that are listed one after another.
type listed struct {
	what   string
	seen   bool // they were read before this process began, which knows nothing of them: all are missing
	shared int  // each has the Services of so many hosts, all the same
}

var listings = []listed{
	{"alone", false, 0},
	{"alike", false, 5},
	{"restart", true, 0},
	{"restart alike", true, 5},
}

// manyMember is the name of the i-th of many.
func manyMember(i int) model.Member { return model.Member(fmt.Sprintf("m-%03d", i)) }

// join adds members of which no row is known yet.
func (b *big) join(tx *inc.Tx, members int, seen bool) {
	for i := range members {
		spec := memberAt(i%3, "eu")
		spec.Seen = seen
		b.prog.In.Members.Set(tx, manyMember(i), spec)
	}
}

// list has a member say what it has: the Services of the first hosts.
func (b *big) list(tx *inc.Tx, at, shared int) {
	in, m := &b.prog.In, manyMember(at)
	in.Sources.Set(tx, m, model.Source{Connected: true})
	for i := range shared {
		ms := model.MemberService{Service: serviceOf(i), Member: m}
		spec, _ := in.Services.Get(nil, model.MemberService{Service: serviceOf(i), Member: "eu-1"})
		in.Services.Set(tx, ms, spec)
		var eps []model.Endpoint
		for e := range 5 {
			eps = append(eps, model.Endpoint{Addr: netip.AddrFrom4([4]byte{20, byte(at), byte(i), byte(e)})})
		}
		in.Slices.Set(tx, model.SliceID{MemberService: ms, Name: serviceOf(i).Name() + "-x"}, model.Slice{Ports: []model.SlicePort{{Name: "http", Number: 8080}}, Endpoints: model.EndpointsOf(eps...)})
	}
}

// TestManyMembersList: what is computed when a member is listed depends neither
// on how many hosts there are that it has nothing to do with, nor on how many
// members are missing still: they are one row a vantage. Only when the last one
// is read is every plan looked at, once.
func TestManyMembersList(t *testing.T) {
	const hosts, members, vantages = 500, 200, 2
	for _, c := range listings {
		t.Run(c.what, func(t *testing.T) {
			b := newBig(hosts)
			evaluated := 0
			l := b.turns(func(s inc.Stats) { evaluated += s.Evaluated })
			turn := func(write func(*inc.Tx)) int {
				before := evaluated
				b.mail.Put(urgent, "turn", write)
				b.settle(l)
				return evaluated - before
			}
			turn(func(tx *inc.Tx) { b.join(tx, members, c.seen) })
			plans := b.evaluations("plans")
			for i := range members {
				last := i == members-1 && c.seen
				rows := turn(func(tx *inc.Tx) { b.list(tx, i, c.shared) })
				now := b.evaluations("plans")
				// A member has a source and, if it was missing, is so no more; and a row a vantage says whether others are.
				if want := 10 + 40*c.shared; rows > want && !last {
					t.Fatalf("member %d: %d rows were evaluated, want %d at most", i, rows, want)
				}
				want := c.shared * vantages
				if last {
					want = hosts * vantages
				}
				if now-plans != want {
					t.Fatalf("member %d: %d plans were evaluated, want %d", i, now-plans, want)
				}
				plans = now
			}
		})
	}
}

// evaluations of a table so far.
func (b *big) evaluations(table string) int {
	for _, s := range b.graph.Tables() {
		if s.Name == table {
			return s.Evaluations
		}
	}
	return 0
}
