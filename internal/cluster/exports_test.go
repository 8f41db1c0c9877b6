package cluster

import (
	"strings"
	"testing"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func export(name string) *mcsv1beta1.ServiceExport {
	return &mcsv1beta1.ServiceExport{ObjectMeta: at("shop", name)}
}

func exportID(name string) model.MemberService {
	return model.MemberService{Service: model.ServiceOf("shop", name), Member: "eu-1"}
}

// TestMemberExports: what a member exports comes and goes, and leaves with it.
func TestMemberExports(t *testing.T) {
	hub, api := fleetOf(t)
	api.apply(export("web"))
	r := newRig(t, nil).watch(hub).hasty().start()
	r.await("connected", r.connected("eu-1"))
	r.ask(func() {
		if _, ok := r.in.Exports.Get(nil, exportID("web")); !ok {
			t.Error("connected without what it exports")
		}
	})
	api.apply(export("api"))
	r.await("another", func() bool { return r.in.Exports.Len() == 2 })
	api.remove(export("web"))
	r.await("one less", func() bool { return r.in.Exports.Len() == 1 })
	hub.remove(memberCluster("eu-1", "eu-1"))
	r.await("left", func() bool { return r.in.Exports.Len() == 0 })
}

// TestMemberWithoutExports: a member that does not know exports, or does not let us see
// them, is as good as any other, says so, and is asked again. What was known of them
// stays.
func TestMemberWithoutExports(t *testing.T) {
	for what, set := range map[string]func(*fakeAPI, string){
		"lacks":  func(api *fakeAPI, group string) { api.lacks = group },
		"denies": func(api *fakeAPI, group string) { api.denies = group },
	} {
		t.Run(what, func(t *testing.T) {
			hub, api := fleetOf(t)
			set(api, model.ImportGroup)
			api.apply(export("web"))
			r := newRig(t, func(tx *inc.Tx, in *fleet.Inputs, _ *Tables) { in.Exports.Set(tx, exportID("old"), model.Export{}) })
			r.watch(hub).hasty().start()
			r.await("connected", r.connected("eu-1"))
			says := func() bool {
				return strings.Contains(get(r.in.Contacts, "eu-1").Hidden, "serviceexports.multicluster.x-k8s.io")
			}
			r.await("told", func() bool { return says() == (what == "denies") })
			r.ask(func() {
				if _, ok := r.in.Exports.Get(nil, exportID("old")); !ok || r.in.Exports.Len() != 1 {
					t.Errorf("exports %v", r.in.Exports.Keys())
				}
			})
			api.do(func() { set(api, "") })
			r.await("seen", func() bool {
				_, ok := r.in.Exports.Get(nil, exportID("web"))
				return ok && r.in.Exports.Len() == 1 && r.connected("eu-1")() && !says()
			})
		})
	}
}
