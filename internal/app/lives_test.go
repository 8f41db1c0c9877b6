package app

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

func (l *life) service(m model.Member, i int, there bool) {
	at, name := l.members[m], "svc-"+strconv.Itoa(i)
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: lifeZone, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}}}
	if there {
		at.services[name] = o
	} else {
		delete(at.services, name)
	}
	switch {
	case l.plane == nil || at.away.Load():
	case there:
		l.must(l.plane.Feed.PutIn(m, o))
	default:
		l.must(l.plane.Feed.DeleteIn(m, o))
	}
}

// root makes a root, or changes it.
func (l *life) root(i int) {
	name := "web-" + strconv.Itoa(i)
	o := &networkingv1.Ingress{ObjectMeta: l.meta(lifeZone, name)}
	if old, is := l.objects["ingresses"][name].(*networkingv1.Ingress); is {
		o = old.DeepCopy()
		o.Generation++
	}
	path := networkingv1.HTTPIngressPath{Path: "/" + strconv.Itoa(l.rand.IntN(3)), PathType: new(networkingv1.PathTypePrefix)}
	path.Backend.Service = &networkingv1.IngressServiceBackend{Name: "svc-" + strconv.Itoa(l.rand.IntN(2)), Port: networkingv1.ServiceBackendPort{Number: 80}}
	o.Spec.IngressClassName = new("members")
	o.Spec.Rules = []networkingv1.IngressRule{{Host: name + ".example", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}}}}}
	l.note("root %s %s %s", name, path.Path, path.Backend.Service.Name)
	l.set("ingresses", o)
}

// lifeKinds are how many kinds of things happen.
const lifeKinds = 20

// step is something that happens.
func (l *life) step() {
	ctx := context.Background()
	i, members := l.rand.IntN(4), l.sorted()
	m, name := members[l.rand.IntN(len(members))], "web-"+strconv.Itoa(i)
	patch := func(body string) {
		l.note("%s: patch %s %s", m.name, name, body)
		_, err := m.people.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "somebody"})
		l.must(err)
	}
	switch l.happens[l.rand.IntN(len(l.happens))] {
	case 0, 1, 2, 3:
		l.root(i)
	case 4, 5:
		l.note("root %s is gone", name)
		l.drop("ingresses", name)
	case 6, 7:
		there := l.rand.IntN(2) == 0
		l.note("%s: Service svc-%d %v", m.name, i%2, there)
		l.service(m.name, i%2, there)
	case 8:
		patch(`{"spec":{"rules":null}}`)
	case 9:
		if m.foreign[name] == "" {
			patch(`{"metadata":{"annotations":{"theirs":"yes"}}}`)
		}
	case 10:
		l.note("%s: somebody deletes %s", m.name, name)
		l.must(m.people.Delete(ctx, name, metav1.DeleteOptions{}))
		delete(m.foreign, name)
	case 11:
		l.foreign(m, name)
	case 12, 13:
		l.reach(m, m.away.Load())
	case 14:
		l.reachHub(l.hubAway)
	case 15:
		m.kept, m.keptToo = m.api.Snapshot(), maps.Clone(m.foreign)
		l.note("%s: backup", m.name)
	case 16:
		l.note("%s: restored", m.name)
		m.api.Restore(m.kept, false)
		m.foreign = maps.Clone(m.keptToo)
		if m.foreign == nil {
			m.foreign = map[string]string{}
		}
	case 17:
		m.turn++
		l.note("%s: addresses change", m.name)
	case 18:
		n := l.rand.IntN(12) + 1
		l.note("the process ends at its request %d", n)
		l.mind.die.Store(int64(n))
	case 19:
		from := [...]string{"", "last"}[l.rand.IntN(2)]
		l.note("the process ends, and another begins from checkpoint %q", from)
		l.kill(from)
	}
}

// foreign makes an object that is not ours.
func (l *life) foreign(m *lifeMember, name string) {
	if m.foreign[name] != "" {
		return
	}
	text := strconv.Itoa(l.rand.IntN(1000))
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
		"metadata": map[string]any{"name": name, "namespace": lifeZone, "annotations": map[string]any{"foreign": text}}, "spec": map[string]any{"ingressClassName": "theirs"}}}
	if _, err := m.people.Create(context.Background(), o, metav1.CreateOptions{FieldManager: "somebody"}); err != nil {
		l.must(err)
		return
	}
	l.note("%s: somebody makes %s", m.name, name)
	m.foreign[name] = text
}

