package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func (d *program) declareBackends(g *inc.Graph) {
	d.declareSpaces(g)
	d.servicesOf = inc.IndexBy(d.In.Services, func(k model.MemberService, _ model.ServiceSpec) []model.Service {
		return []model.Service{k.Service}
	})
	d.slicesOf = inc.IndexBy(d.In.Slices, func(k model.SliceID, _ model.Slice) []model.MemberService {
		return []model.MemberService{k.MemberService}
	})
	d.declareImports(g)
	d.declarePortsOfPods(g)
	d.Backends = inc.Derive(g, "backends", d.backend, d.ruled, d.defaults)
	inc.MayWait(d.Backends, d.ages, d.fits)
	inc.Shared(d.Backends, d.ages, d.tlsNear, d.hidden, d.anySpaces)
	d.PlacedBackends = inc.IndexBy(d.Backends, func(b model.Backend, row Backend) []model.Object {
		if row.Placing == nil {
			return nil
		}
		return []model.Object{b.Placed().Object(b.Key().Workspace)}
	})
	d.declareKept(g)
	d.groupsOf = inc.IndexBy(d.Backends, func(b model.Backend, v Backend) []GroupID {
		out := make([]GroupID, len(v.Members))
		for i, m := range v.Members {
			out[i] = GroupID{b, m}
		}
		return out
	})
	d.Groups = inc.Derive(g, "groups", d.group, d.groupsOf)
	inc.MayWait(d.Groups, d.homes)
	inc.Shared(d.Groups, d.homes, d.edgesNear, d.guardsNear, d.anySpaces)
	d.declareRefusals(g)
	d.Shapes = inc.Derive(g, "shapes", func(r *inc.Reader, k GroupID) (Shape, bool) {
		group, ok := d.Groups.Get(r, k)
		return shapeOf(group), ok
	}, d.Groups)
}

// offer is what one member's Service makes of a backend.
type offer struct {
	member model.Member
	age    int64 // as of its holder
	port   model.ServicePort
	kind   model.ServiceKind
	tls    model.UpstreamTLS
}

// backend resolves the port in each member against its own Service. The oldest
// holder decides how the backend is spoken to; who disagrees adds nothing.
func (d *program) backend(r *inc.Reader, b model.Backend) (Backend, bool) {
	var out Backend
	var offers []offer
	service := b.Service()
	var fits fitting
	if b.Placed() != "" {
		fits = d.fittingOf(r, b)
		out.Placing = &Placing{Hold: fits.hold}
	}
	for _, c := range d.holders(r, b) {
		m, spec := c.member, c.spec
		if _, ok := fits.find(m); !ok && out.Placing != nil {
			out.Placing.Outside = true
			continue
		}
		port, trouble := d.portIn(r, b, m, spec)
		if trouble != "" {
			out.Problems = append(out.Problems, Problem{m, model.ReasonPortNotFound,
				fmt.Sprintf("Service %s of member %s %s", service, m, trouble)})
			continue
		}
		if spec.Kind == model.ServiceExternal && b.Port().For != model.Requests {
			out.Problems = append(out.Problems, Problem{m, model.ReasonUnsupported,
				fmt.Sprintf("Service %s of member %s is an ExternalName: only requests of HTTP can be sent to one", service, m)})
			continue
		}
		if spec.Kind == model.ServiceExternal && spec.External == "" {
			out.Problems = append(out.Problems, Problem{m, model.ReasonInvalid,
				fmt.Sprintf("Service %s of member %s is an ExternalName that can't be served: its finding says why", service, m)})
			continue
		}
		secure := d.tlsOf(r, b, port.Name)
		if b.Port().For == model.Requests && wire(port.AppProtocol) == overTLS && secure == (model.UpstreamTLS{}) {
			out.Problems = append(out.Problems, Problem{m, model.ReasonUnsupported,
				fmt.Sprintf("port %s of Service %s of member %s has appProtocol %s: say in a BackendTLSPolicy whom to trust", b.Port().Written(), service, m, port.AppProtocol)})
			continue
		}
		offers = append(offers, offer{m, c.age, port, spec.Kind, secure})
	}
	slices.SortFunc(offers, func(a, b offer) int { return cmp.Or(cmp.Compare(a.age, b.age), a.member.Compare(b.member)) })
	for _, o := range offers {
		if why := o.disagrees(offers[0], b.Port().For); why != "" {
			out.Problems = append(out.Problems, Problem{o.member, model.ReasonProtocolConflict,
				fmt.Sprintf("port %s of Service %s of member %s %s, the older member %s has it", b.Port().Written(), service, o.member, why, offers[0].member)})
			continue
		}
		out.Members = append(out.Members, o.member)
	}
	if len(offers) > 0 {
		first := offers[0]
		out.AppProtocol, out.External, out.TLS = first.port.AppProtocol, first.kind == model.ServiceExternal, first.tls
	} else {
		out.TLS = d.tlsOf(r, b, b.Port().Name) // as it will be where a member has it
	}
	slices.Sort(out.Members)
	if out.Placing != nil {
		d.choose(r, b, fits, &out)
	}
	slices.SortFunc(out.Problems, func(a, b Problem) int { return a.Member.Compare(b.Member) })
	return out, true
}

