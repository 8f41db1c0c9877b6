package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// hasty finds a dead member soon; a slow machine makes it flap, which no test minds.
var hasty = pace{every: 20 * time.Millisecond, timeout: 500 * time.Millisecond, patience: 600 * time.Millisecond, holds: 20 * time.Millisecond, excess: 20 * time.Millisecond, absent: wait.Backoff{Duration: 20 * time.Millisecond, Steps: 1}}

func (r *rig) hasty() *rig {
	r.members.pace = hasty
	return r
}

func (r *rig) connected(id model.Member) func() bool {
	return func() bool { return get(r.in.Sources, id).Connected }
}

func (r *rig) reason(id model.Member, reason string) func() bool {
	return func() bool { return get(r.in.Contacts, id).Reason == reason }
}

// fleetOf makes a hub that names one member.
func fleetOf(t *testing.T) (hub, api *fakeAPI) {
	hub, api = newFakeAPI(t), newFakeAPI(t)
	api.apply(service("web"), slice("web", "10.1.0.1", "10.1.0.2"))
	kubernetes := service("kubernetes")
	kubernetes.Namespace = "default"
	api.apply(kubernetes)
	hub.apply(memberCluster("eu-1", "eu-1"), kubeconfigSecret("eu-1", api.kubeconfig("t")))
	return hub, api
}

func webSlice(r *rig) model.Slice {
	return get(r.in.Slices, model.SliceID{
		MemberService: model.MemberService{Service: model.ServiceOf("shop", "web"), Member: "eu-1"}, Name: "web-1",
	})
}

// TestMemberLife: engages, follows changes, is cut and keeps its rows, stale,
// returns, and leaves with all of its rows; all without a restart.
func TestMemberLife(t *testing.T) {
	hub, api := fleetOf(t)
	r := newRig(t, nil).watch(hub).hasty().start()
	r.await("connected", r.connected("eu-1"))
	r.ask(func() {
		if says := get(r.in.Contacts, "eu-1").Message; !strings.Contains(says, "insecure-skip-tls-verify") {
			t.Errorf("of a certificate that is not checked it says %q", says)
		}
		if is := get(r.in.Clusters, "eu-1").V; is != "one" {
			t.Errorf("it is cluster %q", is)
		}
		if n := r.in.Services.Len(); n != 1 {
			t.Errorf("%d services: the API's own must not be there", n)
		}
		if n := webSlice(r).Endpoints.Len(); n != 2 {
			t.Errorf("connected with %d endpoints: the first list was not complete", n)
		}
	})
	api.apply(slice("web", "10.1.0.1", "10.1.0.2", "10.1.0.3"))
	r.await("third endpoint", func() bool { return webSlice(r).Endpoints.Len() == 3 })

	api.do(func() { api.status = 503 })
	api.sever()
	r.await("away", r.reason("eu-1", v1alpha1.ReasonFailing))
	r.ask(func() {
		s := get(r.in.Sources, "eu-1")
		if s.Connected || s.StaleSince == 0 || webSlice(r).Endpoints.Len() != 3 {
			t.Errorf("away: source %+v, slice %+v", s, webSlice(r))
		}
	})
	gone := slice("gone", "10.1.0.9")
	api.apply(gone)
	api.do(func() { api.status = 0 })
	r.await("back", r.connected("eu-1"))
	r.await("what came meanwhile", func() bool { return r.in.Slices.Len() == 2 })

	hub.remove(memberCluster("eu-1", "eu-1"))
	r.await("left", func() bool {
		return r.in.Services.Len()+r.in.Slices.Len()+r.in.Sources.Len()+r.in.Contacts.Len()+r.in.Clusters.Len()+r.in.Members.Len()+r.tables.Kubeconfigs.Len() == 0
	})
	api.apply(slice("late", "10.1.0.4"))
	hub.apply(memberCluster("eu-1", "eu-1"))
	r.await("engaged again", func() bool { return r.connected("eu-1")() && r.in.Slices.Len() == 3 })
}

