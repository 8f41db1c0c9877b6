package cluster

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestStoreTwin plays random lists and events, after a checkpoint, and
// compares the tables with a dumb twin: what the server has, once it was
// listed. An object gives one row or two, under its label; equal ones are not
// put again, and while deletes are stopped, nothing goes.
func TestStoreTwin(t *testing.T) {
	for name, k := range map[string]func(*inc.Table[text, text]) kind{
		"whole": func(*inc.Table[text, text]) kind { return nil },
		"short": shortText,
	} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { storeTwin(t, k) }) })
	}
}

// shortText has a short form of objects with one row, whose key is the name of
// the object and a label.
func shortText(table *inc.Table[text, text]) kind {
	return kindOf[text, text]{
		table: table,
		key:   func(n name, label string) text { return text(n.name + "/" + label) },
		also:  func(k text) string { return string(k)[2:] },
		sum:   func(h *maphash.Hash, v text) { maphash.WriteComparable(h, v) },
	}
}

func storeTwin(t *rapid.T, k func(*inc.Table[text, text]) kind) {
	g := inc.New()
	table := inc.Input[text, text](g, "table")
	mail := NewMailbox()
	read := func(o metav1.Object) []fact {
		var out []fact
		for _, k := range slices.Sorted(maps.Keys(o.GetLabels())) {
			out = append(out, row[text, text]{table, text(o.GetName() + "/" + k), text(o.GetLabels()[k])})
		}
		return out
	}
	s := newStore(mail, read, k(table))
	commit := func() {
		g.Commit(func(tx *inc.Tx) {
			for _, w := range mail.Take() {
				w(tx)
			}
		})
	}
	want := map[text]text{} // rows
	random := func(name string) metav1.Object {
		labels := map[string]string{}
		for _, k := range []string{"x", "y"} {
			if rapid.Bool().Draw(t, k) {
				labels[k] = strconv.Itoa(rapid.IntRange(0, 2).Draw(t, "value"))
			}
		}
		return &metav1.ObjectMeta{Name: name, Labels: labels}
	}
	names := []string{"a", "b", "c"}
	set := func(o metav1.Object) {
		for _, k := range []string{"x", "y"} {
			delete(want, text(o.GetName()+"/"+k))
		}
		for _, f := range read(o) {
			r := f.(row[text, text])
			want[r.k] = r.v
		}
	}
	remove := func(name string) { set(&metav1.ObjectMeta{Name: name}) }
	g.Commit(func(tx *inc.Tx) {
		for _, n := range names {
			o := random(n)
			for _, f := range read(o) {
				f.set(tx)
			}
			set(o)
		}
	})
	old := Past{}
	recall(old, table)
	for _, r := range rows(old, table) {
		s.adopt(name{"", string(r.k)[:1]}, r)
	}
	server, frozen := map[string]metav1.Object{}, false
	ghosts := map[string]bool{}
	for range rapid.IntRange(1, 20).Draw(t, "steps") {
		switch rapid.IntRange(0, 5).Draw(t, "step") {
		case 0: // a list
			clear(server)
			var list []any
			for _, n := range names {
				switch there := rapid.Bool().Draw(t, "there"); {
				case there:
					server[n] = random(n)
					list = append(list, server[n])
					set(server[n])
					delete(ghosts, n)
				case frozen:
					ghosts[n] = true
				default:
					remove(n)
				}
			}
			if err := s.all().Replace(list, "1"); err != nil {
				t.Fatal(err)
			}
		case 1, 2:
			n := rapid.SampledFrom(names).Draw(t, "name")
			server[n] = random(n)
			set(server[n])
			delete(ghosts, n)
			if err := s.all().Update(server[n]); err != nil {
				t.Fatal(err)
			}
		case 3:
			n := rapid.SampledFrom(names).Draw(t, "name")
			delete(server, n)
			if frozen {
				ghosts[n] = true
			} else {
				remove(n)
			}
			if err := s.all().Delete(&metav1.ObjectMeta{Name: n}); err != nil {
				t.Fatal(err)
			}
		case 4:
			if frozen = !frozen; frozen {
				s.freeze()
			} else {
				s.thaw()
				for n := range ghosts {
					remove(n)
				}
				clear(ghosts)
			}
		case 5:
			commit()
		}
	}
	commit()
	got := map[text]text{}
	recall(old, table)
	for _, r := range rows(old, table) {
		got[r.k] = r.v
	}
	if !maps.Equal(got, want) {
		t.Fatalf("rows %v, want %v", got, want)
	}
}

