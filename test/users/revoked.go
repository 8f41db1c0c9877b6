package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// dwell is how long a change stays under load once its effect was there: so long nothing
// may come back.
const dwell = 2 * time.Second

// revocation is something that is taken away and given back.
type revocation struct {
	what       string
	victim     *target
	open       *target // the same on connections that may be open since before; nil: there is no difference
	take, give func(context.Context) error
	without    string // the victim's answer
	told       func(ctx context.Context, taken bool) error
}

// revoked takes grants, labels and Secrets away under load.
func (w *world) revoked(ctx context.Context) error {
	all := w.revocations()
	turns := w.bystanders()
	for _, r := range all {
		turns = append(turns, r.victim)
		if r.open != nil {
			turns = append(turns, r.open)
		}
	}
	before, err := w.untouched(ctx)
	if err != nil {
		return err
	}
	failed := w.under(ctx, w.newLoad(turns...), func(ctx context.Context) error {
		for _, r := range all {
			if err := w.revoke(ctx, r); err != nil {
				return fmt.Errorf("%s: %w", r.what, err)
			}
		}
		return nil
	})
	after, err := w.untouched(ctx)
	for name, version := range before {
		if after[name] != version && err == nil {
			err = fmt.Errorf("%s was written, from resourceVersion %s to %s; expected was that nobody does: nothing was about it", name, version, after[name])
		}
	}
	return errors.Join(failed, err)
}

func (w *world) revocations() []revocation {
	return []revocation{
		{
			what: "ReferenceGrant", victim: w.granted(), without: notPermitted,
			take: func(ctx context.Context) error { return w.Hub.Delete(ctx, "ReferenceGrant", vault, "to-users") },
			give: func(ctx context.Context) error { return w.Hub.Apply(ctx, grantObject("to-users", vault, own)) },
			told: func(ctx context.Context, taken bool) error {
				return w.routeSays(ctx, own, "granted", condition{"ResolvedRefs", !taken, reason(taken, "RefNotPermitted", "ResolvedRefs")}, condition{"Accepted", true, "Accepted"})
			},
		},
		{
			what: "label of a namespace", victim: w.tenant(), without: notFound,
			take: func(ctx context.Context) error { return w.label(ctx, nil) },
			give: func(ctx context.Context) error { return w.label(ctx, "yes") },
			told: func(ctx context.Context, taken bool) error {
				return w.routeSays(ctx, tenant, "tenant", condition{"Accepted", !taken, reason(taken, "NotAllowedByListeners", "Accepted")})
			},
		},
		{
			what: "Secret", victim: w.secure(), open: w.secureOpen(), without: closed,
			take: func(ctx context.Context) error { return w.Hub.Delete(ctx, "Secret", own, secureHost) },
			give: func(ctx context.Context) error { return w.certify(ctx, secureHost) },
			told: func(ctx context.Context, taken bool) error {
				return errors.Join(
					w.listenerSays(ctx, mine, "secure", condition{"ResolvedRefs", !taken, reason(taken, "InvalidCertificateRef", "ResolvedRefs")}, condition{"Programmed", !taken, reason(taken, "Invalid", "Programmed")}),
					w.listenerSays(ctx, mine, "bystander", condition{"ResolvedRefs", true, "ResolvedRefs"}, condition{"Programmed", true, "Programmed"}),
				)
			},
		},
	}
}

// revoke takes something away, and gives it back.
func (w *world) revoke(ctx context.Context, r revocation) error {
	if err := w.change(ctx, r, r.take, true, r.without); err != nil {
		return err
	}
	return w.change(ctx, r, r.give, false, r.victim.usual...)
}