// TestMemberRotation: a new kubeconfig is used without losing a row, and bad
// credentials say so.
func TestMemberRotation(t *testing.T) {
	hub, api := fleetOf(t)
	api.do(func() { api.token = "t" })
	r := newRig(t, nil).watch(hub).hasty().start()
	r.await("connected", r.connected("eu-1"))
	deleted := 0
	r.ask(func() {
		r.in.Slices.Watch(func(cs []inc.Change[model.SliceID, model.Slice]) {
			for _, c := range cs {
				if c.New == nil {
					deleted++
				}
			}
		})
	})
	api.do(func() { api.token = "new" })
	api.sever()
	r.await("unauthorized", r.reason("eu-1", v1alpha1.ReasonUnauthorized))
	hub.apply(kubeconfigSecret("eu-1", api.kubeconfig("new")))
	r.await("connected again", r.connected("eu-1"))
	hub.remove(kubeconfigSecret("eu-1", nil))
	r.await("no secret", r.reason("eu-1", v1alpha1.ReasonSecretNotFound))
	hub.apply(kubeconfigSecret("eu-1", api.kubeconfig("new")))
	r.await("connected at last", r.connected("eu-1"))
	r.ask(func() {
		if deleted > 0 || r.in.Slices.Len() != 1 {
			t.Errorf("%d slices were deleted on the way", deleted)
		}
	})
}

// TestMemberCheckpoint: with the hub away, members are engaged from the
// checkpoint; rows that only it had go with the member's own list, and a
// member that the hub no longer has goes with the hub's.
func TestMemberCheckpoint(t *testing.T) {
	t.Parallel() // it waits most of the time
	hub, api := fleetOf(t)
	hub.do(func() { hub.status = 500 })
	api.do(func() { api.status = 500 })
	load := func(tx *inc.Tx, in *fleet.Inputs, tables *Tables) {
		for _, m := range []model.Member{"eu-1", "left"} {
			id := model.MemberService{Service: model.ServiceOf("shop", "old"), Member: m}
			in.Services.Set(tx, id, model.ServiceSpec{})
			in.Slices.Set(tx, model.SliceID{MemberService: id, Name: "old-1"}, model.Slice{})
			in.Sources.Set(tx, m, model.Source{Connected: true})
			in.Contacts.Set(tx, m, model.Contact{Reason: v1alpha1.ReasonConnected})
			in.Members.Set(tx, m, model.MemberSpec{})
		}
		tables.Kubeconfigs.Set(tx, "eu-1", Kubeconfig{Data: api.kubeconfig("t")})
	}
	r := newRig(t, load).watch(hub).hasty().start()
	r.await("stale, and outdated", func() bool {
		return get(r.in.Sources, "eu-1") == model.Source{StaleSince: 1000} && r.in.Outdated.Len() == 2
	})
	api.do(func() { api.status = 0 })
	r.await("connected while the hub is away", func() bool { return r.connected("eu-1")() && !r.known })
	r.await("what was read is not outdated", func() bool { return slices.Equal(r.in.Outdated.Keys(), []model.Member{"left"}) })
	r.await("old rows gone", func() bool { return r.in.Services.Len() == 2 && r.in.Slices.Len() == 2 }) // web, and old of left
	r.ask(func() {
		if get(r.in.Sources, "left").Connected || r.in.Members.Len() != 2 {
			t.Error("the member that the hub may have is gone, or connected")
		}
		if r.members.Told() {
			t.Error("what another process was told of a member counts")
		}
	})
	hub.do(func() { hub.status = 0 })
	r.await("the member that left is gone", func() bool {
		return r.known && r.in.Members.Len() == 1 && r.in.Services.Len() == 1 && r.in.Slices.Len() == 1 && r.in.Sources.Len() == 1 && r.in.Outdated.Len() == 0
	})
	r.ask(func() {
		if !r.connected("eu-1")() {
			t.Error("the hub's return cut the member off")
		}
		if !r.members.Told() {
			t.Error("something is known of all members")
		}
	})
}

// TestManyMembers: some hang, some refuse, some have bad kubeconfigs; the
// others do not wait for them.
func TestManyMembers(t *testing.T) {
	t.Parallel() // it waits most of the time
	hub := newFakeAPI(t)
	good, hung := newFakeAPI(t), newFakeAPI(t)
	good.apply(service("web"), slice("web", "10.1.0.1"))
	hung.do(func() { hung.hang = true })
	down := newFakeAPI(t)
	down.do(func() { down.status = 500 })
	const n = 50
	want := 0
	for i := range n {
		id := fmt.Sprintf("m-%02d", i)
		var k []byte
		switch i % 5 {
		case 0:
			k = hung.kubeconfig("t")
		case 1:
			k = down.kubeconfig("t")
		case 2:
			k = []byte("no kubeconfig")
		default:
			k = good.kubeconfig("t")
			want++
		}
		hub.apply(memberCluster(id, id), kubeconfigSecret(id, k))
	}
	r := newRig(t, nil).watch(hub).start()
	r.await("all that can are connected", func() bool {
		connected := 0
		for _, m := range r.in.Sources.Keys() {
			if r.connected(m)() {
				connected++
			}
		}
		return connected == want && r.in.Slices.Len() == want
	})
	r.await("the bad ones say so", func() bool {
		return r.reason("m-02", v1alpha1.ReasonInvalidKubeconfig)() && r.reason("m-01", v1alpha1.ReasonFailing)()
	})
	r.ask(func() {
		if _, known := r.in.Sources.Get(nil, "m-00"); known {
			t.Error("a member that was never read has a source")
		}
	})
}

