package rbac_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/syncer"
)

// pair is a certificate for a host, and its key.
func pair(t *testing.T, host string) (chain, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour)}
	der, err1 := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	pkcs8, err2 := x509.MarshalPKCS8PrivateKey(private)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func tlsSecret(name string, chain, key []byte, labels map[string]string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Type: corev1.SecretTypeTLS, Immutable: new(true),
		Data: map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: key},
	}
}

var ourMarks = map[string]string{v1alpha1.LabelHub: "hub", v1alpha1.LabelKey: "x"}

// answers keeps what an API server answers.
type answers struct {
	http.RoundTripper
	mu  sync.Mutex
	all []string
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.all = append(a.all, r.Method+" "+r.URL.Path)
	a.mu.Unlock()
	return a.RoundTripper.RoundTrip(r)
}

// TestKeysOfMembers: with the role that we ship the account makes and deletes copies, by the
// code that does, and can't read, change or delete a Secret that is not ours, in any way
// that an API server has.
func TestKeysOfMembers(t *testing.T) {
	t.Parallel()
	a := newAdmin(t, server(t))
	a.applyFile("member.yaml")
	a.applyFile("member-keys.yaml")
	ctx := t.Context()
	all := a.core.CoreV1().Secrets("default")
	chain, key := pair(t, "a.example")
	theirs, err := all.Create(ctx, tlsSecret("theirs", chain, key, nil), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := a.as("spillway")
	ours := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("default")
	refusals(t, ours, chain, key)
	works(t, config, all, chain, key)
	if now, err := all.Get(ctx, "theirs", metav1.GetOptions{}); err != nil || now.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("a Secret that is not ours: %v %v", now, err)
	}
	needed(t, a, config, chain, key)
	withoutPolicy(t, a, ours)
}

// refusals tries what the account must not do. Nothing is changed if it may.
func refusals(t *testing.T, ours typedcorev1.SecretInterface, chain, key []byte) {
	t.Helper()
	dry := []string{metav1.DryRunAll}
	foreground := metav1.DeletePropagationForeground
	create := func(change func(*corev1.Secret)) func(context.Context) error {
		return func(ctx context.Context) error {
			s := tlsSecret("new", chain, key, map[string]string{v1alpha1.LabelHub: "hub", v1alpha1.LabelKey: "x"})
			change(s)
			_, err := ours.Create(ctx, s, metav1.CreateOptions{DryRun: dry})
			return err
		}
	}
	for what, try := range map[string]func(context.Context) error{
		"get":   func(ctx context.Context) error { _, err := ours.Get(ctx, "theirs", metav1.GetOptions{}); return err },
		"list":  func(ctx context.Context) error { _, err := ours.List(ctx, metav1.ListOptions{}); return err },
		"watch": func(ctx context.Context) error { _, err := ours.Watch(ctx, metav1.ListOptions{}); return err },
		"patch": func(ctx context.Context) error {
			_, err := ours.Patch(ctx, "theirs", types.MergePatchType, []byte(`{"metadata": {"labels": {"spillway.dev/hub": "hub", "spillway.dev/key": "x"}}}`), metav1.PatchOptions{DryRun: dry})
			return err
		},
		"delete": func(ctx context.Context) error { return ours.Delete(ctx, "theirs", metav1.DeleteOptions{DryRun: dry}) },
		"delete with an answer": func(ctx context.Context) error {
			return ours.Delete(ctx, "theirs", metav1.DeleteOptions{DryRun: dry, PropagationPolicy: &foreground})
		},
		"delete all": func(ctx context.Context) error {
			return ours.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{})
		},
		"create without the mark":  create(func(s *corev1.Secret) { s.Labels = nil }),
		"create without our label": create(func(s *corev1.Secret) { delete(s.Labels, v1alpha1.LabelKey) }),
		"create what changes":      create(func(s *corev1.Secret) { s.Immutable = nil }),
		"create with more in it":   create(func(s *corev1.Secret) { s.Data["x"] = []byte("y") }),
		"create another type":      create(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }),
		"create a token": create(func(s *corev1.Secret) {
			s.Type, s.Data, s.Annotations = corev1.SecretTypeServiceAccountToken, nil, map[string]string{corev1.ServiceAccountNameKey: "default"}
		}),
	} {
		eventually.True(t, what+" is refused", func() bool { // a policy takes a moment
			err := try(t.Context())
			return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "Spillway")
		})
	}
}

