package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

const look = 50 * time.Millisecond // how often is looked for what is waited for

// fleet is the hub and its members.
type fleet struct {
	hub        *cluster
	members    []*cluster
	controller string // of the GatewayClass

	mu         sync.Mutex
	namespaces []string // that were made, in all clusters
}

// openFleet returns when the GatewayClass is accepted.
func openFleet(ctx context.Context, o *options) (*fleet, error) {
	f := &fleet{}
	var err error
	if f.hub, err = openCluster("the hub", o.hubKubeconfig); err != nil {
		return nil, err
	}
	for _, m := range o.kubeconfigs {
		c, err := openCluster(m.name, m.kubeconfig)
		if err != nil {
			return nil, err
		}
		f.members = append(f.members, c)
	}
	return f, within(ctx, o.timeout, "the GatewayClass "+o.class, func(ctx context.Context) error {
		var class gateway.GatewayClass
		if err := f.hub.read(ctx, "GatewayClass", "", o.class, &class); err != nil {
			return err
		}
		f.controller = string(class.Spec.ControllerName)
		return hasCondition(class.Status.Conditions, class.Generation, string(gateway.GatewayClassConditionStatusAccepted), metav1.ConditionTrue, "")
	})
}

// clusters are all.
func (f *fleet) clusters() []*cluster { return append([]*cluster{f.hub}, f.members...) }

// made notes a namespace.
func (f *fleet) made(namespace string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.namespaces = append(f.namespaces, namespace)
}

// gone returns when none of the namespaces is there any more: they are removed at the end
// of each test, and pods take their time.
func (f *fleet) gone(ctx context.Context, patience time.Duration) error {
	return within(ctx, patience, "namespaces to be gone", func(ctx context.Context) error {
		for _, c := range f.clusters() {
			for _, n := range f.namespaces {
				if _, err := c.of("Namespace", "").Get(ctx, n, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					return errors.Join(fmt.Errorf("namespace %s is in %s", n, c.name), err)
				}
			}
		}
		return nil
	})
}

// within looks until there is nothing wrong, or the time is over. The last that was wrong
// is in the error.
func within(ctx context.Context, most time.Duration, what string, wrong func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(look)
	defer tick.Stop()
	var seen error
	for {
		err := wrong(limited)
		if err == nil {
			return nil
		}
		if seen == nil || limited.Err() == nil { // else it says only that time is up
			seen = err
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			return fmt.Errorf("waited %s for %s: %w", most, what, seen)
		}
	}
}

// hasCondition is nil if there is a condition of that status, and of that reason if there
// is one to have, of an object's generation.
func hasCondition(all []metav1.Condition, generation int64, typ string, status metav1.ConditionStatus, reason string) error {
	wanted := fmt.Sprintf("%s of generation %d", conditionText(typ, status, reason), generation)
	i := slices.IndexFunc(all, func(c metav1.Condition) bool { return c.Type == typ })
	if i < 0 {
		return fmt.Errorf("expected condition %s, and there is none of that type", wanted)
	}
	c := all[i]
	if c.Status != status || reason != "" && c.Reason != reason || c.ObservedGeneration != generation {
		return fmt.Errorf("expected condition %s, and came %s of generation %d: %s", wanted, conditionText(typ, c.Status, c.Reason), c.ObservedGeneration, c.Message)
	}
	return nil
}

func conditionText(typ string, status metav1.ConditionStatus, reason string) string {
	text := typ + "=" + string(status)
	if reason != "" {
		text += " (" + reason + ")"
	}
	return text
}