// TestEqualListPutsNothing: a list that says what is known already leaves the
// mailbox empty.
func TestEqualListPutsNothing(t *testing.T) {
	for _, k := range []func(*inc.Table[text, text]) kind{func(*inc.Table[text, text]) kind { return nil }, shortKey} {
		equalListPutsNothing(t, k)
	}
}

func shortKey(table *inc.Table[text, text]) kind {
	return kindOf[text, text]{
		table: table,
		key:   func(n name, _ string) text { return text(n.name) },
		also:  func(text) string { return "" },
		sum:   func(h *maphash.Hash, v text) { maphash.WriteComparable(h, v) },
	}
}

func equalListPutsNothing(t *testing.T, k func(*inc.Table[text, text]) kind) {
	g := inc.New()
	table := inc.Input[text, text](g, "table")
	mail := NewMailbox()
	s := newStore(mail, func(o metav1.Object) []fact {
		return []fact{row[text, text]{table, text(o.GetName()), text(o.GetLabels()["v"])}}
	}, k(table))
	list := func(v string) []any {
		var out []any
		for i := range 1000 {
			out = append(out, &metav1.ObjectMeta{Name: fmt.Sprint(i), Labels: map[string]string{"v": v}})
		}
		return out
	}
	for _, step := range []struct {
		v    string
		puts int
	}{{"a", 1000}, {"a", 0}, {"b", 1000}, {"b", 0}} {
		if err := s.all().Replace(list(step.v), "1"); err != nil {
			t.Fatal(err)
		}
		if n := mail.Len(); n != step.puts {
			t.Errorf("list of %s put %d, want %d", step.v, n, step.puts)
		}
		for mail.Len() > 0 {
			mail.Take()
		}
	}
}

// TestOnePathIsOneRow: of an Ingress with very many hosts, what differs is put
// and nothing else, also when it comes with a list or findings come to it.
func TestOnePathIsOneRow(t *testing.T) {
	const hosts = 2000
	mail := NewMailbox()
	in := &fleet.Declare(inc.New()).In
	h := newHub(HubOptions{Inputs: in, Mailbox: mail, Members: &Members{asks: newAsks[model.Service](), reads: newReads[model.Service](time.Now)}})
	s := h.ingresses(nil).store
	wide := func(change func(*networkingv1.Ingress)) *networkingv1.Ingress {
		o := ingress("wide", "web")
		kind := networkingv1.PathTypePrefix
		for i := range hosts {
			o.Spec.Rules = append(o.Spec.Rules, networkingv1.IngressRule{Host: fmt.Sprintf("h%d.example", i), IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &kind, Backend: *o.Spec.DefaultBackend}}},
			}})
		}
		change(o)
		return o
	}
	for _, step := range []struct {
		what string
		do   func(*networkingv1.Ingress) error
		edit func(*networkingv1.Ingress)
		rows int
	}{
		{"it comes", func(o *networkingv1.Ingress) error { return s.all().Replace([]any{o}, "1") }, func(*networkingv1.Ingress) {}, 1 + hosts},
		{"another path", func(o *networkingv1.Ingress) error { return s.all().Add(o) }, func(o *networkingv1.Ingress) { o.Spec.Rules[7].HTTP.Paths[0].Path = "/new" }, 1},
		{"the first one, by a list", func(o *networkingv1.Ingress) error { return s.all().Replace([]any{o}, "2") }, func(*networkingv1.Ingress) {}, 1},
		{"the same", func(o *networkingv1.Ingress) error { return s.all().Add(o) }, func(*networkingv1.Ingress) {}, 0},
		{"one that is not valid: its row goes, a finding comes", func(o *networkingv1.Ingress) error { return s.all().Add(o) }, func(o *networkingv1.Ingress) { o.Spec.Rules[7].HTTP.Paths[0].Path = "new" }, 2},
		{"the same", func(o *networkingv1.Ingress) error { return s.all().Add(o) }, func(o *networkingv1.Ingress) { o.Spec.Rules[7].HTTP.Paths[0].Path = "new" }, 0},
		{"valid again", func(o *networkingv1.Ingress) error { return s.all().Add(o) }, func(*networkingv1.Ingress) {}, 2},
		{"its status is written", func(o *networkingv1.Ingress) error { return s.all().Add(o) }, func(o *networkingv1.Ingress) {
			o.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}
		}, 1},
		{"it goes", func(o *networkingv1.Ingress) error { return s.all().Delete(o) }, func(*networkingv1.Ingress) {}, 1 + hosts},
	} {
		if err := step.do(wide(step.edit)); err != nil {
			t.Fatal(err)
		}
		urgent := len(mail.TakeUrgent())
		all := urgent
		for n := -1; n != 0; all += n {
			n = len(mail.Take())
		}
		if all != step.rows || (urgent > 0) != (all > 0 && all <= largeDifference) {
			t.Errorf("%s: %d rows, %d of them urgent, want %d", step.what, all, urgent, step.rows)
		}
	}
}