// The ways to speak to a pod that differ for a proxy.
const (
	plainHTTP = "HTTP/1.1"
	plainH2   = "HTTP/2"
	overTLS   = "TLS" // and HTTP/1.1
)

// protocols are the values of appProtocol, in lower case, that do not mean
// HTTP/1.1. Those with a domain are of KEP-3726, the others in wide use.
var protocols = map[string]string{
	"kubernetes.io/h2c": plainH2,
	"h2c":               plainH2,
	"http2":             plainH2,
	"grpc":              plainH2,
	"kubernetes.io/wss": overTLS,
	"wss":               overTLS,
	"https":             overTLS,
}

func wire(appProtocol string) string {
	if w, ok := protocols[strings.ToLower(appProtocol)]; ok {
		return w
	}
	return plainHTTP
}

// speaks is the wire of an offer, whether it is over TLS or not where a policy says.
func (a offer) speaks() string {
	if w := wire(a.port.AppProtocol); w != overTLS {
		return w
	}
	return plainHTTP
}

// disagrees says how the offer differs from the first in what a proxy must know.
func (a offer) disagrees(first offer, what model.Traffic) string {
	external := func(o offer) string {
		if o.kind == model.ServiceExternal {
			return "an ExternalName"
		}
		return "a Service with endpoints"
	}
	if x, y := external(a), external(first); x != y {
		return fmt.Sprintf("is %s instead of %s", x, y)
	}
	if x, y := a.speaks(), first.speaks(); x != y && what == model.Requests {
		return fmt.Sprintf("speaks %s instead of %s", x, y)
	}
	if a.tls != first.tls { // the port has another name
		return fmt.Sprintf("is called %q instead of %q, and a BackendTLSPolicy is for one of them", a.port.Name, first.port.Name)
	}
	return ""
}

// portOf finds a port of a Service, or says what is wrong. An ExternalName
// without a list of ports has all that are given by number.
func portOf(spec model.ServiceSpec, ref model.PortRef) (model.ServicePort, string) {
	var other string
	for _, p := range spec.Ports {
		named := ref.Name != "" && p.Name == ref.Name
		numbered := ref.Name == "" && p.Number == ref.Number
		if !named && !numbered {
			continue
		}
		if cmp.Or(p.Protocol, "TCP") == transports[ref.UDP()] {
			return p, ""
		}
		other = p.Protocol
	}
	switch {
	case other != "":
		return model.ServicePort{}, fmt.Sprintf("has port %s for %s only: %s is needed", ref.Written(), other, transports[ref.UDP()])
	case spec.Kind == model.ServiceExternal && len(spec.Ports) == 0 && ref.Name == "":
		return model.ServicePort{Number: ref.Number}, ""
	}
	return model.ServicePort{}, fmt.Sprintf("has no port %s", ref.Written())
}

// transports are what Services call the protocol of a port, by whether it is UDP.
var transports = map[bool]string{false: "TCP", true: "UDP"}

