package hub

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

// follower is a process that serves the class spillway at the edge fra and
// reads the Ingress web from the hub as often as told.
type follower struct {
	f *fakeHub
	w *Writer
	g *inc.Graph
	p *fleet.Program
}

// serving makes a hub with one Ingress of ours, whose status lists the edge.
func serving(t *testing.T) *follower {
	f := newFakeHub()
	ingress := object("networking.k8s.io/v1", "Ingress")
	ingress["metadata"] = map[string]any{"namespace": "shop", "name": "web"}
	ingress["spec"] = map[string]any{"ingressClassName": "spillway", "rules": []any{map[string]any{
		"host": "shop.example", "http": map[string]any{"paths": []any{map[string]any{
			"path": "/", "pathType": "Prefix", "backend": map[string]any{"service": map[string]any{"name": "web", "port": map[string]any{"number": 80}}},
		}}},
	}}}
	f.add(webPath, ingress)
	x := start(t, f)
	x.g.Commit(func(tx *inc.Tx) {
		x.p.In.Acks.Set(tx, model.HostKey{Class: "spillway", Host: "shop.example"}, model.EdgesOf("fra"))
	})
	x.awaitStatus(t, "[map[ip:192.0.2.1]]")
	x.read(t)
	return x
}

// start is a process that knows what the hub says, and nothing else.
func start(t *testing.T, f *fakeHub) *follower {
	x := &follower{f: f, w: run(t, f), g: inc.New()}
	x.p = fleet.Declare(x.g)
	Follow(x.w, leaf.Declare(x.g, x.p, leaf.Outputs{}))
	x.g.Commit(func(tx *inc.Tx) {
		x.p.In.Edges.Set(tx, "fra", model.EdgeSpec{Networks: []string{"default"}, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}})
		x.p.In.Classes.Set(tx, "spillway", model.ClassSpec{})
	})
	x.read(t)
	x.w.Open()
	return x
}

// read takes the Ingress over from the hub.
func (x *follower) read(t *testing.T) {
	t.Helper()
	data, err := json.Marshal(x.f.get(webPath))
	if err != nil {
		t.Fatal(err)
	}
	var o networkingv1.Ingress
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	id, root, rules, _ := ingest.Ingress(&o)
	x.g.Commit(func(tx *inc.Tx) {
		x.p.In.Roots.Set(tx, id, root)
		for _, of := range rules {
			x.p.In.Rules.Set(tx, model.RulesID{Root: id, Host: of.Host}, of.Rules)
		}
	})
}

// edit changes the Ingress, on the hub and in the process.
func (x *follower) edit(t *testing.T, change map[string]any) {
	t.Helper()
	x.f.add(webPath, merge(x.f.get(webPath), change).(map[string]any))
	x.read(t)
}

func (x *follower) status() string {
	return fmt.Sprint(at(x.f.get(webPath), "status", "loadBalancer", "ingress"))
}

func (x *follower) awaitStatus(t *testing.T, want string) {
	t.Helper()
	eventually.True(t, "status "+want, func() bool { return x.status() == want })
}

var (
	anothers   = map[string]any{"spec": map[string]any{"ingressClassName": "nginx"}}
	nobodys    = map[string]any{"spec": map[string]any{"ingressClassName": nil}}
	byAnother  = map[string]any{"metadata": map[string]any{"managedFields": wroteAddresses("nginx-controller")}}
	itsAddress = map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "198.51.100.7"}}}}}
)

// TestStatusEndsWithService: whichever way an Ingress leaves us, our addresses
// leave its status, and come back with it.
func TestStatusEndsWithService(t *testing.T) {
	for name, way := range map[string]struct{ leave, back func(*testing.T, *follower) }{
		"of another class": {
			func(t *testing.T, x *follower) { x.edit(t, anothers) },
			func(t *testing.T, x *follower) {
				x.edit(t, map[string]any{"spec": map[string]any{"ingressClassName": "spillway"}})
			},
		},
		"of no class": {
			func(t *testing.T, x *follower) { x.edit(t, nobodys) },
			func(t *testing.T, x *follower) {
				x.g.Commit(func(tx *inc.Tx) { x.p.In.Classes.Set(tx, "spillway", model.ClassSpec{Default: true}) })
			},
		},
		"its class is deleted": {
			func(_ *testing.T, x *follower) {
				x.g.Commit(func(tx *inc.Tx) { x.p.In.Classes.Delete(tx, "spillway") })
			},
			func(_ *testing.T, x *follower) {
				x.g.Commit(func(tx *inc.Tx) { x.p.In.Classes.Set(tx, "spillway", model.ClassSpec{}) })
			},
		},
		"while we were away": {
			func(t *testing.T, x *follower) {
				x.f.add(webPath, merge(x.f.get(webPath), anothers).(map[string]any))
				*x = *start(t, x.f)
			},
			func(t *testing.T, x *follower) {
				x.edit(t, map[string]any{"spec": map[string]any{"ingressClassName": "spillway"}})
				x.g.Commit(func(tx *inc.Tx) {
					x.p.In.Acks.Set(tx, model.HostKey{Class: "spillway", Host: "shop.example"}, model.EdgesOf("fra"))
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := serving(t)
			way.leave(t, x)
			x.awaitStatus(t, "<nil>")
			x.read(t)
			if work := x.w.wanted(job{addresses, web}); work != nil {
				t.Error("there is still something to write")
			}
			way.back(t, x)
			x.awaitStatus(t, "[map[ip:192.0.2.1]]")
		})
	}
}

// TestWhatAnotherControllerWroteStays: before we look, and between our look and
// our patch.
func TestWhatAnotherControllerWroteStays(t *testing.T) {
	x := serving(t)
	theirs := merge(byAnother, itsAddress).(map[string]any)
	x.edit(t, merge(anothers, theirs).(map[string]any))
	if work := x.w.wanted(job{addresses, web}); work != nil {
		t.Error("another controller's status is to be written")
	}

	x = serving(t)
	looked := make(chan struct{}, 1)
	x.f.mu.Lock()
	x.f.meddle = func(path string) { // in the lock of the hub
		if at(x.f.objects[path], "metadata", "managedFields").([]any)[0].(map[string]any)["manager"] != "nginx-controller" {
			x.f.put(path, merge(x.f.objects[path], theirs).(map[string]any))
			return
		}
		looked <- struct{}{} // the second look: the patch was refused
	}
	x.f.mu.Unlock()
	x.edit(t, anothers)
	<-looked
	x.awaitStatus(t, "[map[ip:198.51.100.7]]")
	x.read(t)
	if work := x.w.wanted(job{addresses, web}); work != nil {
		t.Error("another controller's status is to be written")
	}
}