// works has copies made, made again, deleted and swept, by what serve does it with.
func works(t *testing.T, config *rest.Config, all typedcorev1.SecretInterface, chain, key []byte) {
	t.Helper()
	asked := &answers{}
	config = rest.CopyConfig(config)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { asked.RoundTripper = rt; return asked })
	var mu sync.Mutex
	told := map[string]syncer.Reason{}
	start := func() (*syncer.Keys, func()) {
		k := syncer.NewKeys(syncer.KeysOptions{Hub: "hub", Client: dynamic.NewForConfigOrDie(config), Report: func(n syncer.KeyName, r syncer.Reason, _ string) {
			mu.Lock()
			defer mu.Unlock()
			told[n.Name] = r
		}})
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.Run(ctx) }()
		return k, func() { end(); <-done }
	}
	became := func(name string, want syncer.Reason) {
		t.Helper()
		eventually.True(t, name+" is "+string(want), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return told[name] == want
		})
	}
	there := func(want ...string) {
		t.Helper()
		eventually.True(t, strings.Join(want, " "), func() bool {
			list, err := all.List(t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LabelKey})
			var got []string
			for i := range list.Items {
				got = append(got, list.Items[i].Name)
			}
			return err == nil && slices.Equal(got, want)
		})
	}
	name := func(n string) syncer.KeyName { return syncer.KeyName{Namespace: "default", Name: n} }
	copied := func(label string) *syncer.Copy {
		return &syncer.Copy{RootUID: "root", Label: label, Chain: chain, Key: key}
	}
	k, end := start()
	k.Want(name("a-1"), copied("1"))
	k.Want(name("a-2"), copied("2"))
	became("a-1", syncer.Applied)
	became("a-2", syncer.Applied)
	there("a-1", "a-2")
	if s, err := all.Get(t.Context(), "a-1", metav1.GetOptions{}); err != nil || string(s.Data[corev1.TLSPrivateKeyKey]) != string(key) || s.Immutable == nil || !*s.Immutable || s.Labels[v1alpha1.LabelHub] != "hub" {
		t.Errorf("the copy is %v %v", s, err)
	}
	k.Want(name("a-1"), nil)
	became("a-1", syncer.Gone)
	there("a-2")
	end()

	// Another process, that remembers nothing.
	if _, err := all.Create(t.Context(), tlsSecret("of-another-hub", chain, key, map[string]string{v1alpha1.LabelHub: "other", v1alpha1.LabelKey: "x"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	clear(told)
	k, end = start()
	k.Want(name("a-3"), copied("3"))
	became("a-3", syncer.Applied)
	k.Want(name("a-3"), copied("3")) // which is there
	k.Sweep("default")
	there("a-3", "of-another-hub")
	k.Want(name("a-3"), nil)
	became("a-3", syncer.Gone)
	k.Want(name("a-3"), nil) // which is not there
	there("of-another-hub")
	end()
	asked.mu.Lock()
	defer asked.mu.Unlock()
	for _, a := range asked.all {
		if !strings.HasPrefix(a, "POST ") && !strings.HasPrefix(a, "DELETE ") {
			t.Errorf("asked for %s", a)
		}
	}
}

// needed takes each verb of the role away: what it is for is refused then.
func needed(t *testing.T, a *admin, config *rest.Config, chain, key []byte) {
	t.Helper()
	ours := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("default")
	dry := []string{metav1.DryRunAll}
	if _, err := a.core.CoreV1().Secrets("default").Create(t.Context(), tlsSecret("ours", chain, key, ourMarks), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tries := map[string]func(context.Context) error{
		"create": func(ctx context.Context) error {
			_, err := ours.Create(ctx, tlsSecret("more", chain, key, ourMarks), metav1.CreateOptions{DryRun: dry})
			return err
		},
		"delete": func(ctx context.Context) error { return ours.Delete(ctx, "ours", metav1.DeleteOptions{DryRun: dry}) },
		"deletecollection": func(ctx context.Context) error {
			return ours.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{LabelSelector: v1alpha1.LabelHub + "=hub"})
		},
	}
	roles := a.core.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), "spillway-member-keys", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(role.Rules) != 1 || len(role.Rules[0].Verbs) != len(tries) {
		t.Fatalf("the role has %v", role.Rules)
	}
	verbs := role.Rules[0].Verbs
	for _, without := range append([]string{""}, verbs...) {
		role.Rules[0].Verbs = slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return v == without })
		if role, err = roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "without "+without+" that alone is refused", func() bool {
			for verb, try := range tries {
				if err := try(t.Context()); (err != nil) != (verb == without) || err != nil && !apierrors.IsForbidden(err) {
					return false
				}
			}
			return true
		})
	}
	role.Rules[0].Verbs = verbs
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// withoutPolicy shows what the policy is for: with the role alone the contents of any Secret
// come with the answer to a deletion that is only tried.
func withoutPolicy(t *testing.T, a *admin, ours typedcorev1.SecretInterface) {
	t.Helper()
	err := a.core.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), "spillway-member-keys", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "without the policy a trial of a deletion answers", func() bool {
		return ours.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ListOptions{}) == nil
	})
	foreground := metav1.DeletePropagationForeground
	client := kubernetes.NewForConfigOrDie(a.as("spillway")).CoreV1().RESTClient()
	for what, path := range map[string]string{"all": "/api/v1/namespaces/default/secrets", "one": "/api/v1/namespaces/default/secrets/theirs"} {
		answer, err := client.Delete().AbsPath(path).Body(&metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}, PropagationPolicy: &foreground}).DoRaw(t.Context())
		if err != nil || !strings.Contains(string(answer), corev1.TLSPrivateKeyKey) {
			t.Errorf("deleting %s on trial tells nothing of contents any more (%v): say so in member-keys.yaml and docs/threats.md", what, err)
		}
	}
}

