package fleet

import (
	"cmp"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Import is what a ServiceImport of the name of a Service leads to: what members
// export (KEP-1645), or, where one is written on the hub, what that says.
type Import struct {
	Ports     []model.ServicePort // sorted by number, protocol and name
	Exporters []Exporter          // oldest export first; none if it is written
	Written   bool                // all members that have the Service are part of it
	Findings  model.Findings      // of exports, and of what is written
}

// Exporter is a member with an export that counts.
type Exporter struct {
	Member model.Member
	Since  int64 // unix seconds: of the export or, where that is younger, of the member
}

// Equal reports whether both are the same.
func (a Import) Equal(b Import) bool {
	return slices.Equal(a.Ports, b.Ports) && slices.Equal(a.Exporters, b.Exporters) && a.Written == b.Written && a.Findings.Equal(b.Findings)
}

// declareImports brings exports of a Service together. Services that nobody exports
// take no part in it.
func (d *program) declareImports(g *inc.Graph) {
	d.exportsOf = inc.IndexBy(d.In.Exports, func(k model.MemberService, _ model.Export) []model.Service { return []model.Service{k.Service} })
	d.importsOf = inc.IndexBy(d.In.Imports, func(k model.Object, _ model.ImportSpec) []model.Service {
		return []model.Service{importBy(k).Service()}
	})
	d.Imports = inc.Derive(g, "imports", d.imported, d.exportsOf, d.importsOf)
	told := inc.IndexBy(d.Imports, func(_ model.Service, row Import) []model.Object {
		out := make([]model.Object, len(row.Findings))
		for i, f := range row.Findings {
			out[i] = f.Object
		}
		return slices.Compact(out) // sorted by object
	})
	d.ofExports = inc.Derive(g, "findings of exports", func(r *inc.Reader, k model.Object) (model.Findings, bool) {
		var out model.Findings
		for _, row := range told.Get(r, k) {
			for _, f := range row.Findings {
				if f.Object == k {
					out = append(out, f)
				}
			}
		}
		return out.Sorted(), len(out) > 0
	}, told)
}

// importBy is what an object of the hub imports, without a port.
func importBy(k model.Object) model.Backend {
	return model.BackendKey{Workspace: k.Workspace, Service: model.ImportOf(k.Namespace, k.Name)}.Backend()
}

// exportOf is the object by which a member exports a Service.
func exportOf(m model.Member, s model.Service) model.Object {
	return model.Object{Member: m, Kind: model.ExportKind, Namespace: s.Namespace(), Name: s.Name()}
}

// imported is what is written, or else the union of what is exported, where the
// oldest export has what exports disagree about.
func (d *program) imported(r *inc.Reader, s model.Service) (Import, bool) {
	all := d.exported(r, s)
	if specs := d.importsOf.Get(r, s); len(specs) > 0 {
		return written(d.importsOf.Keys(r, s)[0], specs[0], all), true
	}
	var out Import
	var ports union
	var first *exported
	for i, e := range all {
		n := model.Collector{Object: exportOf(e.Member, s)}
		switch {
		case !e.same:
			n.Error("metadata.namespace", model.ReasonUnsupported, "spec.namespaces of the member says that its namespace %s is another one, and a set of clusters knows a namespace by one name (KEP-1645): it exports nothing", s.Namespace())
		case !e.there:
			n.Error("metadata.name", model.ReasonServiceNotFound, "the member has no Service of that name: it exports nothing")
		case e.spec.Kind == model.ServiceExternal:
			n.Error("metadata.name", model.ReasonUnsupported, "the Service is an ExternalName, which can't be exported (KEP-1645)")
		default:
			out.Exporters = append(out.Exporters, e.Exporter)
			if first == nil {
				first = &all[i]
			} else if x, y := kindOf(e.spec), kindOf(first.spec); x != y {
				n.Warning("metadata.name", model.ReasonConflict, "the Service is %s, and %s in member %s, whose export is older: pods of both get requests", x, y, first.Member)
			}
			ports.add(&n, e)
		}
		out.Findings = append(out.Findings, n.Findings()...)
	}
	out.Ports, out.Findings = ports.sorted(), out.Findings.Sorted()
	return out, true
}

// exported is an export with its Service.
type exported struct {
	Exporter
	spec  model.ServiceSpec
	there bool // the member has the Service
	same  bool // its namespace is that of the name: sets of clusters know no other names
}

// exported are the exports of a Service, oldest first. None is older than its member:
// whoever joins a fleet, or lies about the time, takes nothing from those that serve.
func (d *program) exported(r *inc.Reader, s model.Service) []exported {
	var out []exported
	names, exports := d.exportsOf.Keys(r, s), d.exportsOf.Get(r, s)
	for i, k := range names {
		age, ok := d.ages.Get(r, k.Member)
		if !ok {
			continue // its rows are about to go
		}
		is, same := d.serviceIn(r, k.Member, s)
		spec, there := d.In.Services.Get(r, k)
		out = append(out, exported{Exporter{k.Member, max(exports[i].Created, age.V)}, spec, there, same && is == k})
	}
	slices.SortFunc(out, func(a, b exported) int { return cmp.Or(cmp.Compare(a.Since, b.Since), a.Member.Compare(b.Member)) })
	return out
}

// written is what an object of the hub says, by which no export counts.
func written(k model.Object, spec model.ImportSpec, exports []exported) Import {
	out := Import{Ports: spec.Ports, Written: true}
	var members []string
	for _, e := range exports {
		if e.same {
			members = append(members, string(e.Member))
		}
	}
	if len(members) > 0 {
		slices.Sort(members)
		out.Findings = model.Findings{model.WarningOf(k, "metadata.name", model.ReasonConflict,
			"the Service is exported by %s, which does not count: all members that have it serve this ServiceImport, by its own ports; delete it to go by what is exported", model.Few(members))}
	}
	return out
}

// kindOf is what exports may disagree about, beside ports.
func kindOf(spec model.ServiceSpec) string {
	if spec.Kind == model.ServiceHeadless {
		return "headless"
	}
	return "not headless"
}

// union is the ports of exports, by name. Of two of one name, or of one number, the
// older counts.
type union struct {
	ports []model.ServicePort
	of    []Exporter // whose each is
}

// add adds the ports of an export that is younger than those before, and tells it
// where it differs.
func (u *union) add(n *model.Collector, e exported) {
	const field = "metadata.name"
	older := len(u.ports)
	for _, p := range e.spec.Ports {
		i := slices.IndexFunc(u.ports, func(o model.ServicePort) bool { return o.Name == p.Name && o.Protocol == p.Protocol })
		j := slices.IndexFunc(u.ports, func(o model.ServicePort) bool { return o.Number == p.Number && o.Protocol == p.Protocol })
		switch {
		case i >= 0 && u.ports[i].Number != p.Number:
			n.Warning(field, model.ReasonConflict, "port %s is %d, and %d in the older export of member %s: routes name it by that", called(p), p.Number, u.ports[i].Number, u.of[i].Member)
		case i >= 0 && wire(u.ports[i].AppProtocol) != wire(p.AppProtocol):
			n.Warning(field, model.ReasonConflict, "port %s has appProtocol %q, and %q in the older export of member %s: its pods get no requests for it", called(p), p.AppProtocol, u.ports[i].AppProtocol, u.of[i].Member)
		case i < 0 && j >= 0:
			n.Warning(field, model.ReasonConflict, "port %d is called %q, and %q in the older export of member %s: its pods get no requests for it", p.Number, p.Name, u.ports[j].Name, u.of[j].Member)
		case i < 0:
			u.ports, u.of = append(u.ports, p), append(u.of, e.Exporter)
		}
	}
	for i, p := range u.ports[:older] {
		if !slices.ContainsFunc(e.spec.Ports, func(o model.ServicePort) bool { return o.Name == p.Name && o.Protocol == p.Protocol }) {
			n.Warning(field, model.ReasonConflict, "the Service has no port %s, which is exported by the older one of member %s: its pods get no requests for it", called(p), u.of[i].Member)
		}
	}
}

// sorted are the ports as those of a Service are.
func (u *union) sorted() []model.ServicePort {
	slices.SortFunc(u.ports, model.ServicePort.Compare)
	return u.ports
}

// called is a port as users know it.
func called(p model.ServicePort) string {
	return cmp.Or(p.Name, model.PortRef{Number: p.Number}.Written())
}

// holder is a member's Service that may be part of a backend.
type holder struct {
	member model.Member
	age    int64 // by which it goes before others: of the member, or of its export
	spec   model.ServiceSpec
}

// holders are the Services of members that may be part of a backend, in no order.
func (d *program) holders(r *inc.Reader, b model.Backend) []holder {
	service := b.Service()
	if b.Imported() {
		row, ok := d.Imports.Get(r, service)
		if !ok {
			return nil
		}
		if !row.Written {
			out := make([]holder, len(row.Exporters))
			for i, e := range row.Exporters {
				spec, _ := d.In.Services.Get(r, model.MemberService{Service: service, Member: e.Member})
				out[i] = holder{e.Member, e.Since, spec}
			}
			return out
		}
	}
	var out []holder
	names, specs := d.namesakes(r, service)
	for i, spec := range specs {
		if age, ok := d.ages.Get(r, names[i].Member); ok { // else its rows are about to go
			out = append(out, holder{names[i].Member, age.V, spec})
		}
	}
	return out
}

// portIn finds the port of a backend in a member's Service, or says what is wrong. The
// ports of what is imported are found by name, as EndpointSlices have them; one
// without a name by its number, where the member's has one.
func (d *program) portIn(r *inc.Reader, b model.Backend, m model.Member, spec model.ServiceSpec) (model.ServicePort, string) {
	if b.Port().Pods {
		return d.portOfPods(r, b, m, spec)
	}
	if !b.Imported() {
		return portOf(spec, b.Port())
	}
	row, _ := d.Imports.Get(r, b.Service())
	want, trouble := portOf(model.ServiceSpec{Ports: row.Ports}, b.Port())
	if trouble != "" {
		return model.ServicePort{}, "is imported, and what is imported " + trouble
	}
	i := slices.IndexFunc(spec.Ports, func(p model.ServicePort) bool { return p.Name == want.Name && p.Protocol == want.Protocol })
	switch {
	case i < 0 && want.Name == "":
		return portOf(spec, b.Port())
	case i < 0:
		return model.ServicePort{}, "has no port called " + want.Name
	}
	out := spec.Ports[i]
	if row.Written {
		out.AppProtocol = cmp.Or(want.AppProtocol, out.AppProtocol)
	}
	return out, ""
}

// nobodyHas says that no member has what is asked for.
func (d *program) nobodyHas(r *inc.Reader, b model.Backend) string {
	if b.Imported() {
		if _, ok := d.Imports.Get(r, b.Service()); !ok {
			return "no member exports Service " + b.Service().String()
		}
	}
	return "no member has Service " + b.Service().String()
}
