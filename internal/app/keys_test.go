package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/cluster"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/syncer"
)

// keyFake keeps what is asked of copies, by name.
type keyFake struct {
	wants map[string]*syncer.Copy
	asked []string
}

func (f *keyFake) Want(name syncer.KeyName, c *syncer.Copy) {
	word := "delete "
	if f.wants[name.Name] = c; c != nil {
		word = "create "
	}
	f.asked = append(f.asked, word+name.Name)
}
func (f *keyFake) Again(name syncer.KeyName) { f.asked = append(f.asked, "again "+name.Name) }
func (f *keyFake) Sweep(namespace string)    { f.asked = append(f.asked, "sweep "+namespace) }

// keyRig is a member with a leaf of a root with TLS, whose key goes along.
type keyRig struct {
	*leafRig
	*keyFake
	t      *testing.T
	id     model.LeafID
	secret model.SecretID
}

func newKeyRig(t *testing.T, before ...func(*inc.Tx, *keyRig)) *keyRig {
	r := &keyRig{
		leafRig: newLeafRig(t), keyFake: &keyFake{wants: map[string]*syncer.Copy{}}, t: t,
		id:     model.LeafID{Member: "eu-1", Root: model.Object{Kind: "Ingress", Namespace: "shop", Name: "web"}},
		secret: model.SecretID{Namespace: "shop", Name: "cert"},
	}
	start := r.leaves.start
	r.leaves.start = func(m model.Member, run *leafRun) {
		start(m, run)
		run.key.writer = r.keyFake
	}
	r.leaves.listed = true
	r.leaves.Engaged("eu-1", &cluster.Way{})
	in := &r.prog.In
	r.commit(func(tx *inc.Tx) {
		in.Members.Set(tx, "eu-1", model.MemberSpec{Guarded: true})
		in.Configs.Set(tx, "c", model.ConfigSpec{Leaf: &model.LeafSpec{TLS: model.LeafTLSDistribute}})
		in.Classes.Set(tx, "members", model.ClassSpec{Config: "c"})
		web := model.BackendKey{Service: model.ServiceOf("shop", "web"), Port: model.PortRef{Number: 80}}.Backend()
		in.Services.Set(tx, model.MemberService{Service: model.ServiceOf("shop", "web"), Member: "eu-1"}, model.ServiceSpec{Ports: []model.ServicePort{{Number: 80, Protocol: "TCP"}}})
		in.Roots.Set(tx, r.id.Root, model.Root{Classes: "members", Default: &web})
		backend := `{"service": {"name": "web", "port": {"number": 80}}}`
		in.Manifests.Set(tx, r.id.Root, model.Manifest{UID: "u", Body: `{"metadata": {}, "spec": {"tls": [{"secretName": "cert"}], "defaultBackend": ` + backend + `}}`})
		in.Sources.Set(tx, "eu-1", model.Source{Connected: true})
		r.certificate(tx, "one")
		for _, f := range before {
			f(tx, r)
		}
	})
	return r
}

func (r *keyRig) certificate(tx *inc.Tx, chain string, to ...string) {
	if len(to) == 0 {
		to = []string{model.AnyMember}
	}
	r.prog.In.Certificates.Set(tx, r.secret, model.Certificate{Chain: []byte(chain), Key: []byte("key of " + chain), UID: "s", To: model.TextsOf(to)})
}

// name is what a copy is called.
func (r *keyRig) name(chain string) string {
	return model.HeldName(r.secret, model.Certificate{Chain: []byte(chain), UID: "s"})
}

func (r *keyRig) run() *leafRun { return r.leaves.runs["eu-1"] }

// says has the member say what became of a copy.
func (r *keyRig) says(chain string, became syncer.Reason) {
	r.run().reportKey(syncer.KeyName{Namespace: "shop", Name: r.name(chain)}, became, "Forbidden")
	r.commit(func(*inc.Tx) {})
}

// has has the member say that it has the leaf, and what that names.
func (r *keyRig) has(tag string, uid types.UID, reason syncer.Reason) {
	r.run().report(keyIn(r.id, ""), syncer.State{Reason: reason, UID: uid, Tag: tag})
	r.commit(func(*inc.Tx) {})
}

// asks checks what was asked of copies since the last time, and what leaf was passed on.
func (r *keyRig) asks(what string, want ...string) {
	r.t.Helper()
	for i, w := range want {
		verb, chain, _ := strings.Cut(w, " ")
		if verb != "sweep" {
			want[i] = verb + " " + r.name(chain)
		}
	}
	if !slices.Equal(r.asked, want) {
		r.t.Errorf("%s: asked for %v, want %v", what, r.asked, want)
	}
	r.asked = nil
}

// written is whether the leaf was passed on, and for which copy it waits.
func (r *keyRig) written(what string, told, waits bool) {
	r.t.Helper()
	key, k := keyIn(r.id, ""), &r.run().key
	if k.told[key] != told || k.waiting[key] != waits {
		r.t.Errorf("%s: the leaf was passed on: %v, want %v; it waits: %v, want %v", what, k.told[key], told, k.waiting[key], waits)
	}
}

