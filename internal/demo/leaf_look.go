package demo

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// hubMark is the label by which a leaf is one.
const hubMark = "spillway.dev/hub"

// leafWhole is nil when all members are read and their pods are ready.
func (f *fleet) leafWhole(ctx context.Context) error {
	if err := f.admin.ready(ctx); err != nil {
		return err
	}
	for _, m := range leafMembers {
		if err := f.memberIs(ctx, m, "Connected", "True"); err != nil {
			return err
		}
		if err := f.members[m].Settled(ctx, namespace, workload); err != nil {
			return err
		}
	}
	return nil
}

// leaf is that of the root in a member, nil if there is none.
func (f *fleet) leaf(ctx context.Context, member string) (*unstructured.Unstructured, error) {
	o, err := f.members[member].Get(ctx, "Ingress", namespace, leafRoot)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// haveLeaves is nil when exactly these members have a leaf, with our mark and their class,
// and have no other Ingress.
func (f *fleet) haveLeaves(ctx context.Context, want ...string) error {
	for _, m := range leafMembers {
		all, err := f.members[m].Of("Ingress", "").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		number := 0
		if slices.Contains(want, m) {
			number = 1
		}
		if len(all.Items) != number {
			return fmt.Errorf("%s has %d Ingresses, not %d", m, len(all.Items), number)
		}
		for _, o := range all.Items {
			class, _, _ := unstructured.NestedString(o.Object, "spec", "ingressClassName")
			if o.GetName() != leafRoot || o.GetLabels()[hubMark] == "" || class != "contour" {
				return fmt.Errorf("%s has the Ingress %s of class %q, with labels %v", m, o.GetName(), class, o.GetLabels())
			}
		}
	}
	return nil
}

// generations are how often each leaf was written.
func (f *fleet) generations(ctx context.Context, of ...string) (map[string]int64, error) {
	out := map[string]int64{}
	for _, m := range of {
		o, err := f.leaf(ctx, m)
		if err == nil && o == nil {
			err = fmt.Errorf("%s has no leaf", m)
		}
		if err != nil {
			return nil, err
		}
		out[m] = o.GetGeneration()
	}
	return out, nil
}

// called is what a member calls its address.
func (f *fleet) called(member string) string {
	if member == leafNamed {
		return leafLBName
	}
	return f.lab.IngressAddress(member).String()
}

// rootLists is nil when the root's status lists what these members call their addresses,
// in order, and nothing else.
func (f *fleet) rootLists(ctx context.Context, of ...string) error {
	o, err := f.hub.Get(ctx, "Ingress", namespace, leafRoot)
	if err != nil {
		return err
	}
	var want []string
	for _, m := range of {
		want = append(want, f.called(m))
	}
	slices.Sort(want)
	if got := addresses(o); !slices.Equal(got, want) {
		return fmt.Errorf("the status lists %v, not %v", got, want)
	}
	return nil
}

// memberAnswers is nil when a request to a member's address is answered by a pod there.
func (f *fleet) memberAnswers(ctx context.Context, member, host string) (answer, error) {
	at := f.lab.Ingress(member, nil)
	defer at.Close()
	a, err := ask(ctx, at, "http://"+host+"/")
	if err != nil {
		return a, fmt.Errorf("%s: %w", member, err)
	}
	if a.Member != member {
		return a, fmt.Errorf("%s is answered by %s", member, a.Member)
	}
	return a, nil
}

// allAnswer is nil when each of these does.
func (f *fleet) allAnswer(ctx context.Context, host string, of ...string) error {
	for _, m := range of {
		if _, err := f.memberAnswers(ctx, m, host); err != nil {
			return err
		}
	}
	return nil
}

// noneAnswers is nil when no pod answers for a host at any of these.
func (f *fleet) noneAnswers(ctx context.Context, host string, of ...string) error {
	for _, m := range of {
		if a, err := f.memberAnswers(ctx, m, host); err == nil {
			return fmt.Errorf("%s still answers, by %s", m, a.Pod)
		}
	}
	return ctx.Err()
}

// others are all members but one.
func others(member string) []string {
	return slices.DeleteFunc(slices.Clone(leafMembers), func(m string) bool { return m == member })
}

// harmless acts while requests are sent to members, of which none may fail.
func (f *fleet) harmless(ctx context.Context, s *scene, at []string, act func(context.Context, *load) error) error {
	var to []*user.Edge
	for _, m := range at {
		to = append(to, f.lab.Ingress(m, nil))
	}
	sum, err := f.loaded(ctx, s, leafHost, to, act)
	if err != nil {
		return err
	}
	if err := sum.unscathed(); err != nil {
		return err
	}
	s.say("%d requests to %d members, 0 failed", sum.done, len(at))
	return nil
}
