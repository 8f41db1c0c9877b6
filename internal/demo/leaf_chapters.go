package demo

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/examples"
	"github.com/spillway-dev/spillway/internal/lab"
)

// tellLeaves applies the root and follows it to the members and back.
func tellLeaves(ctx context.Context, f *fleet, s *scene) error {
	began := time.Now()
	if err := f.await(ctx, "the hub to take examples/leaf.yaml", func(ctx context.Context) error { return apply(ctx, f.hub, examples.Leaf) }); err != nil {
		return err
	}
	if err := f.leavesServe(ctx, s, began); err != nil {
		return err
	}
	for _, m := range leafMembers {
		pods := map[string]bool{}
		for range asked {
			a, err := f.memberAnswers(ctx, m, leafHost)
			if err != nil {
				return err
			}
			pods[a.Pod] = true
		}
		if len(pods) != 2 {
			return fmt.Errorf("%d requests to %s were answered by %d pods, not 2", asked, m, len(pods))
		}
	}
	s.set("leaves", int64(len(leafMembers)))
	s.set("requests", asked*int64(len(leafMembers)))
	s.set("failed", 0)
	s.say("%d requests to each, answered by both pods there", asked)
	return nil
}

// leavesServe waits until all members have a leaf, the root's status lists them, and each
// answers.
func (f *fleet) leavesServe(ctx context.Context, s *scene, began time.Time) error {
	for _, w := range []struct {
		figure, what string
		check        func(context.Context) error
	}{
		{"leaves_ms", "a leaf in each member", func(ctx context.Context) error { return f.haveLeaves(ctx, leafMembers...) }},
		{"served_ms", "each member to answer", func(ctx context.Context) error { return f.allAnswer(ctx, leafHost, leafMembers...) }},
		{"status_ms", "the status to list all addresses", func(ctx context.Context) error { return f.rootLists(ctx, leafMembers...) }},
	} {
		if err := f.await(ctx, w.what, w.check); err != nil {
			return err
		}
		s.ms(w.figure, time.Since(began))
		s.say("%s after %s", w.what, round(time.Since(began)))
	}
	return nil
}

const leafSecond = "second.leaf.shop.example"

// rules are the root's, for hosts.
func rules(hosts ...string) object {
	var out []any
	for _, h := range hosts {
		out = append(out, object{"host": h, "http": object{"paths": []any{object{
			"path": "/", "pathType": "Prefix", "backend": object{"service": object{"name": workload, "port": object{"number": 80}}},
		}}}})
	}
	return object{"spec": object{"rules": out}}
}

func (f *fleet) setHosts(ctx context.Context, hosts ...string) error {
	return f.hub.Patch(ctx, "Ingress", namespace, leafRoot, rules(hosts...))
}

// oneHost is how a failed chapter leaves the root.
func (f *fleet) oneHost(ctx context.Context) error { return f.setHosts(ctx, leafHost) }

// written is nil if each leaf was written so many times since.
func (f *fleet) written(ctx context.Context, before map[string]int64, times int64) error {
	for m, was := range before {
		now, err := f.generations(ctx, m)
		if err != nil {
			return err
		}
		if now[m] != was+times {
			return fmt.Errorf("the leaf in %s is of generation %d, and was of %d", m, now[m], was)
		}
	}
	return nil
}

// writtenOnce is nil if each leaf was written once since.
func (f *fleet) writtenOnce(ctx context.Context, before map[string]int64) error {
	return f.written(ctx, before, 1)
}

// tellLeafEdit adds a host and takes it away.
func tellLeafEdit(ctx context.Context, f *fleet, s *scene) error {
	s.undo = f.oneHost
	return f.harmless(ctx, s, leafMembers, func(ctx context.Context, l *load) error {
		before, err := f.generations(ctx, leafMembers...)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := f.setHosts(ctx, leafHost, leafSecond); err != nil {
			return err
		}
		if err := f.await(ctx, "all members to serve the second host", func(ctx context.Context) error { return f.allAnswer(ctx, leafSecond, leafMembers...) }); err != nil {
			return err
		}
		s.ms("served_ms", time.Since(began))
		s.say("the second host is served by all %s after the edit", round(time.Since(began)))
		if err := f.writtenOnce(ctx, before); err != nil {
			return err
		}
		if before, err = f.generations(ctx, leafMembers...); err != nil {
			return err
		}
		began = time.Now()
		if err := f.oneHost(ctx); err != nil {
			return err
		}
		if err := f.await(ctx, "no member to serve the second host", func(ctx context.Context) error { return f.noneAnswers(ctx, leafSecond, leafMembers...) }); err != nil {
			return err
		}
		s.ms("gone_ms", time.Since(began))
		s.say("gone %s after it was taken away; each leaf written twice", round(time.Since(began)))
		return f.writtenOnce(ctx, before)
	})
}