// TestKeys: serve gives keys to members that have a leaf that needs them, where the Secret
// allows it, renews them without a gap, and takes them away.
func TestKeys(t *testing.T) {
	t.Parallel()
	f := newLeafFleet(t)
	for _, m := range f.members {
		m.applyFile("member-leaves.yaml")
	}
	f.members["eu-1"].applyFile("member-keys.yaml")
	configs := f.hub.dynamic.Resource(v1alpha1.GroupVersion.WithResource("gatewayclassconfigs"))
	_, err := configs.Patch(t.Context(), "members", types.MergePatchType, []byte(`{"spec": {"leaf": {"tls": "Distribute", "members": [{"name": "eu-2", "tls": "Local"}]}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hubSecrets := f.hub.core.CoreV1().Secrets("default")
	chain, key := pair(t, "web.example")
	secret := tlsSecret("cert", chain, key, nil)
	secret.Immutable = nil
	if _, err := hubSecrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	theirs, err := f.members["eu-1"].core.CoreV1().Secrets("default").Create(t.Context(), tlsSecret("cert", chain, key, nil), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.start()
	f.root("web", "/")
	tls := []byte(`{"spec": {"tls": [{"hosts": ["web.example"], "secretName": "cert"}]}}`)
	if _, err := f.hub.core.NetworkingV1().Ingresses("default").Patch(t.Context(), "web", types.MergePatchType, tls, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.told("web", "KeyNotDistributed", v1alpha1.AnnotationDistribute)
	names := func(m string) string {
		if o := f.leaf(m, "web"); o != nil && len(o.Spec.TLS) > 0 {
			return o.Spec.TLS[0].SecretName
		}
		return ""
	}
	copies := func(m string) (out []corev1.Secret) {
		list, err := f.members[m].core.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LabelKey})
		if err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	only := func(what string, key []byte) string {
		t.Helper()
		eventually.True(t, what, func() bool {
			all := copies("eu-1")
			return len(all) == 1 && string(all[0].Data[corev1.TLSPrivateKeyKey]) == string(key) && names("eu-1") == all[0].Name
		})
		return names("eu-1")
	}
	eventually.True(t, "leaves name the members' own", func() bool { return names("eu-1") == "cert" && names("eu-2") == "cert" })
	annotate := func(text string) {
		if _, err := hubSecrets.Patch(t.Context(), "cert", types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	annotate(`{"metadata": {"annotations": {"spillway.dev/distribute": "eu-1, eu-2"}}}`)
	first := only("eu-1 has the key, and its leaf names it", key)
	if len(copies("eu-2")) > 0 || names("eu-2") != "cert" {
		t.Errorf("eu-2 has %d keys; its leaf names %s", len(copies("eu-2")), names("eu-2"))
	}

	// Renewed: at each time the leaf names a Secret that is there.
	watch, gaps := make(chan struct{}), make(chan error, 1)
	go func() { gaps <- watchGaps(f, watch) }()
	chain2, key2 := pair(t, "web.example")
	renewed, err := hubSecrets.Get(t.Context(), "cert", metav1.GetOptions{})
	if err == nil {
		renewed.Data = map[string][]byte{corev1.TLSCertKey: chain2, corev1.TLSPrivateKeyKey: key2}
		_, err = hubSecrets.Update(t.Context(), renewed, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if second := only("eu-1 has the new key alone", key2); second == first {
		t.Error("the new key has the old name")
	}
	close(watch)
	if err := <-gaps; err != nil {
		t.Error(err)
	}

	// What was left by a process that remembers nothing goes.
	f.kill()
	if err := os.RemoveAll(f.dir + "/state"); err != nil {
		t.Fatal(err)
	}
	hub := f.leaf("eu-1", "web").Labels[v1alpha1.LabelHub]
	lost := tlsSecret("lost-1", chain, key, map[string]string{v1alpha1.LabelHub: hub, v1alpha1.LabelKey: "lost"})
	if _, err := f.members["eu-1"].core.CoreV1().Secrets("default").Create(t.Context(), lost, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.start()
	only("what was lost is gone", key2)

	// Consent that ends, and a root that goes.
	annotate(`{"metadata": {"annotations": {"spillway.dev/distribute": null}}}`)
	eventually.True(t, "no consent, no key", func() bool { return len(copies("eu-1")) == 0 && names("eu-1") == "cert" })
	annotate(`{"metadata": {"annotations": {"spillway.dev/distribute": "true"}}}`)
	only("consent again", key2)
	if err := f.hub.core.NetworkingV1().Ingresses("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	eventually.True(t, "no leaf, no key", func() bool { return len(copies("eu-1")) == 0 })
	if took := time.Since(from); took > 10*time.Second {
		t.Errorf("the key went after %v", took)
	}
	if now, err := f.members["eu-1"].core.CoreV1().Secrets("default").Get(t.Context(), "cert", metav1.GetOptions{}); err != nil || now.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("the member's own Secret: %v", err)
	}
}

// watchGaps looks, until it is told to end, whether the leaf names a Secret that is there.
func watchGaps(f *leafFleet, over chan struct{}) error {
	core := f.members["eu-1"].core
	for {
		select {
		case <-over:
			return nil
		default:
		}
		o, err := core.NetworkingV1().Ingresses("default").Get(f.t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if _, err := core.CoreV1().Secrets("default").Get(f.t.Context(), o.Spec.TLS[0].SecretName, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			// It may have been renewed between the two looks.
			now, err := core.NetworkingV1().Ingresses("default").Get(f.t.Context(), "web", metav1.GetOptions{})
			if err != nil || now.Spec.TLS[0].SecretName == o.Spec.TLS[0].SecretName {
				return errors.New("the leaf names " + o.Spec.TLS[0].SecretName + ", which is not there")
			}
		}
	}
}
