package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func (d *program) declareFindings(g *inc.Graph) {
	d.ofRoots = inc.Derive(g, "findings of roots", d.rootFindings, d.Attachments)
	inc.MayWait(d.ofRoots, nil, d.policies, d.fitness)
	classes := inc.Derive(g, "findings of classes", d.classFindings, d.In.Classes)
	members := inc.Derive(g, "findings of members", d.memberFindings, d.In.Members)
	d.ofClasses = renamed(g, "findings of IngressClasses", classes, func(c model.Class) model.Object {
		return model.Object{Kind: "IngressClass", Name: string(c)}
	})
	d.ofMembers = renamed(g, "findings of MemberClusters", members, func(m model.Member) model.Object {
		return model.Object{Kind: "MemberCluster", Name: string(m)}
	})
	d.Findings = inc.Derive(g, "findings", d.findings, d.In.Problems, d.ofRoots, d.ofClasses, d.ofMembers)
}

// renamed is a table of findings with the objects they are about as keys.
func renamed[K inc.Key[K]](g *inc.Graph, name string, t *inc.Table[K, model.Findings], object func(K) model.Object) *inc.Table[model.Object, model.Findings] {
	byObject := inc.IndexBy(t, func(k K, _ model.Findings) []model.Object { return []model.Object{object(k)} })
	return inc.Derive(g, name, func(r *inc.Reader, k model.Object) (model.Findings, bool) {
		var out model.Findings
		for _, f := range byObject.Get(r, k) {
			out = append(out, f...)
		}
		return out.Sorted(), len(out) > 0
	}, byObject)
}

// findings is everything known about an object. What is wrong with a root that
// none of our classes serves is for somebody else to say.
func (d *program) findings(r *inc.Reader, k model.Object) (model.Findings, bool) {
	var out model.Findings
	problems, _ := d.In.Problems.Get(r, k)
	_, root := d.In.Roots.Get(r, k)
	if _, ours := d.Attachments.Get(r, k); ours || !root {
		out = append(out, problems...)
	}
	for _, t := range []*inc.Table[model.Object, model.Findings]{d.ofRoots, d.ofClasses, d.ofMembers} {
		more, _ := t.Get(r, k)
		out = append(out, more...)
	}
	return out.Sorted(), len(out) > 0
}

// notes collects what is wrong with one object. A thing that is said twice with
// the same words is kept at its first field.
type notes struct {
	object model.Object
	list   model.Findings
}

func (n *notes) add(field, reason, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if slices.ContainsFunc(n.list, func(f model.Finding) bool { return f.Reason == reason && f.Message == message }) {
		return
	}
	n.list = append(n.list, model.Finding{Object: n.object, Field: field, Reason: reason, Message: message})
}

func (n *notes) done() (model.Findings, bool) { return n.list.Sorted(), len(n.list) > 0 }

// classFindings says why a class is served by nobody, or is not the default.
func (d *program) classFindings(r *inc.Reader, c model.Class) (model.Findings, bool) {
	spec, ok := d.In.Classes.Get(r, c)
	if !ok {
		return nil, false
	}
	n := notes{object: model.Object{Kind: "IngressClass", Name: string(c)}}
	if policy, served := d.policies.Get(r, c); !served {
		n.add("spec.parameters.name", model.ReasonConfigNotFound, "there is no GatewayClassConfig %s: the class is not served", spec.Config)
	} else if !policy.edges {
		n.add("spec.parameters", model.ReasonNoEdges, "no Edge serves the class: add one, or let its GatewayClassConfig select one")
	}
	if spec.Default {
		if chosen, _ := d.defaultClass.Get(r, all{}); chosen.class != c {
			n.add("metadata.annotations", model.ReasonConflict, "IngressClass %s is older and also the default: it is used", chosen.class)
		}
	}
	return n.done()
}

// memberFindings names the edges that can't dial a member.
func (d *program) memberFindings(r *inc.Reader, m model.Member) (model.Findings, bool) {
	at, ok := d.stands.Get(r, m)
	if !ok {
		return nil, false
	}
	var apart []string
	edges, views := d.allWishes.Keys(r, all{}), d.allWishes.Get(r, all{})
	for i, v := range views {
		if len(v.Classes) > 0 && !Dials(v.Key, at.networks) {
			apart = append(apart, string(edges[i]))
		}
	}
	n := notes{object: model.Object{Kind: "MemberCluster", Name: string(m)}}
	if len(apart) > 0 {
		n.add("spec.networks", model.ReasonUnsupported,
			"edges without a network in common get none of its endpoints, that needs a gateway: %s", strings.Join(apart, ", "))
	}
	return n.done()
}

