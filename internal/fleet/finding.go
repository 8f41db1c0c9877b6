package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func (d *program) declareFindings(g *inc.Graph) {
	d.unmatched = inc.IndexBy(d.Shapes, func(k GroupID, s Shape) []model.Backend {
		if !s.Unmatched {
			return nil
		}
		return []model.Backend{k.Backend}
	})
	d.declareCompany(g)
	claims := inc.Derive(g, "findings of claims", d.claimFindings, d.Claims)
	inc.MayWait(claims, d.policies, d.realmsNamed, d.Realms, d.ClassInfo, d.Views, d.Ports)
	inc.Shared(claims, d.policies, d.anyMissing, d.anyDeep)
	d.ofClaims = inc.IndexBy(claims, func(k model.RulesID, _ claimTrouble) []model.Object { return []model.Object{k.Root} })
	d.declareBelow(g, claims)
	d.ofRoots = inc.Derive(g, "findings of roots", d.rootFindings, d.In.Roots)
	inc.MayWait(d.ofRoots, d.policies, d.fitness)
	inc.Shared(d.ofRoots, d.policies, d.anyMissing)
	classes := inc.Derive(g, "findings of classes", d.classFindings, d.In.Classes)
	members := inc.Derive(g, "findings of members", d.memberFindings, d.In.Members)
	d.ofClasses = renamed(g, "findings of IngressClasses", classes, model.Class.Object)
	d.ofMembers = renamed(g, "findings of MemberClusters", members, func(m model.Member) model.Object {
		return model.Object{Kind: "MemberCluster", Name: string(m)}
	})
	d.ofPlaced = inc.Derive(g, "findings of Placements", d.placementFindings, d.In.Placements)
	d.Findings = inc.Derive(g, "findings", d.findings, d.In.Problems, d.ofRoots, d.ofClasses, d.ofMembers, d.ofRefused, d.ofExports, d.Conflicts, d.ofBelow, d.ofPlaced)
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

// AllFindings are those of several tables, together.
func AllFindings(g *inc.Graph, name string, tables ...*inc.Table[model.Object, model.Findings]) *inc.Table[model.Object, model.Findings] {
	sources := make([]inc.Keys[model.Object], len(tables))
	for i, t := range tables {
		sources[i] = t
	}
	return inc.Derive(g, name, func(r *inc.Reader, o model.Object) (model.Findings, bool) {
		var out model.Findings
		for _, t := range tables {
			found, _ := t.Get(r, o)
			out = append(out, found...)
		}
		return out.Sorted(), len(out) > 0
	}, sources...)
}

// findings is everything known about an object. What is wrong with one that nothing
// of ours serves is for somebody else to say.
func (d *program) findings(r *inc.Reader, k model.Object) (model.Findings, bool) {
	var out model.Findings
	problems, _ := d.In.Problems.Get(r, k)
	_, root := d.In.Roots.Get(r, k)
	_, ours := d.Attachments.Get(r, k)
	_, attaches := d.Parents.Get(r, k)
	if ours || attaches || !root && !d.foreign(r, k) {
		out = append(out, problems...)
	}
	for _, t := range []*inc.Table[model.Object, model.Findings]{d.ofRoots, d.ofClasses, d.ofMembers, d.ofRefused, d.ofExports, d.Conflicts, d.ofBelow, d.ofPlaced} {
		more, _ := t.Get(r, k)
		out = append(out, more...)
	}
	return out.Sorted(), len(out) > 0
}

// foreign reports whether an object is a Gateway of another controller, or a
// ListenerSet of one.
func (d *program) foreign(r *inc.Reader, k model.Object) bool {
	if k.Kind != model.GatewayKind && k.Kind != model.ListenerSetKind {
		return false
	}
	_, ours := d.Parts.Get(r, k)
	return !ours
}

// classFindings says why a class is served by nobody, or is not the default.
func (d *program) classFindings(r *inc.Reader, c model.Class) (model.Findings, bool) {
	spec, ok := d.In.Classes.Get(r, c)
	if !ok {
		return nil, false
	}
	n := model.Collector{Object: c.Object()}
	if policy, served := d.policies.Get(r, c); !served {
		n.Error("spec.parameters.name", model.ReasonConfigNotFound, "there is no GatewayClassConfig %s: the class is not served", spec.Config)
	} else if !policy.edges && !policy.leaf {
		n.Error("spec.parameters", model.ReasonNoEdges, "no Edge serves the class: add one, or let its GatewayClassConfig select one")
	} else if policy.own {
		d.leaseFindings(r, &n, c)
	}
	if spec.Default {
		if chosen, _ := d.defaultClass.Get(r, model.Workspace(n.Object.Workspace)); chosen.class != c {
			n.Error("metadata.annotations", model.ReasonConflict, "IngressClass %s is older and also the default: it is used", chosen.class)
		}
	}
	return n.Row()
}

// leaseFindings names the edges that have no address for a class alone.
func (d *program) leaseFindings(r *inc.Reader, n *model.Collector, c model.Class) {
	info, _ := d.ClassInfo.Get(r, c)
	var without []string
	for _, e := range info.Edges {
		if _, ok := d.Lease(r, model.LeaseID{Edge: e, Class: c}); !ok {
			without = append(without, string(e))
		}
	}
	if len(without) > 0 {
		n.Error("spec.parameters", model.ReasonNoAddress,
			"no address is free in the pool of %s: the class is not served there; add one to spec.addressPool of the Edge", model.Few(without))
	}
}

// memberFindings names the edges that can't dial a member, and the one that is the
// same cluster.
func (d *program) memberFindings(r *inc.Reader, m model.Member) (model.Findings, bool) {
	at, ok := d.stands.Get(r, m)
	if !ok {
		return nil, false
	}
	var apart []string
	edges, views := d.allViews.Keys(r, model.All{}), d.allViews.Get(r, model.All{})
	for i, v := range views {
		if len(v.Classes) > 0 && !Dials(v.Key.Vantage(), at.networks) {
			apart = append(apart, string(edges[i]))
		}
	}
	n := model.Collector{Object: model.Object{Kind: "MemberCluster", Name: string(m)}}
	if len(apart) > 0 {
		n.Warning("spec.networks", model.ReasonUnsupported,
			"edges without a network in common get none of its endpoints, that needs a gateway: %s", strings.Join(apart, ", "))
	}
	if first, again := d.older(r, m); again {
		n.Error("spec.connection", model.ReasonConflict, "it is the same cluster as member %s, which is older and has its endpoints: remove one of the two", first)
	}
	return n.Row()
}

// rootFindings says what of a root is not served, and why.
func (d *program) rootFindings(r *inc.Reader, k model.Object) (model.Findings, bool) {
	a, ok := d.Attachments.Get(r, k)
	if !ok {
		return d.unusableClass(r, k)
	}
	n := &model.Collector{Object: k, Once: true}
	anyServed := a.Attached
	for _, class := range a.Classes.List() {
		anyServed = d.classFindingsOf(r, n, a, class) || anyServed
	}
	if !anyServed {
		return n.Row()
	}
	var claims model.Findings
	for _, found := range d.ofClaims.Get(r, k) {
		claims = append(claims, found.found...)
	}
	n.Take(claims.Sorted())
	if !a.Leaf { // members have the certificates of leaves
		d.tlsFindings(r, n, a)
	}
	return n.Row()
}

// classFindingsOf tells a root what one of its classes does not serve of it as a
// whole, and reports whether it serves at all.
func (d *program) classFindingsOf(r *inc.Reader, n *model.Collector, a Attachment, class model.Class) bool {
	if a.Attached {
		return true // its Gateway is told
	}
	policy, served := d.policies.Get(r, class)
	if !served {
		n.Error(classField(n.Object), model.ReasonConfigNotFound, "the GatewayClassConfig of IngressClass %s is not there: nothing is served", class)
		return false
	}
	if !policy.edges && !policy.leaf {
		n.Error(classField(n.Object), model.ReasonNoEdges, "no Edge serves IngressClass %s", class)
	}
	if rest := (model.HostKey{Class: class}); a.Default != nil {
		if !d.RulesOf.Has(r, n.Object) {
			d.defaultFindings(r, n, policy, rest, *a.Default)
		}
		if f, _ := d.fallbacks.Get(r, rest); f.origin.Object == n.Object {
			d.companyFindings(r, n, "spec.defaultBackend", rest)
		}
	}
	return true
}

// classField is where a root names its class.
func classField(root model.Object) model.Field {
	if root.Kind == model.OpenShiftRoute {
		return "metadata.annotations[" + v1alpha1.AnnotationIngressClass + "]"
	}
	return "spec.ingressClassName"
}

// unusableClass tells a root that its class is ours but gives no row. Other
// controllers' classes have no findings.
func (d *program) unusableClass(r *inc.Reader, k model.Object) (model.Findings, bool) {
	root, _ := d.In.Roots.Get(r, k)
	n := model.Collector{Object: k}
	for _, c := range root.Classes.List() {
		class := c.Object()
		problems, _ := d.In.Problems.Get(r, class)
		for _, f := range problems.Errors() {
			n.Error(classField(n.Object), f.Reason, "%s can't be used, and nothing is served: %s", class, f.Text())
		}
	}
	return n.Row()
}

// claimFindings says what a root has not got of what it asks for of a host.
func (d *program) claimFindings(r *inc.Reader, k model.RulesID) (claimTrouble, bool) {
	c, _ := d.Claims.Get(r, k)
	n := &model.Collector{Object: k.Root, Once: true}
	var out claimTrouble
	for _, at := range c.keys(k.Host) {
		policy, served := d.policies.Get(r, at.Class)
		if !served {
			continue
		}
		host, _ := d.Hosts.Get(r, at)
		if strangerFindings(n, c, at.Host, host) || d.apartFindings(r, n, c, at) || !d.partFindings(r, n, claimant{c, k.Host}, at, host, policy) {
			continue
		}
		if len(host.Roots) > 1 {
			d.companyFindings(r, n, c.field(), at)
		}
		if !policy.leaf { // members have the certificates of leaves
			d.bareFindings(r, n, c, at)
		}
		out.above = append(out.above, d.aboveFindings(r, n, c.field(), at)...)
	}
	var some bool
	out.found, some = n.Row()
	return out, some
}

// field is where a claim has its first rule.
func (a Claim) field() model.Field {
	if len(a.Rules) == 0 {
		return "spec.defaultBackend"
	}
	return a.Rules[0].Field
}

// partFindings is what a claim has not got of a host of one class. It reports
// whether it has anything.
func (d *program) partFindings(r *inc.Reader, n *model.Collector, c claimant, at model.HostKey, host Host, policy policy) bool {
	won := false
	for _, rule := range c.rulesIn(at.Class) {
		if d.lostMatches(r, n, c, at, host, rule) == len(rule.Matches) {
			continue
		}
		won = true
		for i, b := range rule.Backends {
			if b.Backend == (model.Backend{}) {
				continue
			}
			if host.Pass {
				b.Backend = passed(b.Backend)
			}
			d.backendFindings(r, n, policy, c.backendAt(n.Object, rule, i), b.Backend)
		}
		if a := rule.Filters.Auth(); a.Backend != (model.Backend{}) {
			d.backendFindings(r, n, policy, refAt(rule.Field+".filters.externalAuth.backendRef"), a.Backend)
		}
	}
	if c.Default != nil {
		d.defaultFindings(r, n, policy, at, *c.Default)
		won = won || host.Default != nil && host.Default.Root == n.Object
	}
	return won
}

// refFields are where an object names a backend.
type refFields struct {
	name, port model.Field
	others     bool // there are other backends that get its part
}

// refAt is a reference with a name and a port.
func refAt(field model.Field) refFields {
	return refFields{name: field + ".name", port: field + ".port"}
}

// backendFields are where a rule names its backends, by whether it is of a route of
// the Gateway API.
var backendFields = map[bool]model.Field{false: ".backend.service", true: ".backendRefs"}

// backendAt is where the root of a claim names a backend of a rule.
func (a Claim) backendAt(root model.Object, rule model.Rule, i int) refFields {
	switch {
	case root.Kind != model.OpenShiftRoute:
		return refAt(rule.Field + backendFields[a.places != nil])
	case i == 0:
		return refFields{"spec.to.name", "spec.port.targetPort", len(rule.Backends) > 1}
	}
	return refFields{model.Field("spec.alternateBackends").Index(i-1) + ".name", "spec.port.targetPort", true}
}

// lostMatches tells which matches of a rule another root has, and counts them.
func (d *program) lostMatches(r *inc.Reader, n *model.Collector, c claimant, at model.HostKey, host Host, rule model.Rule) int {
	lost := 0
	for _, m := range rule.Matches {
		if i, found := host.find(m); found && host.Routes[i].Target.Root != n.Object {
			lost++
			root, why := host.Routes[i].Target.Root, "is older"
			if host.Layered {
				why = d.before(r, at, root, c)
			}
			what := m.Of(at.Host)
			if host.Traffic != model.Requests {
				what = at.Host.Described()
			}
			n.Error(rule.Field, model.ReasonConflict, "%s %s and has %s", root, why, what)
		}
	}
	return lost
}

// defaultFindings tells where the default backend has no part: on hosts of
// which an older root has one, and, where that is all it is for, on hosts that
// nobody names.
func (d *program) defaultFindings(r *inc.Reader, n *model.Collector, p policy, k model.HostKey, b model.Backend) {
	const field = "spec.defaultBackend"
	host, _ := d.Hosts.Get(r, k)
	if host.Default != nil && host.Default.Root != n.Object {
		n.Error(field, model.ReasonConflict, "%s is older and has the default backend of %s", host.Default.Root, k.Host.Described())
		return
	}
	d.backendFindings(r, n, p, refAt(field+".service"), b)
}

func (d *program) backendFindings(r *inc.Reader, n *model.Collector, p policy, at refFields, b model.Backend) {
	row, _ := d.Backends.Get(r, b)
	for _, x := range row.Problems {
		n.Add(unless(len(row.Members) > 0), at.port, x.Reason, "%s", x.Message)
	}
	if b.Port().Route != "" && row.TLS.Broken() && !p.leaf {
		n.Error("spec.tls.destinationCACertificate", model.ReasonInvalid,
			"whom to trust is not said: requests are answered %d; set it, or write a BackendTLSPolicy for Service %s", Unfit(n.Object), b.Service())
	}
	if p.leaf { // its endpoints are nothing to us
		d.leafBackendFindings(r, n, at, b, row)
		return
	}
	d.refusedFindings(r, n, at.name, b, len(row.Members))
	unmatched := slices.DeleteFunc(slices.Clone(d.unmatched.Keys(r, b)), func(k GroupID) bool { return !slices.Contains(row.Members, k.Member) })
	for _, k := range unmatched {
		n.Add(unless(len(unmatched) < len(row.Members)), at.port, model.ReasonPortNotFound,
			"no EndpointSlice of Service %s of member %s has a port with the name of the Service's port %s: its pods get no requests", b.Service(), k.Member, b.Port().Written())
	}
	if row.External && !p.externalNames {
		n.Error(at.name, model.ReasonExternalNameRefused,
			"Service %s is an ExternalName: its class does not allow that, see spec.externalNames of GatewayClassConfig", b.Service())
	}
	if len(row.Members)+len(row.Problems) > 0 {
		return
	}
	if row.withheld() {
		if len(row.Placing.Unknown) == 0 {
			outsideFinding(n, at, b)
		}
		return
	}
	if _, missing := d.anyMissing.Get(r, model.All{}); !missing {
		what, becomes := unanswered(n.Object, b)
		if at.others {
			becomes = "sent to the others of the Route, or are " + becomes + " if nobody has those"
		}
		n.Error(at.name, model.ReasonServiceNotFound, "%s: %s are %s", d.nobodyHas(r, b), what, becomes)
	}
}

// unanswered is what becomes of that for which a rule has no backend.
func unanswered(root model.Object, b model.Backend) (what, becomes string) {
	switch {
	case root.Kind == tlsKind, root.Kind == "TCPRoute", b.Port().Pass:
		return "connections", "closed"
	case root.Kind == "UDPRoute":
		return "datagrams", "dropped"
	}
	return "requests", fmt.Sprintf("answered %d", Unanswered(root))
}

// Unanswered is the status of requests for which a rule has no backend. Ingress says
// nothing about it; the Gateway API wants 500 of an HTTPRoute without a valid
// backendRef, or without any weight. A gRPC client reads 503 as UNAVAILABLE, as the
// Gateway API wants it of a GRPCRoute.
func Unanswered(root model.Object) uint16 {
	if root.Kind == "HTTPRoute" {
		return 500
	}
	return 503
}

// Unfit is the status of the part of requests whose backend is there and can't be used.
func Unfit(root model.Object) uint16 {
	if root.Kind == callKind {
		return 503
	}
	return 500
}

// unless is the severity of what is wrong with a backend in one member.
func unless(othersServe bool) model.Severity {
	if othersServe {
		return model.Warning
	}
	return model.Error
}

// tlsFields are where a root names a certificate, and the hosts that it is for.
func tlsFields(root model.Object, t model.TLS) (secret, hosts model.Field) {
	_, inline := t.Secret.Inline()
	switch {
	case root.Kind != model.OpenShiftRoute:
		return t.Field + ".secretName", t.Field + ".hosts"
	case inline:
		return t.Field, "spec.host"
	}
	return t.Field + ".name", "spec.host"
}

func (d *program) tlsFindings(r *inc.Reader, n *model.Collector, a Attachment) {
	for _, t := range a.TLS {
		c, ok := d.fitness.Get(r, t.Secret)
		switch field, hosts := tlsFields(n.Object, t); {
		case !ok:
			n.Error(field, model.ReasonSecretNotFound, "%s: its hosts are not served on HTTPS", d.NoSecret(r, t.Secret))
		case !c.usable:
			n.Error(field, model.ReasonSecretInvalid, "%s can't be used: %s", t.Secret.Described(), c.problem)
		default:
			if _, over := d.In.Expired.Get(r, t.Secret); over {
				cert, _ := d.In.Certificates.Get(r, t.Secret)
				n.Warning(field, model.ReasonCertificateExpired, "the certificate in %s ended at %s: clients refuse its hosts on HTTPS. Renew it",
					t.Secret.Described(), time.Unix(cert.NotAfter, 0).UTC().Format("2006-01-02 15:04 MST"))
			}
			for _, h := range t.Hosts {
				if !covers(c.names, h) {
					n.Error(hosts, model.ReasonCertificateMismatch, "the certificate in %s is not for %s, but for %s: the host is not served on HTTPS with it",
						t.Secret.Described(), h, strings.Join(c.names, ", "))
				}
			}
		}
	}
}