func (r *keyRig) states() string {
	var out []string
	for _, k := range r.prog.In.HeldKeys.Keys() {
		s, _ := r.prog.In.HeldKeys.Get(nil, k)
		out = append(out, fmt.Sprint(k.Name, " ", s.Reason, " ", s.There))
	}
	return strings.Join(out, "; ")
}

// TestKeysBeforeLeaves: a leaf waits for its key; a renewed one waits for the new one while
// what it names is kept, and the old one goes when the leaf names the new one.
func TestKeysBeforeLeaves(t *testing.T) {
	r := newKeyRig(t)
	r.asks("a start", "create one")
	r.written("a start", false, true)
	if c := r.wants[r.name("one")]; c == nil || string(c.Key) != "key of one" || string(c.Chain) != "one" {
		t.Fatalf("the copy is %v", c)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, r.wants[r.name("one")]); strings.Contains(text, "key of") {
			t.Errorf("%s shows %s", verb, text)
		}
	}
	r.says("one", syncer.Refused)
	r.written("it is refused", false, true)
	if got := r.states(); got != r.name("one")+" Refused false" {
		t.Error(got)
	}
	r.says("one", syncer.Applied)
	r.written("the key is there", true, false)
	r.has(r.name("one"), "x", syncer.Applied)
	r.asks("the leaf is there", "sweep shop")

	r.commit(func(tx *inc.Tx) { r.certificate(tx, "two") })
	r.asks("renewed", "create two")
	r.written("renewed", true, true)
	r.has(r.name("one"), "x", syncer.Applied)
	r.asks("the leaf is as before")
	r.says("two", syncer.Applied)
	r.written("the new key is there", true, false)
	r.asks("the leaf is not written yet")
	r.has(r.name("one"), "x", syncer.Refused)
	r.asks("the leaf is refused")
	r.has(r.name("two"), "x", syncer.Applied)
	r.asks("the leaf names the new key", "delete one")
	r.says("one", syncer.Gone)
	if got := r.states(); got != r.name("two")+" Held true" {
		t.Error(got)
	}

	// The member is made anew behind its address.
	r.has(r.name("two"), "", syncer.Pending)
	r.asks("the leaf is gone", "again two")
	r.has(r.name("two"), "y", syncer.Applied)
	r.asks("the leaf is back")
}

// TestKeysGo: consent that ends, a leaf that waits for consent to go, and a member that
// comes back with what it should not have.
func TestKeysGo(t *testing.T) {
	r := newKeyRig(t)
	r.says("one", syncer.Applied)
	r.has(r.name("one"), "x", syncer.Applied)
	r.asked = nil
	r.commit(func(tx *inc.Tx) { r.certificate(tx, "one", "us-1") })
	r.asks("no consent, and the leaf names it")
	r.written("no consent", true, false)
	r.has("", "x", syncer.Applied)
	r.asks("the leaf names it no more", "delete one")
	r.says("one", syncer.Refused)
	if got := r.states(); got != r.name("one")+" Refused true" {
		t.Error(got)
	}
	r.says("one", syncer.Gone)
	if got := r.states(); got != "" {
		t.Error(got)
	}

	r.commit(func(tx *inc.Tx) { r.certificate(tx, "one") })
	r.says("one", syncer.Applied)
	r.has(r.name("one"), "x", syncer.Applied)
	r.asked = nil
	r.has(r.name("one"), "x", syncer.Waiting)
	r.commit(func(tx *inc.Tx) { r.prog.In.Roots.Delete(tx, r.id.Root) })
	r.asks("the leaf waits for consent")
	r.has("", "", syncer.Gone)
	r.asks("the leaf is gone", "delete one")

	// A run that is over says nothing, and the next one knows what is left.
	run := r.run()
	r.leaves.Ended("eu-1")
	r.commit(func(*inc.Tx) {})
	run.reportKey(syncer.KeyName{Namespace: "shop", Name: r.name("one")}, syncer.Gone, "")
	r.commit(func(*inc.Tx) {})
	if got := r.states(); got != r.name("one")+" Held true" {
		t.Error(got)
	}
	r.leaves.Engaged("eu-1", &cluster.Way{})
	r.commit(func(*inc.Tx) {})
	r.asks("the member is back", "delete one")
	r.leaves.Left("eu-1")
	r.commit(func(tx *inc.Tx) { r.prog.In.Members.Delete(tx, "eu-1") })
	if got := r.states(); got != "" {
		t.Error("of a member that has left: ", got)
	}
	if len(r.leaves.keys.has)+len(r.leaves.keys.wants) > 0 {
		t.Error(maps.Collect(maps.All(r.leaves.keys.has)))
	}
}

