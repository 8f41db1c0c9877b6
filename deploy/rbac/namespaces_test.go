package rbac_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/syncer"
)

// TestNamespacesOfMembers: with the roles that we ship leaves and keys are written in
// namespaces that are not there, where that is allowed, by the code that does; and the
// account can do nothing else with namespaces.
func TestNamespacesOfMembers(t *testing.T) {
	t.Parallel()
	a := newAdmin(t, server(t))
	for _, file := range []string{"member.yaml", "member-leaves.yaml", "member-keys.yaml", "member-namespaces.yaml"} {
		a.applyFile(file)
	}
	ctx := t.Context()
	config := a.as("spillway")
	ours, all := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces(), a.core.CoreV1().Namespaces()
	dry := []string{metav1.DryRunAll}
	create := func(name string, labels, annotations map[string]string) func(context.Context) error {
		return func(ctx context.Context) error {
			o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}}
			_, err := ours.Create(ctx, o, metav1.CreateOptions{DryRun: dry})
			return err
		}
	}
	mark, root := map[string]string{v1alpha1.LabelHub: "hub"}, map[string]string{v1alpha1.AnnotationRoot: "Namespace///shop"}
	eventually.True(t, "a namespace with our mark can be made", func() bool { return create("shop", mark, root)(ctx) == nil })
	for what, try := range map[string]func(context.Context) error{
		"create without the mark":          create("shop", nil, root),
		"create without whose it is":       create("shop", mark, nil),
		"create with another label":        create("shop", map[string]string{v1alpha1.LabelHub: "hub", "pod-security.kubernetes.io/enforce": "privileged"}, root),
		"create with another word":         create("shop", mark, map[string]string{v1alpha1.AnnotationRoot: "x", "openshift.io/node-selector": "x"}),
		"create one of Kubernetes":         create("kube-more", mark, root),
		"create one of OpenShift":          create("openshift-more", mark, root),
		"create our own":                   create("spillway-system", mark, root),
		"delete":                           func(ctx context.Context) error { return ours.Delete(ctx, "default", metav1.DeleteOptions{DryRun: dry}) },
		"list":                             func(ctx context.Context) error { _, err := ours.List(ctx, metav1.ListOptions{}); return err },
		"read one that is not Kubernetes'": func(ctx context.Context) error { _, err := ours.Get(ctx, "default", metav1.GetOptions{}); return err },
		"change": func(ctx context.Context) error {
			_, err := ours.Patch(ctx, "default", types.MergePatchType, []byte(`{"metadata": {"labels": {"spillway.dev/hub": "hub"}}}`), metav1.PatchOptions{DryRun: dry})
			return err
		},
	} {
		eventually.True(t, what+" is refused", func() bool { // a policy takes a moment
			err := try(ctx)
			return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "Spillway")
		})
	}

	var mu sync.Mutex
	states := map[string]syncer.Reason{}
	told := func(name string, became syncer.Reason) {
		mu.Lock()
		defer mu.Unlock()
		states[name] = became
	}
	became := func(name string, want syncer.Reason) {
		t.Helper()
		eventually.True(t, name+" is "+string(want), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return states[name] == want
		})
	}
	may := false
	client := dynamic.NewForConfigOrDie(config)
	spaces := &syncer.Namespaces{Hub: "hub", Client: client, Log: slog.New(slog.DiscardHandler), May: func() bool { mu.Lock(); defer mu.Unlock(); return may }}
	ingresses := schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
	s, err := syncer.New(syncer.Options{Hub: "hub", Client: client, Kinds: []schema.GroupVersionResource{ingresses}, Namespaces: spaces, Report: func(k syncer.Key, s syncer.State) { told(k.Namespace, s.Reason) }})
	if err != nil {
		t.Fatal(err)
	}
	keys := syncer.NewKeys(syncer.KeysOptions{Hub: "hub", Client: client, Namespaces: spaces, Report: func(n syncer.KeyName, r syncer.Reason, _ string) { told(n.Namespace, r) }})
	run, end := context.WithCancel(ctx)
	var over sync.WaitGroup
	over.Go(func() { s.Run(run) })
	over.Go(func() { keys.Run(run) })
	defer func() { end(); over.Wait() }()

	chain, key := pair(t, "a.example")
	backend := map[string]any{"service": map[string]any{"name": "web", "port": map[string]any{"number": int64(80)}}}
	leaf := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": map[string]any{"defaultBackend": backend}}}
	leaf.SetNamespace("team-shop")
	leaf.SetName("web")
	s.Want(syncer.Key{Resource: ingresses, Namespace: "team-shop", Name: "web"}, &syncer.Leaf{Object: leaf, Root: syncer.Root{Kind: "Ingress", Workspace: "w", Namespace: "shop", Name: "web", UID: "u"}})
	keys.Want(syncer.KeyName{Namespace: "certs", Name: "cert-1"}, &syncer.Copy{Label: "1", Namespace: "certs", Chain: chain, Key: key})
	became("team-shop", syncer.Refused)
	became("certs", syncer.Refused)
	mu.Lock()
	may = true
	mu.Unlock()
	became("team-shop", syncer.Applied)
	became("certs", syncer.Applied)
	for name, of := range map[string]string{"team-shop": "Namespace/w//shop", "certs": "Namespace///certs"} {
		n, err := all.Get(ctx, name, metav1.GetOptions{})
		if err != nil || n.Labels[v1alpha1.LabelHub] != "hub" || n.Annotations[v1alpha1.AnnotationRoot] != of {
			t.Errorf("namespace %s: %v %v", name, n, err)
		}
	}
	if _, err := a.core.NetworkingV1().Ingresses("team-shop").Get(ctx, "web", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}

	// The role has one rule, with one verb: without it none is made.
	role, err := a.core.RbacV1().ClusterRoles().Get(ctx, "spillway-member-namespaces", metav1.GetOptions{})
	if err != nil || len(role.Rules) != 1 || len(role.Rules[0].Verbs) != 1 {
		t.Fatalf("the role is %v %v", role, err)
	}
	role.Rules = nil
	if _, err := a.core.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "without the role none is made", func() bool { return apierrors.IsForbidden(create("more", mark, root)(ctx)) })
}
