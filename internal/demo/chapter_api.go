package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab"
)

// tellMemberAPI cuts a member's API: nothing may change for anybody but that
// the member is no longer Connected.
func tellMemberAPI(ctx context.Context, f *fleet, s *scene) error {
	member := nearest["eu"]
	return f.unharmed(ctx, s, edges, func(ctx context.Context, l *load) error {
		flaps, stop := f.watchStatus(ctx, member)
		defer stop()
		before, err := f.pushed(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := f.lab.Cut(ctx, member, lab.PartAPI, lab.ModeDrop); err != nil {
			return err
		}
		if err := f.await(ctx, "the cut to be noticed", func(ctx context.Context) error { return f.memberIs(ctx, member, "Connected", "False") }); err != nil {
			return err
		}
		s.ms("detection_ms", time.Since(began))
		if err := f.more(ctx, l, hold); err != nil {
			return err
		}
		if err := f.nothingPushed(ctx, s, before); err != nil {
			return err
		}
		began = time.Now()
		if err := f.lab.Heal(ctx, member); err != nil {
			return err
		}
		if err := f.await(ctx, member+" to be connected again", func(ctx context.Context) error { return f.memberIs(ctx, member, "Connected", "True") }); err != nil {
			return err
		}
		s.ms("healed_ms", time.Since(began))
		if err := f.more(ctx, l, hold); err != nil {
			return err
		}
		if err := f.nothingPushed(ctx, s, before); err != nil {
			return err
		}
		s.say("%s is not Connected and no other status changed; 0 bytes pushed", member)
		return flaps()
	})
}

// tellHub kills the hub and starts it again.
func tellHub(ctx context.Context, f *fleet, s *scene) error {
	return f.unharmed(ctx, s, edges, func(ctx context.Context, l *load) error {
		before, err := f.pushed(ctx)
		if err != nil {
			return err
		}
		if err := f.lab.KillHub(ctx); err != nil {
			return err
		}
		if err := f.more(ctx, l, 2*hold); err != nil {
			return err
		}
		if err := f.dnsNear(ctx); err != nil {
			return err
		}
		if err := f.nothingPushed(ctx, s, before); err != nil {
			return err
		}
		if err := f.restartHub(ctx, s); err != nil {
			return err
		}
		if err := f.nothingPushed(ctx, s, before); err != nil {
			return err
		}
		s.say("the hub was dead for %d requests at each edge; 0 bytes pushed, then or when it was back", 2*hold)
		return nil
	})
}

// restartHub starts the killed hub and waits until the control plane follows it.
func (f *fleet) restartHub(ctx context.Context, s *scene) error {
	began := time.Now()
	if err := f.lab.StartHub(ctx); err != nil {
		return err
	}
	s.ms("hub_start_ms", time.Since(began))
	if err := f.followed(ctx); err != nil {
		return err
	}
	s.ms("followed_ms", time.Since(began))
	return nil
}

// followed makes a change on the hub that concerns no proxy, and waits until the
// control plane has seen it.
func (f *fleet) followed(ctx context.Context) error {
	const member = "eu-2"
	for _, reason := range []any{"the demo asks who is there", nil} {
		if err := f.await(ctx, "the hub to take a change", func(ctx context.Context) error {
			return f.hub.Patch(ctx, "MemberCluster", "", member, object{"spec": object{"drainReason": reason}})
		}); err != nil {
			return err
		}
		if err := f.await(ctx, "the control plane to see a change on the hub", func(ctx context.Context) error {
			o, err := f.hub.Get(ctx, "MemberCluster", "", member)
			if err != nil {
				return err
			}
			seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
			if seen != o.GetGeneration() {
				return fmt.Errorf("it has seen generation %d of %d", seen, o.GetGeneration())
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// nothingPushed is nil if no edge was sent a byte since then.
func (f *fleet) nothingPushed(ctx context.Context, s *scene, since pushed) error {
	now, err := f.pushed(ctx)
	if err != nil {
		return err
	}
	bytes := now.since(since)
	s.set("pushed_bytes", bytes)
	if bytes != 0 {
		return fmt.Errorf("%d bytes were pushed", bytes)
	}
	return nil
}

// watchStatus watches what must not flap: the addresses in the Ingress's status
// and Healthy of a member. verdict is nil if each had one value all the time.
func (f *fleet) watchStatus(ctx context.Context, member string) (verdict func() error, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var lock sync.Mutex
	var all sync.WaitGroup
	seen := map[string][]string{}
	follow := func(what, kind, namespace, name string, value func(*unstructured.Unstructured) string) {
		all.Go(func() {
			err := changes(ctx, f.hub, kind, namespace, name, func(o *unstructured.Unstructured) {
				lock.Lock()
				defer lock.Unlock()
				if v := value(o); !slices.Contains(seen[what], v) {
					seen[what] = append(seen[what], v)
				}
			})
			if err != nil && ctx.Err() == nil {
				lock.Lock()
				defer lock.Unlock()
				seen[what] = append(seen[what], err.Error())
			}
		})
	}
	follow("the Ingress's status", "Ingress", namespace, ingress, func(o *unstructured.Unstructured) string { return strings.Join(addresses(o), " ") })
	follow("Healthy of "+member, "MemberCluster", "", member, func(o *unstructured.Unstructured) string { return condition(o, "Healthy") })
	return func() error {
		lock.Lock()
		defer lock.Unlock()
		for _, what := range slices.Sorted(maps.Keys(seen)) {
			if values := seen[what]; len(values) != 1 || values[0] == "" {
				return fmt.Errorf("%s flapped: %q", what, values)
			}
		}
		return nil
	}, func() { cancel(); all.Wait() }
}
