package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A Route of OpenShift names a port of pods, by which it is found in EndpointSlices: a
// Service may call it by any number, and its targetPort may be a name that each pod gives
// another number. A Route that names none is for the only port that the Service has.

// podPort is a port that EndpointSlices of a member have, and what it is called there.
type podPort struct {
	member model.Member
	name   string
	number uint16
}

func (a podPort) compare(b podPort) int {
	return cmp.Or(a.member.Compare(b.member), cmp.Compare(a.number, b.number), strings.Compare(a.name, b.name))
}

// declarePortsOfPods finds the ports of pods, of TCP, of Services of which a Route names
// one: no other has a row.
func (d *program) declarePortsOfPods(g *inc.Graph) {
	named := inc.IndexBy(d.Claims, func(_ model.RulesID, c Claim) []model.Service {
		var out []model.Service
		for _, rule := range c.Rules {
			for _, b := range rule.Backends {
				if p := b.Backend.Port(); p.Pods && p.Number != 0 {
					out = append(out, b.Backend.Service())
				}
			}
		}
		return out
	})
	d.podPorts = inc.Derive(g, "ports of pods", func(r *inc.Reader, s model.Service) (inc.List[podPort], bool) {
		var out inc.List[podPort]
		names, _ := d.namesakes(r, s)
		for _, k := range names {
			for _, slice := range d.slicesOf.Get(r, k) {
				for _, p := range slice.Ports {
					if !p.UDP {
						out = append(out, podPort{k.Member, p.Name, p.Number})
					}
				}
			}
		}
		slices.SortFunc(out, podPort.compare)
		out = slices.Compact(out)
		return out, len(out) > 0
	}, named)
}

// portOfPods finds the port of a member's Service that leads to a port of pods, or says
// what is wrong. Where there are no pods, it is the only one that there is.
func (d *program) portOfPods(r *inc.Reader, b model.Backend, m model.Member, spec model.ServiceSpec) (model.ServicePort, string) {
	number := b.Port().Number
	if spec.Kind == model.ServiceExternal && number != 0 {
		return portOf(spec, model.PortRef{Number: number, For: b.Port().For})
	}
	ports := slices.DeleteFunc(slices.Clone(spec.Ports), func(p model.ServicePort) bool { return cmp.Or(p.Protocol, "TCP") != "TCP" })
	pods := 0
	if number != 0 {
		all, _ := d.podPorts.Get(r, b.Service())
		for _, have := range all {
			if have.member != m {
				continue
			}
			pods++
			if i := slices.IndexFunc(ports, func(p model.ServicePort) bool { return p.Name == have.name }); i >= 0 && int32(have.number) == number {
				return ports[i], ""
			}
		}
	}
	switch {
	case len(ports) == 1 && pods == 0:
		return ports[0], ""
	case number != 0:
		return model.ServicePort{}, fmt.Sprintf("has no pods with port %d", number)
	case len(ports) == 0:
		return model.ServicePort{}, "has no port of TCP"
	}
	return model.ServicePort{}, fmt.Sprintf("has %d ports: name one", len(ports))
}

// onlyPort leaves the endpoints that have the port of pods that is named: a targetPort by
// name may be another one in each pod.
func onlyPort(p model.PortRef, all model.Endpoints) model.Endpoints {
	if !p.Pods || p.Number == 0 {
		return all
	}
	return all.Without(func(e model.Endpoint) bool { return int32(e.Port) != p.Number })
}