// TestSameNameInTwoWorkspaces: what two tenants call the same are two objects on
// the hub; a member's objects are in no workspace, whatever they say of one.
func TestSameNameInTwoWorkspaces(t *testing.T) {
	g := inc.New()
	mail := NewMailbox()
	in := &fleet.Declare(g).In
	h := newHub(HubOptions{Inputs: in, Mailbox: mail, Members: &Members{asks: newAsks[model.Service](), reads: newReads[model.Service](time.Now)}})
	commit := func() {
		g.Commit(func(tx *inc.Tx) {
			for _, f := range mail.Take() {
				f(tx)
			}
		})
	}
	of := func(workspace string) *networkingv1.Ingress {
		o := ingress("web", "web")
		o.Annotations = map[string]string{"kcp.io/cluster": workspace}
		return o
	}
	s := h.ingresses(nil).store
	if err := errors.Join(s.all().Replace([]any{of("one"), of("two")}, "1"), s.all().Delete(of("one"))); err != nil {
		t.Fatal(err)
	}
	commit()
	if got, want := in.Roots.Keys(), (model.Object{Workspace: "two", Kind: "Ingress", Namespace: "shop", Name: "web"}); len(got) != 1 || got[0] != want {
		t.Errorf("roots %v, want %v", got, want)
	}
	m := newMember("eu-1", in, mail, slog.New(slog.DiscardHandler), usual)
	odd := service("web")
	odd.Annotations = of("one").Annotations
	at := model.MemberService{Service: model.ServiceOf("shop", "web"), Member: "eu-1"}
	m.services.adopt(name{"shop", "web"}, row[model.MemberService, model.ServiceSpec]{in.Services, at, model.ServiceSpec{}})
	if err := m.services.all().Replace([]any{odd}, "1"); err != nil {
		t.Fatal(err)
	}
	commit()
	if _, ok := in.Services.Get(nil, at); !ok || in.Services.Len() != 1 {
		t.Errorf("services %v", in.Services.Keys())
	}
}

// TestAClearedStoreIsStillBrought: what a reflector reads while the store is cleared is not
// taken, and nothing is shared that is not locked (go test -race).
func TestAClearedStoreIsStillBrought(t *testing.T) {
	g := inc.New()
	table := inc.Input[text, text](g, "texts")
	s := newStore(NewMailbox(), func(o metav1.Object) []fact {
		return []fact{row[text, text]{table, text(o.GetName() + "/"), "x"}}
	}, shortText(table))
	brought := make(chan error)
	go func() {
		var err error
		for i := range 1000 {
			err = errors.Join(err, s.all().Add(&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i)}}))
		}
		brought <- err
	}()
	s.clear()
	if err := <-brought; err != nil {
		t.Error(err)
	}
	if n := len(s.known.names(every)); n > 0 {
		t.Errorf("%d objects are known afterwards", n)
	}
}
