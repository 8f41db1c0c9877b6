package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// whole is nil when every part does what it should and nothing is under way.
func (f *fleet) whole(ctx context.Context) error {
	if err := f.inSync(ctx); err != nil {
		return err
	}
	return f.served(ctx)
}

// served is nil when every part does what it should. Something may be on its
// way to the proxies: what they no longer need leaves them a while later.
func (f *fleet) served(ctx context.Context) error {
	for _, c := range f.members {
		if err := f.connected(ctx, c.Name, "True", "Connected"); err != nil {
			return err
		}
	}
	for _, h := range f.hosts {
		for _, e := range f.edges {
			if err := answers(ctx, e, h.url(), f.nearest(h, e)); err != nil {
				return err
			}
		}
		if err := f.told(ctx, h); err != nil {
			return err
		}
	}
	found, err := f.admin.Findings(ctx)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("there are findings: %v", found)
	}
	return err
}

// inSync is nil when `serve` has published, and every edge has a stream and
// acknowledged everything.
func (f *fleet) inSync(ctx context.Context) error {
	if _, err := f.admin.Page(ctx, f.admin.Address, "/readyz"); err != nil {
		return err
	}
	streams, err := f.admin.Streams(ctx)
	if err != nil {
		return err
	}
	in := map[string]bool{}
	for _, s := range streams {
		in[s.Edge] = s.InSync
	}
	for _, e := range f.edges {
		if !in[e.Name] {
			return fmt.Errorf("edge %s is not in sync: %+v", e.Name, streams)
		}
	}
	return nil
}

// connected is nil when the condition Connected of a member is so.
func (f *fleet) connected(ctx context.Context, member, status, reason string) error {
	o, err := f.hub.Get(ctx, "MemberCluster", "", member)
	if err != nil {
		return err
	}
	if c := user.Condition(o, "Connected"); c["status"] != status || c["reason"] != reason {
		return fmt.Errorf("condition Connected of %s is %v", member, c)
	}
	return nil
}

// nearest is the member whose pods an edge asks for a host.
func (f *fleet) nearest(h host, e *user.Edge) string {
	first := slices.Index(f.edges, e) // members are beside the edges in turn
	for _, i := range []int{first, first + len(f.edges), 0} {
		if h.in(i) {
			return f.members[i].Name
		}
	}
	panic("nobody has " + h.name)
}

// answers is nil when an edge sends a request to a pod of a member.
func answers(ctx context.Context, e *user.Edge, url, member string) error {
	return answered(user.Request{Edge: e, URL: url, Fresh: true}.Send(ctx), url, member)
}

func answered(r user.Reply, url, member string) error {
	var pod struct{ Member string }
	_ = json.Unmarshal(r.Body, &pod)
	if r.Err == nil && r.Status == http.StatusOK && pod.Member == member {
		return nil
	}
	if r.Err != nil {
		return r.Err
	}
	return fmt.Errorf("%s is answered %d %.80q by member %q instead of %q after %s",
		url, r.Status, strings.TrimSpace(string(r.Body)), pod.Member, member, r.Done.Sub(r.Sent))
}

// status is nil when an edge answers a request itself, with this status.
func status(ctx context.Context, e *user.Edge, url string, want int) error {
	r := user.Request{Edge: e, URL: url, Fresh: true}.Send(ctx)
	if r.Err != nil {
		return r.Err
	}
	if r.Status != want {
		return fmt.Errorf("%s at edge %s is answered %d instead of %d", url, e.Name, r.Status, want)
	}
	return nil
}

// told is nil when DNS and the status of the Ingress have all edges for a host.
func (f *fleet) told(ctx context.Context, h host) error {
	if got := f.resolve(ctx, h); got != addresses(f.lab, f.edges) {
		return fmt.Errorf("DNS says %q for %s", got, h.name)
	}
	o, err := f.hub.Get(ctx, "Ingress", namespace, h.name)
	if err != nil {
		return err
	}
	if got := published(o); got != addresses(f.lab, f.edges) {
		return fmt.Errorf("the status of Ingress %s lists %q", h.name, got)
	}
	return nil
}

// addresses are those of edges, in order.
func addresses(l *lab.Lab, edges []*user.Edge) string {
	var out []string
	for _, e := range edges {
		out = append(out, l.EdgeAddress(e.Name).String())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// published lists status.loadBalancer of an Ingress, in order.
func published(o *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	var out []string
	for _, one := range list {
		out = append(out, fmt.Sprint(one.(object)["ip"]))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// resolve is what our DNS server says of a host: addresses in order, a code
// such as SERVFAIL, or silence. As resolvers do, it asks again where no answer
// comes: the question may have met the end of a `serve`.
func (f *fleet) resolve(ctx context.Context, h host) string {
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(h.name+domain), dns.TypeA)
	c := &dns.Client{Net: "udp", Timeout: askTimeout / 20}
	reply, _, err := c.ExchangeContext(ctx, q, f.lab.DNSAddress())
	for n := 1; n < 20 && errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil; n++ {
		reply, _, err = c.ExchangeContext(ctx, q, f.lab.DNSAddress())
	}
	switch {
	case err != nil:
		return silence
	case reply.Rcode != dns.RcodeSuccess:
		return dns.RcodeToString[reply.Rcode]
	}
	var out []string
	for _, rr := range reply.Answer {
		if a, ok := rr.(*dns.A); ok {
			out = append(out, a.A.String())
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
