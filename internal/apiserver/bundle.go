package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// bundle is definitions of somebody else's that belong together.
type bundle struct {
	name    string
	files   [][]byte
	version string                                  // in which their kinds are listed
	newer   func(*unstructured.Unstructured) string // says why what is there is not older than ours, or the same
	ours    string                                  // which these are
	mark    string                                  // annotation that says so, of files that do not say it themselves; empty: they do
}

// bundleKinds are the resources of what the files may hold.
var bundleKinds = map[string]schema.GroupVersionResource{
	"CustomResourceDefinition":         apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"),
	"ValidatingAdmissionPolicy":        admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"),
	"ValidatingAdmissionPolicyBinding": admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings"),
}

// install applies a bundle, and returns the lists to wait for. Where one object is
// there that we must not replace, all are left as they are.
func (b bundle) install(ctx context.Context, rc *rest.Config, log *slog.Logger) ([]string, error) {
	fast := rest.CopyConfig(rc)
	fast.QPS = -1 // the library's own limit would take seconds of the start
	client, err := dynamic.NewForConfig(fast)
	if err != nil {
		return nil, fmt.Errorf("install %s: %w", b.name, err)
	}
	var all []*unstructured.Unstructured
	for _, file := range b.files {
		objects, err := documents(file)
		if err != nil {
			return nil, fmt.Errorf("install %s: %w", b.name, err)
		}
		all = append(all, objects...)
	}
	if b.mark != "" {
		for _, o := range all {
			notes := o.GetAnnotations()
			if notes == nil {
				notes = map[string]string{}
			}
			notes[b.mark] = b.ours
			o.SetAnnotations(notes)
		}
	}
	for _, o := range all {
		why, err := b.kept(ctx, client, o)
		if err != nil {
			return nil, fmt.Errorf("install %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if why != "" {
			log.Warn(b.name+" of this cluster is left as it is", "object", o.GetKind()+" "+o.GetName(), "problem", why, "ours", b.ours)
			return nil, nil
		}
	}
	var lists []string
	for _, o := range all {
		if _, err := client.Resource(bundleKinds[o.GetKind()]).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
			return nil, fmt.Errorf("install %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if plural, group, _ := strings.Cut(o.GetName(), "."); o.GetKind() == "CustomResourceDefinition" {
			lists = append(lists, "/apis/"+group+"/"+b.version+"/"+plural)
		}
	}
	return lists, nil
}

// kept says why an object that is there is not to be replaced; empty: it may be.
func (b bundle) kept(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) (string, error) {
	of, ok := bundleKinds[o.GetKind()]
	if !ok {
		return "", fmt.Errorf("no such kind here")
	}
	have, err := client.Resource(of).Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return b.newer(have), nil
}
