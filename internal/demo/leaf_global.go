package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// leafGlobal is the GlobalIngress of the root.
const leafGlobal = "ingress." + leafRoot

// tellLeafGlobal reads what controllers of DNS and of load balancers are told.
func tellLeafGlobal(ctx context.Context, f *fleet, s *scene) error {
	began := time.Now()
	if err := f.await(ctx, "the GlobalIngress to list all members", f.globalLists); err != nil {
		return err
	}
	s.ms("global_ms", time.Since(began))
	s.set("sites", int64(len(leafMembers)))
	s.say("the GlobalIngress lists all members, each with its address")
	return nil
}

// globalLists is nil when the GlobalIngress has the root's host and all members, sorted,
// each serving at what it calls its address.
func (f *fleet) globalLists(ctx context.Context) error {
	o, err := f.hub.Get(ctx, "GlobalIngress", namespace, leafGlobal)
	if err != nil {
		return err
	}
	hosts, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "hosts")
	if !slices.Equal(hosts, []string{leafHost}) {
		return fmt.Errorf("its hosts are %v", hosts)
	}
	sites, _, _ := unstructured.NestedSlice(o.Object, "spec", "sites")
	var got, want []string
	for _, site := range sites {
		if m, ok := site.(object); ok {
			addresses, _, _ := unstructured.NestedSlice(m, "addresses")
			for _, a := range addresses {
				got = append(got, fmt.Sprintf("%v %v serving %v: %v", m["kind"], m["name"], m["serving"], a.(object)["value"]))
			}
		}
	}
	for _, m := range slices.Sorted(slices.Values(leafMembers)) {
		want = append(want, fmt.Sprintf("Member %s serving true: %s", m, f.called(m)))
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("its sites are %v, not %v", got, want)
	}
	return nil
}

// globalGone is nil when there is none.
func (f *fleet) globalGone(ctx context.Context) error {
	_, err := f.hub.Get(ctx, "GlobalIngress", namespace, leafGlobal)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("it is still there")
	}
	return err
}