// change makes a change, waits for its effect and for what statuses say of it. From the
// effect on the answers of before are wrong.
func (w *world) change(ctx context.Context, r revocation, do func(context.Context) error, taken bool, right ...string) error {
	verb := map[bool]string{true: "taken away", false: "given back"}[taken]
	began := time.Now()
	either := append(slices.Clone(r.victim.usual), r.without)
	r.victim.right.be(began, either...)
	if r.open != nil {
		r.open.right.be(began, either...)
	}
	if err := do(ctx); err != nil {
		return err
	}
	since, err := r.victim.becomes(ctx, right...)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	r.victim.right.be(time.Now(), right...)
	if r.open != nil && !taken {
		r.open.right.be(time.Now(), right...)
	}
	if err := patience.Await(ctx, "the status to say so", func(ctx context.Context) error { return r.told(ctx, taken) }); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	w.said.line("%s %s: answered %q after %s, told after %s", r.what, verb, right, ms(since.Sub(began)), ms(time.Since(began)))
	user.Rest(ctx, dwell)
	return nil
}

func (w *world) label(ctx context.Context, value any) error {
	return w.Hub.Patch(ctx, "Namespace", "", tenant, object{"metadata": object{"labels": object{attach: value}}})
}

// untouched are the versions of what is about nobody but bystanders.
func (w *world) untouched(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, o := range []struct{ kind, name string }{{"Gateway", other}, {"ListenerSet", "set"}, {"HTTPRoute", "bystander"}} {
		got, err := w.Hub.Get(ctx, o.kind, own, o.name)
		if err != nil {
			return nil, err
		}
		out[o.kind+" "+o.name] = got.GetResourceVersion()
	}
	return out, nil
}

// condition is what one should be.
type condition struct {
	kind   string
	is     bool
	reason string
}

// reason is one of two: that of what was taken away, and that of what is there.
func reason(taken bool, without, with string) string {
	if taken {
		return without
	}
	return with
}

// among is nil if a list of conditions has it, of the object's generation.
func (c condition) among(list []any, o *unstructured.Unstructured) error {
	status := map[bool]string{true: "True", false: "False"}[c.is]
	expected := fmt.Sprintf("expected %s=%s (%s) of generation %d", c.kind, status, c.reason, o.GetGeneration())
	for _, x := range list {
		got, ok := x.(object)
		if !ok || got["type"] != c.kind {
			continue
		}
		if got["status"] == status && got["reason"] == c.reason && got["observedGeneration"] == o.GetGeneration() {
			return nil
		}
		return fmt.Errorf("%s %s: %s, and it is %v (%v) of generation %v: %v", o.GetKind(), o.GetName(), expected, got["status"], got["reason"], got["observedGeneration"], got["message"])
	}
	return fmt.Errorf("%s %s: %s, and there is none", o.GetKind(), o.GetName(), expected)
}

// routeSays checks our only entry of a route's status.
func (w *world) routeSays(ctx context.Context, namespace, name string, want ...condition) error {
	o, err := w.Hub.Get(ctx, "HTTPRoute", namespace, name)
	if err != nil {
		return err
	}
	list := entries(o, "status", "parents")
	if len(list) != 1 {
		return fmt.Errorf("HTTPRoute %s has %d entries in status.parents; expected was one", name, len(list))
	}
	return says(o, list[0], want)
}

// listenerSays checks the status of a listener of a Gateway.
func (w *world) listenerSays(ctx context.Context, gateway, name string, want ...condition) error {
	o, err := w.Hub.Get(ctx, "Gateway", own, gateway)
	if err != nil {
		return err
	}
	for _, l := range entries(o, "status", "listeners") {
		if l["name"] == name {
			if err := says(o, l, want); err != nil {
				return fmt.Errorf("listener %s: %w", name, err)
			}
			return nil
		}
	}
	return fmt.Errorf("status of Gateway %s has no listener %s", gateway, name)
}

func says(o *unstructured.Unstructured, entry object, want []condition) error {
	list, _ := entry["conditions"].([]any)
	var errs []error
	for _, c := range want {
		errs = append(errs, c.among(list, o))
	}
	return errors.Join(errs...)
}