func TestKubeconfigs(t *testing.T) {
	const format = `{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
"clusters": [{"name": "c", "cluster": {%s}}], "users": [{"name": "u", "user": {%s}}]}`
	server := `"server": "https://192.0.2.1:6443"`
	const proxied = true
	for _, c := range []struct {
		cluster, user string
		proxied       bool
		reason, says  string
	}{
		{server, `"token": "secret"`, false, "", ""},
		{server, ``, false, "", ""},
		{`"server": "http://127.0.0.1:8001"`, `"token": "secret"`, false, "", ""},
		{`"server": "http://[::1]:8001"`, ``, false, "", ""},
		{`"server": "http://192.0.2.1:8001"`, `"token": "secret"`, false, v1alpha1.ReasonUnsafeKubeconfig, "https://"},
		{`"server": "http://localhost.example:8001"`, ``, false, v1alpha1.ReasonUnsafeKubeconfig, "https://"},
		{server + `, "proxy-url": "socks5://192.0.2.2:1080"`, ``, proxied, "", ""},
		{server + `, "proxy-url": "socks5://192.0.2.2:1080"`, ``, false, v1alpha1.ReasonUnsafeKubeconfig, v1alpha1.AnnotationAllowProxy},
		{server + `, "proxy-url": "file:///etc/passwd"`, ``, proxied, v1alpha1.ReasonInvalidKubeconfig, "proxy-url"},
		{server + `, "certificate-authority": "/etc/ca"`, ``, false, v1alpha1.ReasonUnsafeKubeconfig, "certificate-authority-data"},
		{server, `"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": ["/tmp/x"]}`, false, v1alpha1.ReasonUnsafeKubeconfig, "exec"},
		{server, `"auth-provider": {"name": "gcp"}`, false, v1alpha1.ReasonUnsafeKubeconfig, "auth-provider"},
		{server, `"tokenFile": "/etc/token"`, false, v1alpha1.ReasonUnsafeKubeconfig, "tokenFile"},
		{server, `"client-certificate": "/etc/crt"`, false, v1alpha1.ReasonUnsafeKubeconfig, "client-certificate-data"},
		{server, `"client-key": "/etc/key"`, false, v1alpha1.ReasonUnsafeKubeconfig, "client-key-data"},
		{`"server": ""`, ``, false, v1alpha1.ReasonInvalidKubeconfig, "server"},
		{`"server": "unix:///var/run/x"`, ``, false, v1alpha1.ReasonInvalidKubeconfig, "https://"},
	} {
		data := fmt.Sprintf(format, c.cluster, c.user)
		config, err := connection(Kubeconfig{Data: []byte(data), Proxied: c.proxied})
		switch {
		case c.reason == "" && err != nil:
			t.Errorf("%s: refused: %v", data, err)
		case c.reason == "":
			if config.BearerTokenFile+config.CAFile+config.CertFile+config.KeyFile != "" || config.ExecProvider != nil || config.AuthProvider != nil {
				t.Errorf("%s: names a file or program", data)
			}
		case err == nil || refusalOf(err).reason != c.reason || !strings.Contains(err.Error(), c.says):
			t.Errorf("%s: %v, want %s about %q", data, err, c.reason, c.says)
		}
	}
	for _, bad := range []string{"", "{}", "]", `{"current-context": "x"}`} {
		if _, err := connection(Kubeconfig{Data: []byte(bad)}); err == nil || strings.Contains(err.Error(), bad) && len(bad) > 2 {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestSecretsAreNotShown: a kubeconfig's text form is a fingerprint.
func TestSecretsAreNotShown(t *testing.T) {
	k := Kubeconfig{Data: []byte("hidden")}
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%+v", k), fmt.Sprintf("%#v", k), fmt.Sprintf("%v", []Kubeconfig{k})} {
		if strings.Contains(text, "hidden") || strings.Contains(text, fmt.Sprintf("%v", k.Data)) {
			t.Errorf("shown in %q", text)
		}
	}
	if !slices.Equal(k.Data, []byte("hidden")) {
		t.Error("changed")
	}
}