// TestKeysOfARestart: what a checkpoint says was there is enough where it can't be made
// again, and what it says and nobody wants goes, but not before all is known.
func TestKeysOfARestart(t *testing.T) {
	old := model.HeldKey{Member: "eu-1", Secret: model.SecretID{Namespace: "shop", Name: "old"}, Name: "old-1"}
	r := newKeyRig(t, func(tx *inc.Tx, r *keyRig) {
		r.prog.In.HeldKeys.Set(tx, old, model.KeyState{Reason: model.KeyHeld, There: true})
		r.prog.In.HeldKeys.Set(tx, model.HeldKey{Member: "eu-1", Secret: r.secret, Name: r.name("one")}, model.KeyState{Reason: model.KeyHeld, There: true})
	})
	r.asks("a start", "create one")
	r.written("a start", false, true)
	r.says("one", syncer.Refused)
	r.written("it was there", true, false)
	r.asks("the leaf is not known")
	r.has(r.name("one"), "x", syncer.Applied)
	if len(r.asked) != 2 || r.asked[0] != "delete old-1" || r.asked[1] != "sweep shop" {
		t.Error(r.asked)
	}
}

// TestKeysOfAnotherNamespace: a Gateway names a copy in another namespace when that is there
// and the ReferenceGrant in the member lets it, renewed or not; and the copy goes after the
// Gateway does.
func TestKeysOfAnotherNamespace(t *testing.T) {
	r := newKeyRig(t)
	wide := model.SecretID{Namespace: "certs", Name: "wide"}
	gateway := model.LeafID{Member: "eu-1", Root: model.Object{Kind: model.GatewayKind, Namespace: "shop", Name: "gw"}}
	grant := model.LeafID{Member: "eu-1", Root: model.Object{Kind: "ReferenceGrant", Namespace: "certs", Name: "g"}}
	r.leaves.met(gateway)
	r.leaves.met(grant)
	r.commit(func(*inc.Tx) {}) // another run, which knows these kinds
	run := r.run()
	renew := func(chain string, old ...model.HeldKey) model.HeldKey {
		c := model.Certificate{Chain: []byte(chain), Key: []byte("key"), UID: "w", To: model.TextsOf([]string{model.AnyMember})}
		k := model.HeldKey{Member: "eu-1", Secret: wide, Name: model.HeldName(wide, c)}
		r.commit(func(tx *inc.Tx) { r.prog.In.Certificates.Set(tx, wide, c) })
		run.want(grant, &leaf.Leaf{Body: "{}", UID: "g", Lets: append(slices.Clone(old), k)})
		run.want(gateway, &leaf.Leaf{Body: "{}", UID: "w", Keys: []model.HeldKey{k}})
		run.wantKey(k, true) // leaves before keys, as flush does
		for _, o := range old {
			run.wantKey(o, false)
		}
		r.asked = nil
		return k
	}
	names := func(all ...model.HeldKey) string { return tagOf(leaf.Leaf{Lets: all}) }
	waits := func(what string, want bool) {
		t.Helper()
		if got := run.key.waiting[keyIn(gateway, "")]; got != want {
			t.Errorf("%s: the Gateway waits: %v", what, got)
		}
	}
	is := func(id model.LeafID, reason syncer.Reason, tag string, uid types.UID) {
		run.report(keyIn(id, ""), syncer.State{Reason: reason, UID: uid, Tag: tag})
	}
	held := func(k model.HeldKey, became syncer.Reason) { run.reportKey(keyName(k), became, "") }
	is(r.id, syncer.Applied, "", "x")

	one := renew("one")
	waits("nothing is there", true)
	held(one, syncer.Applied)
	waits("the copy is there, and nobody lets it", true)
	is(grant, syncer.Applied, names(one), "g")
	waits("all is there", false)
	is(gateway, syncer.Applied, names(one), "w")

	two := renew("two", one)
	waits("renewed", true)
	held(two, syncer.Applied)
	waits("the grant does not name the new copy", true)
	is(grant, syncer.Refused, "", "g")
	waits("the grant is refused", true)
	is(grant, syncer.Applied, names(one, two), "g")
	waits("the grant names both", false)
	if len(r.asked) > 0 {
		t.Errorf("before the Gateway names the new copy: %v", r.asked)
	}
	is(gateway, syncer.Applied, names(two), "w")
	if !slices.Equal(r.asked, []string{"delete " + one.Name, "sweep certs"}) {
		t.Errorf("when it does: %v", r.asked)
	}

	r.asked = nil
	run.want(gateway, nil)
	run.wantKey(two, false)
	is(gateway, syncer.Waiting, "", "w")
	if len(r.asked) > 0 {
		t.Errorf("the Gateway is there yet: %v", r.asked)
	}
	is(gateway, syncer.Gone, "", "")
	if !slices.Contains(r.asked, "delete "+two.Name) {
		t.Errorf("the Gateway is gone: %v", r.asked)
	}
}