func (l *life) reach(m *lifeMember, is bool) {
	if m.away.Load() != is {
		return
	}
	l.note("%s: reached %v", m.name, is)
	m.away.Store(!is)
	if !is {
		m.api.Cut(false)
	}
	l.contact(m)
}

func (l *life) reachHub(is bool) {
	l.note("hub: reached %v", is)
	if l.hubAway = !is; is {
		l.listHub()
	}
}

// work is what machines do: controllers of members write statuses, the control plane takes
// what it was told, and writes what follows to the hub.
func (l *life) work() {
	if l.mind.gone.Load() {
		l.note("it has ended; another begins")
		l.kill([...]string{"", "last"}[l.rand.IntN(2)])
	}
	for _, m := range l.sorted() {
		l.control(m)
	}
	synctest.Wait()
	l.plane.Turn()
	if l.hubAway || !l.plane.Published() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(l.objects["ingresses"])) {
		id := model.Object{Kind: "Ingress", Namespace: lifeZone, Name: name}
		row, ok := l.plane.s.leaf.Roots.Get(nil, id)
		if !ok || row.Settled {
			continue
		}
		o := l.objects["ingresses"][name].(*networkingv1.Ingress).DeepCopy()
		o.Status.LoadBalancer.Ingress = nil
		for _, a := range row.Addresses.List() {
			o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress, networkingv1.IngressLoadBalancerIngress{IP: a})
		}
		o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldManager, FieldsV1: &metav1.FieldsV1{}}}
		o.ManagedFields[0].FieldsV1.SetRawString(`{"f:status":{"f:loadBalancer":{}}}`)
		l.writes++
		text := fmt.Sprint(row.Addresses.List())
		l.note("status of %s: %s", name, text)
		if l.calm {
			l.said[name] = append(l.said[name], text)
		}
		l.set("ingresses", o)
	}
	l.plane.Turn()
}

