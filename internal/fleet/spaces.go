package fleet

import (
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A namespace name means the same in every member, but where a MemberCluster says that the
// member calls it otherwise (spec.namespaces). Then that is where its Services count, and
// where leaves and keys are. Where no member says so, nothing is read of this.

// declareSpaces finds the members that call namespaces otherwise.
func (d *program) declareSpaces(g *inc.Graph) {
	of := inc.IndexBy(d.In.Members, func(m model.Member, s model.MemberSpec) []model.Member {
		if len(s.Spaces) == 0 {
			return nil
		}
		return []model.Member{m}
	})
	d.Spaces = inc.Derive(g, "namespaces of members", func(r *inc.Reader, m model.Member) (model.Spaces, bool) {
		spec, _ := d.In.Members.Get(r, m)
		return spec.Spaces, len(spec.Spaces) > 0
	}, of)
	all := inc.IndexBy(d.Spaces, func(model.Member, model.Spaces) []model.All { return []model.All{{}} })
	d.anySpaces = inc.Derive(g, "any namespaces of members", func(*inc.Reader, model.All) (model.There, bool) { return model.There{}, true }, all)
	d.spacesOf = inc.IndexBy(d.Spaces, func(_ model.Member, all model.Spaces) []model.NamespaceID {
		out := make([]model.NamespaceID, len(all))
		for i, s := range all {
			out[i] = model.NamespaceID{Name: s.Of}
		}
		return out
	})
}

// SpacesIn is what a member calls otherwise.
func (p *Program) SpacesIn(r *inc.Reader, m model.Member) model.Spaces {
	if _, some := p.anySpaces.Get(r, model.All{}); !some {
		return nil
	}
	out, _ := p.Spaces.Get(r, m)
	return out
}

// SpaceIn is what a member calls a namespace of the hub; false: it has none.
func (p *Program) SpaceIn(r *inc.Reader, m model.Member, workspace, namespace string) (string, bool) {
	return p.SpacesIn(r, m).In(model.MemberNamespace(workspace, namespace))
}

// serviceIn is what a member calls a Service, given as most do; false: it has none.
func (p *Program) serviceIn(r *inc.Reader, m model.Member, s model.Service) (model.MemberService, bool) {
	k := s.Key()
	as, ok := p.SpacesIn(r, m).In(k.Namespace)
	if as != k.Namespace {
		k.Namespace = as
		s = k.Service()
	}
	return model.MemberService{Service: s, Member: m}, ok
}

// namesakes are the Services of members that are one, given as most call it.
func (d *program) namesakes(r *inc.Reader, s model.Service) ([]model.MemberService, []model.ServiceSpec) {
	names, specs := d.servicesOf.Keys(r, s), d.servicesOf.Get(r, s)
	if _, some := d.anySpaces.Get(r, model.All{}); !some {
		return names, specs
	}
	var ids []model.MemberService
	var out []model.ServiceSpec
	for i, k := range names {
		if is, ok := d.serviceIn(r, k.Member, s); ok && is == k {
			ids, out = append(ids, k), append(out, specs[i])
		}
	}
	for _, m := range d.spacesOf.Keys(r, model.NamespaceID{Name: s.Namespace()}) {
		k, ok := d.serviceIn(r, m, s)
		if spec, there := d.In.Services.Get(r, k); ok && there && k.Service != s {
			ids, out = append(ids, k), append(out, spec)
		}
	}
	return ids, out
}
