package cluster

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func tlsSecret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: at("shop", name), Type: corev1.SecretTypeTLS}
}

// withTLS is an Ingress that names a Secret.
func withTLS(name, secret string) *networkingv1.Ingress {
	o := ingress(name, "web")
	o.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{name + ".example"}, SecretName: secret}}
	return o
}

// gatewayWith is a Gateway that names a Secret.
func gatewayWith(name, secret string) *gatewayv1.Gateway {
	return &gatewayv1.Gateway{ObjectMeta: at("shop", name), Spec: gatewayv1.GatewaySpec{GatewayClassName: "ours", Listeners: []gatewayv1.Listener{{
		Name: "https", Port: 443, Protocol: gatewayv1.HTTPSProtocolType,
		TLS: &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: gatewayv1.ObjectName(secret)}}},
	}}}}
}

// keyed are the names of the Secrets that have rows.
func (r *rig) keyed() string {
	var out []string
	for _, k := range r.in.Certificates.Keys() {
		out = append(out, k.Name)
	}
	return strings.Join(out, " ")
}

// names reports whether the row of an Ingress names a Secret.
func (r *rig) names(root, secret string) bool {
	v, _ := r.in.Roots.Get(nil, rootID(root))
	return len(v.TLS) == 1 && v.TLS[0].Secret.Name == secret
}

// limitSecrets has Secrets be read that something refers to, and no others.
func (r *rig) limitSecrets(used ...string) {
	var ids []model.SecretID
	for _, name := range used {
		ids = append(ids, secretNamed(name))
	}
	r.ask(func() {
		r.g.Commit(func(*inc.Tx) { r.hub.LimitSecrets(ids) })
	})
}

func secretNamed(name string) model.SecretID { return model.SecretID{Namespace: "shop", Name: name} }

// TestSecretsThatAreRead: keys that nothing refers to are not kept. An object that names
// another one is there when that is, and never before; one that does not exist holds
// nobody back.
func TestSecretsThatAreRead(t *testing.T) {
	for _, namespaces := range [][]string{nil, {"other", "shop"}} {
		hub := newFakeAPI(t)
		hub.apply(tlsSecret("a"), tlsSecret("b"), tlsSecret("c"), tlsSecret("idle"), withTLS("one", "a"))
		r := newRig(t, nil)
		r.secrets = namespaces
		r.watch(hub).start()
		r.await("all", func() bool { return r.known && r.keyed() == "a b c idle" })
		r.limitSecrets()
		r.await("what is referred to", func() bool { return r.keyed() == "a" })

		early := false
		hub.apply(withTLS("one", "b"))
		r.await("the Ingress names the other one", func() bool {
			is := r.names("one", "b")
			early = early || is && r.keyed() != "a b"
			return is
		})
		hub.apply(gatewayWith("gw", "c"))
		r.await("a Gateway names one", func() bool {
			is := r.in.Gateways.Len() == 1
			early = early || is && r.keyed() != "a b c"
			return is
		})
		if early {
			t.Error("an object was there before what it refers to")
		}
		hub.apply(tlsSecret("idle"), tlsSecret("new"))
		hub.apply(withTLS("two", "later"))
		r.await("a Secret that is nowhere keeps nobody", func() bool { return r.names("two", "later") })
		hub.apply(tlsSecret("later"))
		r.await("it comes", func() bool { return r.keyed() == "a b c later" })
		hub.remove(tlsSecret("b"))
		r.await("one goes", func() bool { return r.keyed() == "a c later" })
		r.ask(func() {
			r.hub.ReadSecrets([]model.SecretID{secretNamed("idle"), secretNamed("nowhere"), {Namespace: "away", Name: "x"}})
		})
		r.await("who else refers to one", func() bool { return r.keyed() == "a c idle later" })
	}
}

