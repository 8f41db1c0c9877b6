package fleet

import (
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Presented is the certificates that a TLS name has for classes that share a
// place, and who is told that theirs are not.
type Presented struct {
	Of      model.HostKey // whose they are
	Secrets []model.SecretID
	Lost    model.Findings // those of other classes first
	Refuser model.Object   // of an older class, by whom others lost; none: by nobody
}

// Equal reports whether both are the same.
func (a Presented) Equal(b Presented) bool {
	return a.Of == b.Of && slices.Equal(a.Secrets, b.Secrets) && a.Lost.Equal(b.Lost) && a.Refuser == b.Refuser
}

// ServerNames are the TLS names of a listener, by their certificates.
type ServerNames struct {
	Sets    []NameSet       // sorted by name
	Of      []model.HostKey // all of them, sorted
	Crowded model.Findings
}

// NameSet is the TLS names that are presented with the same certificates.
type NameSet struct {
	Name    string           // of its secrets: stable while hosts come and go
	Secrets []model.SecretID // oldest root first
	Hosts   []model.Host     // sorted; empty: every name that no other set has
}

// Equal reports whether both are the same.
func (a ServerNames) Equal(b ServerNames) bool {
	same := func(a, b NameSet) bool { return a.Name == b.Name && slices.Equal(a.Hosts, b.Hosts) }
	return slices.EqualFunc(a.Sets, b.Sets, same) && slices.Equal(a.Of, b.Of) && a.Crowded.Equal(b.Crowded)
}

// listeners are those of some classes that have certificates with them, whatever
// their ports.
func listeners(list ClassList) model.Collection {
	return model.CollectionKey{Kind: model.Sockets, ViewKey: model.ViewKey{Classes: string(list)}}.Collection()
}

// declarePresented decides which certificates a TLS name has where several
// classes have a say, or where only one of several can be presented: a row a
// name, so that a change of its routes ends there and not at the listener, and
// so that they come with the hosts of a front that is new. One class alone says
// it all in its own chains.
func (p *Program) declarePresented(g *inc.Graph) {
	ids := inc.IndexBy(p.Presences, func(k model.HostKey, row Presence) []HostIn {
		var in []model.Collection
		for _, list := range row.chained {
			in = append(in, listeners(list))
		}
		if demanded := row.Demanded(); len(row.Secrets) > 1 || len(demanded) > 0 && demanded[0].Kind() == model.Disputes {
			in = append(in, demanded...)
		}
		return hostsIn(in, k.Host)
	})
	p.Presented = inc.Derive(g, "presented", p.presented, ids)
	p.presentedIn = inc.IndexBy(p.Presented, func(id HostIn, _ Presented) []model.Collection {
		if id.In.Kind() != model.Sockets {
			return nil
		}
		return []model.Collection{id.In}
	})
	p.chainsOf = inc.IndexBy(p.Chains, func(k model.HostKey, _ Chain) []model.Class { return []model.Class{k.Class} })
	lists := inc.IndexBy(p.Ports, func(_ ClassSet, ports Ports) []ClassList { return ports.Static() })
	alone := inc.IndexBy(p.Holdings, func(_ model.LeaseID, h Holding) []ClassList {
		return h.Static
	})
	p.declareRelays(g, lists, alone)
	p.ServerNames = inc.Derive(g, "server names", p.serverNames, lists, alone)
}

// presented decides which certificates a name has in a collection. What comes on
// demand is one for a name.
func (p *Program) presented(r *inc.Reader, id HostIn) (Presented, bool) {
	classes, place := ClassesOf(id.In.Classes()), "an edge and a port"
	if id.In.Kind() != model.Sockets {
		place = "an edge"
	}
	key, chain, owner := p.certificates(r, classes, id.Host)
	out := Presented{Of: key, Secrets: chain.Secrets}
	for _, class := range classes {
		other := model.HostKey{Class: class, Host: id.Host}
		c, _ := p.Chains.Get(r, other)
		if other == key || len(c.Secrets) == 0 || slices.Equal(c.Secrets, chain.Secrets) {
			continue
		}
		for _, root := range p.RootsOfName.Keys(r, other) {
			if c.of(root) {
				out.Lost = append(out.Lost, lostCertificate(root, other, key.Class, owner, place))
			}
		}
	}
	if len(out.Lost) > 0 && owner != (model.Object{}) && !slices.ContainsFunc(out.Lost, func(f model.Finding) bool { return f.Object == owner }) {
		out.Refuser = owner
	}
	if out.Lost = out.Lost.Sorted(); id.In.Kind() != model.Sockets {
		out.Lost = append(out.Lost, p.seconds(r, out)...)
	}
	return out, true
}

// seconds tells who has a second certificate of a name that is on demand.
func (p *Program) seconds(r *inc.Reader, of Presented) model.Findings {
	if len(of.Secrets) < 2 {
		return nil
	}
	var out model.Findings
	names, rows := p.RootsOfName.Keys(r, of.Of), p.RootsOfName.Get(r, of.Of)
	for i, root := range rows {
		for _, t := range root.TLS {
			if slices.Contains(of.Secrets[1:], t.Secret) && slices.Contains(t.Hosts, of.Of.Host) {
				field, _ := tlsFields(names[i], t)
				out = append(out, model.ErrorOf(names[i], field, model.ReasonConflict,
					"%s is presented with the certificate in %s, and not with that in %s: certificates on demand are one for a name", tlsName(of.Of.Host), of.Secrets[0].Described(), t.Secret.Described()))
			}
		}
	}
	return out
}

// lostCertificate tells a root that its certificate for a name is not
// presented: an older class has the name, by its own certificate, or since
// requests go by its rules.
func lostCertificate(root model.Object, key model.HostKey, winner model.Class, owner model.Object, place string) model.Finding {
	if winner == "" {
		return model.ErrorOf(root, "spec.tls", model.ReasonConflict,
			"%s belongs to %s in another namespace, by whose rules its requests go on %s that an older class shares with %s: the certificate is not presented there", tlsName(key.Host), owner, place, key.Class)
	}
	return model.ErrorOf(root, "spec.tls", model.ReasonConflict,
		"%s is presented with the certificate of %s, which has it before %s and shares %s with it: the others are not presented there", tlsName(key.Host), winner.Described(), key.Class.Described(), place)
}

// Certificate is the one that proxies of a collection get when they ask for a
// name, and whose it is. There is none while the class that has it waits.
func (p *Program) Certificate(r *inc.Reader, id HostIn) (of model.HostKey, secret model.SecretID, ok bool) {
	of = model.HostKey{Class: id.In.Class(), Host: id.Host}
	if ClassList(id.In.Classes()).Shared() {
		row, _ := p.Presented.Get(r, id)
		if of = row.Of; len(row.Secrets) == 0 {
			return of, secret, false
		}
	}
	by, _ := p.Presences.Get(r, of)
	if len(by.Secrets) == 0 || !slices.Contains(by.Demanded(), id.In) {
		return of, secret, false
	}
	return of, by.Secrets[0], true
}

// serverNames groups the TLS names of the classes by their certificates.
func (p *Program) serverNames(r *inc.Reader, classes ClassList) (ServerNames, bool) {
	var out ServerNames
	sets := map[string]*NameSet{}
	relays, _ := p.Relays.Get(r, classes)
	for _, row := range p.presentedBy(r, classes) {
		if len(row.Secrets) == 0 || relays.has(row.Of.Host) {
			continue
		}
		out.Of = append(out.Of, row.Of)
		name := nameOf(row.Secrets)
		if row.Of.Host == "" {
			name = "* " + name // has no names, so it can't be shared
		}
		set := sets[name]
		if set == nil {
			set = &NameSet{Name: name, Secrets: row.Secrets}
			sets[name] = set
		}
		if row.Of.Host != "" {
			set.Hosts = append(set.Hosts, row.Of.Host)
		}
	}
	for _, set := range sets {
		slices.Sort(set.Hosts)
		out.Sets = append(out.Sets, *set)
	}
	slices.SortFunc(out.Sets, func(a, b NameSet) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Of, model.HostKey.Compare)
	out.Crowded = p.crowded(r, classes, len(out.Sets))
	return out, true
}

func nameOf(secrets []model.SecretID) string {
	names := make([]string, len(secrets))
	for i, id := range secrets {
		names[i] = id.String()
	}
	return strings.Join(names, ",")
}

// presentedBy is the certificates of all TLS names of the classes. Of classes that
// share a port there are none until each name has a row: nobody has the port
// before, and every few names would make the listener anew.
func (p *Program) presentedBy(r *inc.Reader, classes ClassList) []Presented {
	if !classes.Shared() {
		keys, rows := p.chainsOf.Keys(r, model.Class(classes)), p.chainsOf.Get(r, model.Class(classes))
		out := make([]Presented, len(keys))
		for i, key := range keys {
			out[i] = Presented{Of: key, Secrets: rows[i].Secrets}
		}
		return out
	}
	names := map[model.Host]bool{}
	for _, class := range classes.Classes() {
		for _, key := range p.chainsOf.Keys(r, class) {
			names[key.Host] = true
		}
	}
	rows := p.presentedIn.Get(r, listeners(classes))
	if len(rows) < len(names) {
		return nil
	}
	return rows
}

// crowdFrom is how many sets of names a listener may have before one more costs
// each proxy more than half a megabyte and a tenth of a second of its main thread
// (BenchmarkCertificate of envoy).
const crowdFrom = 300

// crowded warns the oldest class of a listener with many sets of names.
func (p *Program) crowded(r *inc.Reader, classes ClassList, sets int) model.Findings {
	if sets <= crowdFrom {
		return nil
	}
	class, ok := p.ClassInfo.Get(r, classes.Classes()[0])
	if !ok {
		return nil
	}
	return model.Findings{model.WarningOf(class.Spec.Origin.Object, "spec.parameters", model.ReasonManyCertificates,
		"more than %d certificates: all are served, but each that comes or goes costs every proxy the whole listener; set spec.tls.certificates: OnDemand in the GatewayClassConfig", crowdFrom)}
}
