package rbac_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/eventually"
)

// killRuns is how often TestKilledLeaves plays, if SPILLWAY_LEAF_KILLS does not say so.
const killRuns = 3

// killNames are roots that come and go. Of the last there is an object in a member that
// is not ours.
var killNames = []string{"a", "b", "c", "theirs"}

// killer plays one run. What it does follows from its number, but for when API servers
// and serve do theirs.
type killer struct {
	*leafFleet
	random *rand.Rand
	roots  map[string]string // name -> path
	edits  int
}

// TestKilledLeaves: serve is killed when the members have been written to some times, at
// whatever it does then, while roots come, change and go. When it is left alone members
// have the leaves of the roots that there are, and no others; what is not ours is as it
// was; and a start more writes nothing.
func TestKilledLeaves(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("what it is about is not the version of an API server")
	}
	runs := killRuns
	if text := os.Getenv("SPILLWAY_LEAF_KILLS"); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	f := newLeafFleet(t)
	for _, m := range f.members {
		m.applyFile("member-leaves.yaml")
	}
	theirs := f.occupy("eu-1", "theirs")
	k := &killer{leafFleet: f, roots: map[string]string{}}
	for n := range runs {
		k.random = rand.New(rand.NewPCG(1, uint64(n))) //nolint:gosec // to play the same again
		for range 1 + k.random.IntN(3) {
			k.play()
		}
		k.start()
		k.converges(fmt.Sprint("run ", n))
		if now := f.leaf("eu-1", "theirs"); now == nil || now.ResourceVersion != theirs.ResourceVersion {
			t.Errorf("run %d: what is not ours was written: %v", n, now)
		}
		k.kill()
		if t.Failed() {
			return
		}
	}
	// A start writes nothing that is there: what came after it is done, and all that was
	// there before is as it was.
	before := k.versions()
	k.start()
	k.edit("late")
	k.converges("a start")
	if now := slices.DeleteFunc(k.versions(), func(v string) bool { return strings.Contains(v, " late ") }); !slices.Equal(before, now) {
		t.Errorf("a start made %v of %v", now, before)
	}
	for _, name := range slices.Collect(maps.Keys(k.roots)) {
		k.remove(name)
	}
	k.converges("all are gone")
}

// occupy makes an Ingress in a member that is not ours.
func (f *leafFleet) occupy(m, name string) *networkingv1.Ingress {
	f.t.Helper()
	o, err := f.members[m].core.NetworkingV1().Ingresses("default").Create(f.t.Context(), &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "x", Port: networkingv1.ServiceBackendPort{Number: 80}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return o
}

// play starts serve, changes some roots, and kills it when members have been written to
// some times, or are as they should be.
func (k *killer) play() {
	k.t.Helper()
	ctx, end := context.WithCancel(k.t.Context())
	defer end()
	wrote := make(chan struct{}, 64)
	for _, a := range k.members {
		w, err := a.core.NetworkingV1().Ingresses("default").Watch(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelHub})
		if err != nil {
			k.t.Fatal(err)
		}
		go follow(ctx, w, wrote)
	}
	k.start()
	for range 1 + k.random.IntN(3) {
		k.change()
	}
	left := k.random.IntN(5)
	eventually.True(k.t, "members are written to", func() bool {
		for left > 0 {
			select {
			case <-wrote:
				left--
				continue
			default:
			}
			break
		}
		return left == 0 || k.right() == ""
	})
	k.kill()
}

func follow(ctx context.Context, w watch.Interface, wrote chan<- struct{}) {
	defer w.Stop()
	for range w.ResultChan() {
		select {
		case wrote <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// change makes a root, changes it, or deletes it.
func (k *killer) change() {
	k.t.Helper()
	name := killNames[k.random.IntN(len(killNames))]
	if _, there := k.roots[name]; there && k.random.IntN(3) == 0 {
		k.remove(name)
		return
	}
	k.edit(name)
}

func (k *killer) edit(name string) {
	k.t.Helper()
	k.edits++
	k.roots[name] = fmt.Sprint("/", k.edits)
	k.root(name, k.roots[name])
}

func (k *killer) remove(name string) {
	k.t.Helper()
	delete(k.roots, name)
	if err := k.hub.core.NetworkingV1().Ingresses("default").Delete(k.t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		k.t.Fatal(err)
	}
}

// right says what is not as it should be; empty: nothing.
func (k *killer) right() string {
	for m, a := range k.members {
		list, err := a.core.NetworkingV1().Ingresses("default").List(k.t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LabelHub})
		if err != nil {
			return err.Error()
		}
		has := map[string]string{}
		for _, o := range list.Items {
			has[o.Name] = o.Spec.Rules[0].HTTP.Paths[0].Path
		}
		for name, path := range k.roots {
			if name == "theirs" && m == "eu-1" {
				continue
			}
			if has[name] != path {
				return fmt.Sprintf("%s has %s%s, not %s", m, name, has[name], path)
			}
			delete(has, name)
		}
		if len(has) > 0 {
			return fmt.Sprintf("%s has %v that nobody wants", m, has)
		}
	}
	return ""
}

func (k *killer) converges(what string) {
	k.t.Helper()
	last := ""
	defer func() {
		if k.t.Failed() {
			k.t.Logf("%s: %s", what, last)
		}
	}()
	eventually.True(k.t, what+" ends as it should", func() bool { last = k.right(); return last == "" })
}

// versions are those of all leaves.
func (k *killer) versions() (out []string) {
	for m, a := range k.members {
		list, err := a.core.NetworkingV1().Ingresses("default").List(k.t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LabelHub})
		if err != nil {
			k.t.Fatal(err)
		}
		for _, o := range list.Items {
			out = append(out, m+" "+o.Name+" "+o.ResourceVersion)
		}
	}
	slices.Sort(out)
	return out
}