// tellLeafService takes the Service from a member and gives it back.
func tellLeafService(ctx context.Context, f *fleet, s *scene) error {
	const member = leafApart
	return f.harmless(ctx, s, others(member), func(ctx context.Context, l *load) error {
		before, err := f.generations(ctx, others(member)...)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := f.members[member].Delete(ctx, "Service", namespace, workload); err != nil {
			return err
		}
		if err := f.await(ctx, "the leaf to go", func(ctx context.Context) error { return f.haveLeaves(ctx, others(member)...) }); err != nil {
			return err
		}
		s.ms("leaf_gone_ms", time.Since(began))
		if err := f.await(ctx, "the address to go", func(ctx context.Context) error { return f.rootLists(ctx, others(member)...) }); err != nil {
			return err
		}
		s.ms("gone_ms", time.Since(began))
		s.say("without the Service the leaf in %s and its address are gone after %s", member, round(time.Since(began)))
		began = time.Now()
		if err := apply(ctx, f.members[member], examples.ShopMember); err != nil {
			return err
		}
		if err := f.leavesServe(ctx, s, began); err != nil {
			return err
		}
		return f.untouched(ctx, before)
	})
}

// untouched is nil if no leaf was written since.
func (f *fleet) untouched(ctx context.Context, before map[string]int64) error {
	return f.written(ctx, before, 0)
}

// unanswered is how long a request has no answer before it counts as lost.
const unanswered = time.Second

// tellLeafData cuts the data path of a member.
func tellLeafData(ctx context.Context, f *fleet, s *scene) error {
	return f.harmless(ctx, s, others(leafCut), func(ctx context.Context, l *load) error {
		before, err := f.generations(ctx, leafMembers...)
		if err != nil {
			return err
		}
		if err := f.lab.Cut(ctx, leafCut, lab.PartData, lab.ModeDrop); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, unanswered)
		a, err := f.memberAnswers(short, leafCut, leafHost)
		cancel()
		if err == nil {
			return fmt.Errorf("%s is cut, and %s answers", leafCut, a.Pod)
		}
		began := time.Now()
		if err := f.await(ctx, "DNS to leave the member", f.dnsLeft); err != nil {
			return err
		}
		s.ms("detection_ms", time.Since(began))
		s.say("DNS leaves %s after %s", leafCut, round(time.Since(began)))
		if err := f.more(ctx, l, hold); err != nil {
			return err
		}
		if err := f.rootLists(ctx, leafMembers...); err != nil {
			return fmt.Errorf("what a controller says of its leaf stays: %w", err)
		}
		began = time.Now()
		if err := f.lab.Heal(ctx, leafCut); err != nil {
			return err
		}
		if err := f.await(ctx, leafCut+" to answer", func(ctx context.Context) error { return f.allAnswer(ctx, leafHost, leafCut) }); err != nil {
			return err
		}
		s.ms("healed_ms", time.Since(began))
		s.say("%s answers nobody while it is cut, and %s after it is healed", leafCut, round(time.Since(began)))
		if err := f.await(ctx, "DNS to return to the member", f.leafDNSNear); err != nil {
			return err
		}
		s.ms("dns_back_ms", time.Since(began))
		s.say("DNS returns after %s", round(time.Since(began)))
		return f.untouched(ctx, before)
	})
}

// tellLeafAPI cuts the API of a member and edits the root meanwhile.
func tellLeafAPI(ctx context.Context, f *fleet, s *scene) error {
	s.undo = f.oneHost
	return f.harmless(ctx, s, leafMembers, func(ctx context.Context, l *load) error {
		was, err := f.leaf(ctx, leafCut)
		if err != nil {
			return err
		}
		if err := f.lab.Cut(ctx, leafCut, lab.PartAPI, lab.ModeRefuse); err != nil {
			return err
		}
		if err := f.await(ctx, "the member to be known as away", func(ctx context.Context) error { return f.memberIs(ctx, leafCut, "Connected", "False") }); err != nil {
			return err
		}
		began := time.Now()
		if err := f.setHosts(ctx, leafHost, leafSecond); err != nil {
			return err
		}
		if err := f.await(ctx, "the other members to serve the second host", func(ctx context.Context) error { return f.allAnswer(ctx, leafSecond, others(leafCut)...) }); err != nil {
			return err
		}
		s.ms("served_ms", time.Since(began))
		s.say("%s is away: the others serve the edit after %s", leafCut, round(time.Since(began)))
		if err := f.rootLists(ctx, leafMembers...); err != nil {
			return fmt.Errorf("the member that is away keeps its place: %w", err)
		}
		if err := f.noneAnswers(ctx, leafSecond, leafCut); err != nil {
			return err
		}
		began = time.Now()
		if err := f.lab.Heal(ctx, leafCut); err != nil {
			return err
		}
		if err := f.await(ctx, leafCut+" to serve the second host", func(ctx context.Context) error { return f.allAnswer(ctx, leafSecond, leafCut) }); err != nil {
			return err
		}
		s.ms("healed_ms", time.Since(began))
		s.say("it does %s after it is back", round(time.Since(began)))
		is, err := f.leaf(ctx, leafCut)
		if err != nil {
			return err
		}
		if is.GetUID() != was.GetUID() || is.GetGeneration() != was.GetGeneration()+1 {
			return fmt.Errorf("its leaf is %s of generation %d, and was %s of %d", is.GetUID(), is.GetGeneration(), was.GetUID(), was.GetGeneration())
		}
		if err := f.oneHost(ctx); err != nil {
			return err
		}
		return f.await(ctx, "no member to serve the second host", func(ctx context.Context) error { return f.noneAnswers(ctx, leafSecond, leafMembers...) })
	})
}