// rootFindings says what of a root is not served, and why.
func (d *program) rootFindings(r *inc.Reader, k model.Object) (model.Findings, bool) {
	a, ok := d.Attachments.Get(r, k)
	if !ok {
		return nil, false
	}
	n := &notes{object: k}
	policy, served := d.policies.Get(r, a.Class)
	if !served {
		n.add("spec.ingressClassName", model.ReasonConfigNotFound, "the GatewayClassConfig of IngressClass %s is not there: nothing is served", a.Class)
		return n.done()
	}
	if !policy.edges {
		n.add("spec.ingressClassName", model.ReasonNoEdges, "no Edge serves IngressClass %s", a.Class)
	}
	d.ruleFindings(r, n, a, policy)
	d.defaultFindings(r, n, a, policy)
	d.tlsFindings(r, n, a)
	return n.done()
}

func (d *program) ruleFindings(r *inc.Reader, n *notes, a Attachment, p policy) {
	type place struct {
		host  model.Host
		match model.Match
	}
	own := map[place]string{}
	for _, rule := range a.Root.Rules {
		at := place{rule.Host, rule.Match}
		if field, twice := own[at]; twice {
			n.add(rule.Field, model.ReasonConflict, "%s has %s already", field, described(rule.Host, rule.Match))
			continue
		}
		own[at] = rule.Field
		host, _ := d.Hosts.Get(r, model.HostKey{Class: a.Class, Host: rule.Host})
		i, found := slices.BinarySearchFunc(host.Routes, rule.Match, func(x Route, m model.Match) int { return precedence(x.Match, m) })
		if found && host.Routes[i].Target.Root != n.object {
			n.add(rule.Field, model.ReasonConflict, "%s is older and has %s", host.Routes[i].Target.Root, described(rule.Host, rule.Match))
			continue
		}
		for _, b := range rule.Backends {
			d.backendFindings(r, n, p, rule.Field+".backend.service", b.Backend)
		}
	}
}

func described(h model.Host, m model.Match) string {
	kind := "prefix"
	if m.Kind == model.PathExact {
		kind = "exact path"
	}
	return fmt.Sprintf("%s %s of %s", kind, m.Path, hostName(h))
}

func hostName(h model.Host) string {
	if h == "" {
		return "every other host"
	}
	return "host " + string(h)
}

// defaultFindings tells where the default backend has no part: on hosts of
// which an older root has one, and, where that is all it is for, on hosts that
// nobody names.
func (d *program) defaultFindings(r *inc.Reader, n *notes, a Attachment, p policy) {
	if a.Root.Default == nil {
		return
	}
	const field = "spec.defaultBackend"
	hosts := a.hosts()
	if len(hosts) == 0 {
		hosts = []model.HostKey{{Class: a.Class}}
	}
	won := false
	for _, k := range hosts {
		host, _ := d.Hosts.Get(r, k)
		if host.Default != nil && host.Default.Root != n.object {
			n.add(field, model.ReasonConflict, "%s is older and has the default backend of %s", host.Default.Root, hostName(k.Host))
			continue
		}
		won = true
	}
	if won {
		d.backendFindings(r, n, p, field+".service", *a.Root.Default)
	}
}

func (d *program) backendFindings(r *inc.Reader, n *notes, p policy, field string, b model.Backend) {
	row, _ := d.Backends.Get(r, b)
	for _, x := range row.Problems {
		n.add(field+".port", x.Reason, "%s", x.Message)
	}
	if row.External && !p.externalNames {
		n.add(field+".name", model.ReasonExternalNameRefused,
			"Service %s is an ExternalName: its class does not allow that, see spec.externalNames of GatewayClassConfig", b.Service)
	}
	if len(row.Members)+len(row.Problems) == 0 && len(d.missing.Keys(r, all{})) == 0 {
		n.add(field+".name", model.ReasonServiceNotFound, "no member has Service %s: requests are answered 503", b.Service)
	}
}

func (d *program) tlsFindings(r *inc.Reader, n *notes, a Attachment) {
	for _, t := range a.Root.TLS {
		c, ok := d.fitness.Get(r, t.Secret)
		switch field := t.Field + ".secretName"; {
		case !ok:
			n.add(field, model.ReasonSecretNotFound, "there is no Secret %s of type kubernetes.io/tls: its hosts are not served on HTTPS", t.Secret)
		case !c.usable:
			n.add(field, model.ReasonSecretInvalid, "Secret %s can't be used: %s", t.Secret, c.problem)
		default:
			for _, h := range a.tlsHosts(t) {
				if !covers(c.names, h) {
					n.add(t.Field+".hosts", model.ReasonCertificateMismatch, "the certificate in Secret %s is not for %s, but for %s: the host is not served on HTTPS with it",
						t.Secret, h, strings.Join(c.names, ", "))
				}
			}
		}
	}
}