// group collects the endpoints of one member. Those without a zone are in the
// member's.
func (d *program) group(r *inc.Reader, k GroupID) (Group, bool) {
	id, there := d.serviceIn(r, k.Member, k.Backend.Service())
	spec, ok := d.In.Services.Get(r, id)
	if !ok || !there {
		return Group{}, false
	}
	port, trouble := d.portIn(r, k.Backend, k.Member, spec)
	if trouble != "" {
		return Group{}, false
	}
	if spec.Kind == model.ServiceExternal {
		if spec.External == "" {
			return Group{}, false
		}
		if refused := d.refuseName(r, id, Guarded{spec.External, uint16(port.Number)}); refused != nil {
			return Group{AppProtocol: port.AppProtocol, Rare: &RareGroup{Refused: refused}}, true
		}
		return Group{AppProtocol: port.AppProtocol, Rare: &RareGroup{External: spec.External, Port: uint16(port.Number)}}, true
	}
	home, _ := d.homes.Get(r, k.Member)
	slicesOf := d.slicesOf.Get(r, id)
	all := endpoints(slicesOf, port.Name, k.Backend.Port().UDP(), home.zone)
	unmatched := all.Len() == 0 && slices.ContainsFunc(slicesOf, func(s model.Slice) bool { return s.Endpoints.Len() > 0 })
	all = onlyPort(k.Backend.Port(), all)
	all, refused := d.refuse(r, id, port.Name, k.Backend.Port().UDP(), home, all)
	out := Group{AppProtocol: port.AppProtocol, Endpoints: all, Unmatched: unmatched}
	if len(refused) > 0 {
		out.Rare = &RareGroup{Refused: refused}
	}
	return out, true
}

// endpoints brings the slices of a Service's port together, each address and
// port once: a ready one hides one that drains. The result may be a slice's own.
func endpoints(all []model.Slice, port string, udp bool, home model.Zone) model.Endpoints {
	if len(all) == 1 && complete(all[0], port, udp) {
		return all[0].Endpoints
	}
	n := 0
	for _, s := range all {
		n += s.Endpoints.Len()
	}
	if n == 0 {
		return model.Endpoints{}
	}
	out := make([]model.Endpoint, 0, n)
	for _, s := range all {
		for _, p := range s.Ports {
			if p.Name != port || p.UDP != udp {
				continue
			}
			for e := range s.Endpoints.All() {
				e.Port = p.Number
				if e.Zone == (model.Zone{}) {
					e.Zone = home
				}
				out = append(out, e)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b model.Endpoint) int {
		return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Port, b.Port), cmp.Compare(a.State, b.State))
	})
	return model.EndpointsOf(slices.CompactFunc(out, func(a, b model.Endpoint) bool { return a.Addr == b.Addr && a.Port == b.Port })...)
}

// complete reports whether the endpoints of a slice are those of a group as they
// are, so that both can share them: as they are of most Services.
func complete(s model.Slice, port string, udp bool) bool {
	if len(s.Ports) != 1 || s.Ports[0].Name != port || s.Ports[0].UDP != udp || s.Endpoints.Len() == 0 {
		return false
	}
	return !s.Endpoints.Has(func(e model.Endpoint) bool { return e.Port != s.Ports[0].Number || e.Zone == (model.Zone{}) })
}

func shapeOf(g Group) Shape {
	if name, _ := g.External(); name != "" {
		return Shape{Zones: []ZoneCount{{Ready: 1}}}
	}
	out := Shape{Unmatched: g.Unmatched}
	for e := range g.Endpoints.All() {
		i := slices.IndexFunc(out.Zones, func(z ZoneCount) bool { return z.Zone == e.Zone })
		if i < 0 {
			i = len(out.Zones)
			out.Zones = append(out.Zones, ZoneCount{Zone: e.Zone})
		}
		if e.State == model.EndpointReady {
			out.Zones[i].Ready++
		} else {
			out.Zones[i].Draining++
		}
	}
	slices.SortFunc(out.Zones, func(a, b ZoneCount) int { return cmp.Compare(a.Zone.String(), b.Zone.String()) })
	return out
}
