package cluster

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestSecretNamespaces: Secrets are read of some namespaces only, with rights for these
// alone; until there are all of them, the hub is not known. What a checkpoint has of
// others goes, and kubeconfigs of members are read as ever.
func TestSecretNamespaces(t *testing.T) {
	const all, web = "/api/v1/secrets", "/api/v1/namespaces/web/secrets"
	secret := func(namespace string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cert"}, Type: corev1.SecretTypeTLS}
	}
	api, _ := fleetOf(t)
	api.apply(secret("shop"), secret("web"), secret("other"))
	api.do(func() { api.hides = map[string]bool{all: true, web: true} })
	r := newRig(t, func(tx *inc.Tx, in *fleet.Inputs, _ *Tables) {
		in.Certificates.Set(tx, model.SecretID{Namespace: "other", Name: "cert"}, model.Certificate{Problem: "old"})
		in.Certificates.Set(tx, model.SecretID{Namespace: "shop", Name: "gone"}, model.Certificate{Problem: "old"})
	})
	r.secrets = []string{"shop", "web"}
	r.watch(api).hasty()
	past := r.past()
	r.hub.Adopt(past)
	r.start()

	has := func(want ...string) func() bool {
		return func() bool {
			var got []string
			for _, k := range r.in.Certificates.Keys() {
				got = append(got, k.String())
			}
			return slices.Equal(got, want)
		}
	}
	r.await("of shop, and of no other", has("shop/cert"))
	r.await("the member", r.connected("eu-1"))
	r.await("what is missing to be told", func() bool { return strings.Contains(r.hub.State().Problem, "secrets of namespace web") })
	if r.known {
		t.Error("the hub is known, and Secrets that are to be read are not")
	}
	api.do(func() { delete(api.hides, web) })
	r.await("all", func() bool { return r.known && has("shop/cert", "web/cert")() })
	api.remove(secret("web"))
	api.apply(secret("late"))
	r.await("one that goes", has("shop/cert"))
	changed := secret("shop")
	changed.Name = "more"
	api.apply(changed)
	r.await("one that comes", has("shop/cert", "shop/more"))
}