// control is the controller of a member, which serves what is of its class.
func (l *life) control(m *lifeMember) {
	address := fmt.Sprintf("192.0.2.%d", 10*slices.Index(l.sorted(), m)+m.turn%3+1)
	for id, o := range m.api.Snapshot() {
		class, _, _ := unstructured.NestedString(o.Object, "spec", "ingressClassName")
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
		if class != "nginx" || len(list) == 1 && list[0].(map[string]any)["ip"] == address {
			continue
		}
		_, name, _ := strings.Cut(id, "/")
		_, err := m.people.Patch(context.Background(), name, types.MergePatchType, []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"`+address+`"}]}}}`), metav1.PatchOptions{FieldManager: "nginx"})
		l.must(err)
	}
}

// pass lets time pass, by steps.
func (l *life) pass(d, step time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(step)
		synctest.Wait()
		l.work()
	}
}

// end is the end of the process, for good.
func (l *life) end() {
	l.mind.gone.Store(true)
	l.mind.end()
	l.plane.s.leaves.all.Wait()
	over, end := context.WithCancel(context.Background())
	end()
	l.state.Run(over)
}

// settle has all be reached, and whoever runs live.
func (l *life) settle() {
	l.mind.die.Store(0)
	if l.hubAway {
		l.reachHub(true)
	}
	for _, m := range l.sorted() {
		l.reach(m, true)
	}
	l.calm = true
	l.pass(20*time.Minute, 5*time.Second)
}

// judge checks what has come of it.
func (l *life) judge() {
	t, wanted := l.t, map[string]bool{}
	for _, k := range l.plane.s.leaf.Leaves.Keys() {
		wanted[string(k.Member)+" "+k.Root.Name] = true
	}
	for _, m := range l.sorted() {
		if len(m.api.Wrong) > 0 {
			t.Errorf("%s: written over what is not ours: %v", m.name, m.api.Wrong)
		}
		there := m.api.Snapshot()
		for id, o := range there {
			if _, name, _ := strings.Cut(id, "/"); o.GetLabels()[v1alpha1.LabelHub] == lifeHub && !wanted[string(m.name)+" "+name] {
				t.Errorf("%s: %s is left", m.name, name)
			}
		}
		for name, text := range m.foreign {
			if o := there[lifeZone+"/"+name]; o == nil || o.GetAnnotations()["foreign"] != text || o.GetLabels()[v1alpha1.LabelHub] != "" {
				t.Errorf("%s: what somebody made of %s is %v", m.name, name, o)
			}
		}
		for name, root := range l.objects["ingresses"] {
			l.judgeLeaf(m, root.(*networkingv1.Ingress), there[lifeZone+"/"+name], wanted[string(m.name)+" "+name])
		}
	}
	for name, said := range l.said {
		seen := map[string]bool{}
		for _, text := range said {
			if seen[text] {
				t.Errorf("the status of %s goes to and fro: %v", name, said)
			}
			seen[text] = true
		}
	}
}

// judgeLeaf checks a leaf: where there is a Service for it, it is there as its root says,
// and its address is in the status of that.
func (l *life) judgeLeaf(m *lifeMember, root *networkingv1.Ingress, leaf *unstructured.Unstructured, wanted bool) {
	path := root.Spec.Rules[0].HTTP.Paths[0]
	if m.services[path.Backend.Service.Name] == nil {
		return
	}
	if !wanted {
		l.t.Errorf("%s: nobody wants a leaf of %s", m.name, root.Name)
	}
	if m.foreign[root.Name] != "" {
		return
	}
	if leaf == nil {
		state, _ := l.plane.s.prog.In.LeafStates.Get(nil, model.LeafID{Member: m.name, Root: model.Object{Kind: "Ingress", Namespace: lifeZone, Name: root.Name}})
		l.t.Errorf("%s: there is no leaf of %s: %s %s", m.name, root.Name, state.Reason, state.Message)
		return
	}
	rules, _, _ := unstructured.NestedSlice(leaf.Object, "spec", "rules")
	if len(rules) != 1 || !strings.Contains(fmt.Sprint(rules), "path:"+path.Path+" ") || leaf.GetLabels()[v1alpha1.LabelHub] != lifeHub {
		l.t.Errorf("%s: the leaf of %s is %v, its path should be %s", m.name, root.Name, leaf, path.Path)
		return
	}
	list, _, _ := unstructured.NestedSlice(leaf.Object, "status", "loadBalancer", "ingress")
	if len(list) != 1 || !strings.Contains(fmt.Sprint(root.Status.LoadBalancer.Ingress), fmt.Sprint(list[0].(map[string]any)["ip"])) {
		l.t.Errorf("%s: the leaf of %s is at %v, its status says %v", m.name, root.Name, list, root.Status.LoadBalancer.Ingress)
	}
}

// changes are how often members' stores were changed.
func (l *life) changes() int {
	n := 0
	for _, m := range l.members {
		m.api.Mu.Lock()
		n += m.api.Writes
		m.api.Mu.Unlock()
	}
	return n
}

// livesEnv is how many lives there are; a few without it.
const livesEnv = "SPILLWAY_LIVES"

// TestLives: whatever happens to roots, members, the hub and the control plane, in the end
// no leaf is orphaned or missing, no object of others was touched, statuses say where the
// leaves are and do not go to and fro, and then nothing is written any more.
func TestLives(t *testing.T) {
	lives := 50
	if testing.Short() {
		lives = 10
	}
	if text := os.Getenv(livesEnv); text != "" {
		lives, _ = strconv.Atoi(text)
	}
	for seed := range lives {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLife(t, uint64(seed))
				defer func() {
					l.end()
					if t.Failed() {
						t.Log(strings.Join(l.log, "\n"))
					}
				}()
				l.pass(time.Minute, 5*time.Second)
				for range 50 {
					l.step()
					l.pass(time.Duration(l.rand.IntN(5000))*time.Millisecond, time.Second)
				}
				l.settle()
				l.judge()
				changes, writes := l.changes(), l.writes
				l.pass(10*time.Minute, 10*time.Second)
				if more := l.changes() - changes; more > 0 {
					t.Errorf("at rest, members were written to %d times", more)
				}
				if more := l.writes - writes; more > 0 {
					t.Errorf("at rest, %d statuses were written", more)
				}
			})
		})
	}
}