// TestSecretsThatAreSpared: a key to which nothing refers any more goes after a while, and
// is there again as soon as something does.
func TestSecretsThatAreSpared(t *testing.T) {
	hub := newFakeAPI(t)
	hub.apply(tlsSecret("a"), withTLS("one", "a"))
	var late atomic.Int64
	r := newRig(t, nil).watch(hub)
	r.hub.secrets.now = func() time.Time { return time.Unix(5000+late.Load(), 0) }
	r.start()
	r.await("known", func() bool { return r.known && r.keyed() == "a" })
	r.limitSecrets()
	spare := func() (did bool) {
		r.ask(func() {
			r.g.Commit(func(*inc.Tx) { did = r.hub.SpareSecret(secretNamed("a")) })
		})
		return did
	}
	if spare() {
		t.Fatal("it was named just now")
	}
	hub.remove(withTLS("one", "a"))
	r.await("the Ingress is gone", func() bool { return r.in.Roots.Len() == 0 })
	late.Store(int64(SpareAfter / time.Second))
	if !spare() {
		t.Fatal("it is still read")
	}
	r.await("it is dropped", func() bool { return r.keyed() == "" })
	hub.apply(withTLS("one", "a"))
	r.await("the Ingress is back, with it", func() bool { return r.names("one", "a") && r.keyed() == "a" })
}

// TestSecretsWait: while the hub answers nothing about a Secret, what names it waits, not
// for ever, and it comes when the hub does.
func TestSecretsWait(t *testing.T) {
	hub := newFakeAPI(t)
	hub.apply(tlsSecret("a"), tlsSecret("b"), withTLS("one", "a"))
	r := newRig(t, nil).watch(hub)
	r.hub.secretAsks.patience = 20 * time.Millisecond
	r.start()
	r.await("known", func() bool { return r.known && r.keyed() == "a b" })
	r.limitSecrets()
	hub.do(func() { hub.hides = map[string]bool{"/api/v1/namespaces/shop/secrets": true} })
	hub.apply(withTLS("one", "b"))
	r.await("the Ingress does not wait for ever", func() bool { return r.names("one", "b") })
	r.ask(func() {
		if is := r.keyed(); is != "a" {
			t.Errorf("there are %s", is)
		}
	})
	hub.do(func() { hub.hides = nil })
	r.await("the hub answers", func() bool { return r.keyed() == "a b" })
}

// TestSecretsAtRandom: whatever is made, changed and deleted, and whenever watches end, the
// Secrets that are read are there, and all that are named, and no others but those that were.
func TestSecretsAtRandom(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 0))
		hub := newFakeAPI(t)
		r := newRig(t, nil).watch(hub)
		for _, s := range r.hub.sources {
			s.pace, s.budget = hasty, nil
		}
		r.start()
		r.await("known", func() bool { return r.known })
		r.limitSecrets()
		there, named := map[string]bool{}, map[string]string{}
		ever := map[string]bool{}
		for range 60 {
			secret, root := "s-"+strconv.Itoa(rng.IntN(6)), "r-"+strconv.Itoa(rng.IntN(4))
			switch rng.IntN(7) {
			case 0, 1:
				hub.apply(tlsSecret(secret))
				there[secret] = true
			case 2:
				if there[secret] {
					hub.remove(tlsSecret(secret))
					delete(there, secret)
				}
			case 3, 4, 5:
				var o runtime.Object = withTLS(root, secret)
				if root == "r-3" {
					o = gatewayWith(root, secret)
				}
				hub.apply(o)
				named[root] = secret
				ever[secret] = true
			case 6:
				hub.sever()
			}
		}
		var must []string // what was named while no watch ran may have been missed
		for _, s := range named {
			if there[s] {
				must = append(must, s)
			}
		}
		defer func() {
			if t.Failed() {
				t.Logf("there %v, named %v, read %s; %v", there, named, r.keyed(), r.hub.State())
			}
		}()
		r.await("seed "+strconv.FormatUint(seed, 10), func() bool {
			for root, secret := range named {
				if root != "r-3" && !r.names(root, secret) {
					return false
				}
			}
			has := strings.Fields(r.keyed())
			return !slices.ContainsFunc(must, func(s string) bool { return !slices.Contains(has, s) }) && !slices.ContainsFunc(has, func(s string) bool { return !there[s] || !ever[s] })
		})
	}
}