// tellLeafServe kills the control plane and starts it again.
func tellLeafServe(ctx context.Context, f *fleet, s *scene) error {
	s.undo = f.oneHost
	return f.harmless(ctx, s, leafMembers, func(ctx context.Context, l *load) error {
		before, err := f.generations(ctx, leafMembers...)
		if err != nil {
			return err
		}
		root, err := f.hub.Get(ctx, "Ingress", namespace, leafRoot)
		if err != nil {
			return err
		}
		if err := f.serve.Kill(); err != nil {
			return err
		}
		if err := f.more(ctx, l, hold/2); err != nil {
			return err
		}
		began := time.Now()
		if err := f.serve.Start(); err != nil {
			return err
		}
		if err := f.await(ctx, "the control plane to be ready", f.admin.ready); err != nil {
			return err
		}
		s.ms("serve_ready_ms", time.Since(began))
		if err := f.more(ctx, l, hold/2); err != nil {
			return err
		}
		now, err := f.hub.Get(ctx, "Ingress", namespace, leafRoot)
		if err != nil {
			return err
		}
		if now.GetResourceVersion() != root.GetResourceVersion() {
			return fmt.Errorf("the Ingress was written: it lists %v, and did %v", addresses(now), addresses(root))
		}
		s.say("ready %s after the start", round(time.Since(began)))
		return f.editedAlone(ctx, s, before)
	})
}

// editedAlone edits the root: what each leaf was written for is this edit and nothing before.
func (f *fleet) editedAlone(ctx context.Context, s *scene, before map[string]int64) error {
	began := time.Now()
	if err := f.setHosts(ctx, leafHost, leafSecond); err != nil {
		return err
	}
	if err := f.await(ctx, "all members to serve the second host", func(ctx context.Context) error { return f.allAnswer(ctx, leafSecond, leafMembers...) }); err != nil {
		return err
	}
	s.ms("served_ms", time.Since(began))
	if err := f.writtenOnce(ctx, before); err != nil {
		return err
	}
	s.say("an edit is served by all %s later, and each leaf was written for that alone", round(time.Since(began)))
	if err := f.oneHost(ctx); err != nil {
		return err
	}
	return f.await(ctx, "no member to serve the second host", func(ctx context.Context) error { return f.noneAnswers(ctx, leafSecond, leafMembers...) })
}

// tellLeafDelete deletes the root.
func tellLeafDelete(ctx context.Context, f *fleet, s *scene) error {
	began := time.Now()
	if err := f.hub.Delete(ctx, "Ingress", namespace, leafRoot); err != nil {
		return err
	}
	if err := f.await(ctx, "the leaves to go", func(ctx context.Context) error { return f.haveLeaves(ctx) }); err != nil {
		return err
	}
	s.ms("leaves_gone_ms", time.Since(began))
	if err := f.await(ctx, "no member to serve the host", func(ctx context.Context) error { return f.noneAnswers(ctx, leafHost, leafMembers...) }); err != nil {
		return err
	}
	s.ms("gone_ms", time.Since(began))
	s.set("leaves", 0)
	s.say("no leaf is left and no member serves the host after %s", round(time.Since(began)))
	if err := f.await(ctx, "the GlobalIngress to go", f.globalGone); err != nil {
		return err
	}
	s.ms("global_gone_ms", time.Since(began))
	if err := f.await(ctx, "DNS to forget the host", f.dnsForgot); err != nil {
		return err
	}
	s.ms("dns_gone_ms", time.Since(began))
	return nil
}

// tellLeafRestored looks at the whole.
func tellLeafRestored(ctx context.Context, f *fleet, s *scene) error {
	for what, check := range map[string]func(context.Context) error{
		"all members to be read and settled": f.leafWhole, "no findings": f.nothingFound,
	} {
		if err := f.await(ctx, what, check); err != nil {
			return err
		}
	}
	if err := f.noRestarts(ctx, s); err != nil {
		return err
	}
	if err := f.noCrashes(ctx); err != nil {
		return err
	}
	s.say("no findings, no process restarted by itself")
	return f.cost(ctx, s)
}

// noCrashes is nil if no container of a pod was started again.
func (f *fleet) noCrashes(ctx context.Context) error {
	for _, m := range leafMembers {
		pods, err := f.members[m].Of("Pod", "").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			all, _, _ := unstructured.NestedSlice(p.Object, "status", "containerStatuses")
			for _, c := range all {
				if n, _, _ := unstructured.NestedInt64(c.(object), "restartCount"); n > 0 {
					return fmt.Errorf("%s: %s of pod %s was started again %d times (logs: %s)", m, c.(object)["name"], p.GetName(), n, f.path("logs", "members", m))
				}
			}
		}
	}
	return nil
}
