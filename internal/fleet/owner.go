package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// HostIn is a host, or a TLS name, of a collection.
type HostIn struct {
	In   model.Collection
	Host model.Host
}

// Compare orders by collection and host.
func (a HostIn) Compare(b HostIn) int {
	return cmp.Or(a.In.Compare(b.In), strings.Compare(string(a.Host), string(b.Host)))
}

// String is the collection and the host.
func (a HostIn) String() string { return a.In.String() + " " + string(a.Host) }

// Owner is the class that has a host of a contest: the oldest there that does.
type Owner struct {
	Class model.Class
	Lost  model.Findings // of the roots of the others
}

// Equal reports whether both are the same.
func (a Owner) Equal(b Owner) bool { return a.Class == b.Class && a.Lost.Equal(b.Lost) }

// Presence is where a host that several classes have, or a TLS name, is by now
// beside the fronts of its class, and with which certificates. It is a row of its
// own so that what else changes of a host ends before.
type Presence struct {
	*Outlets
	contests []model.Collection // with what others say of it, too
	chained  []ClassList        // that have its certificates in a listener together
	Secrets  []model.SecretID   // as of its Chain
}

// Equal reports whether both are the same.
func (a Presence) Equal(b Presence) bool {
	return a.Outlets.Equal(b.Outlets) && slices.Equal(a.contests, b.contests) && slices.Equal(a.chained, b.chained) && slices.Equal(a.Secrets, b.Secrets)
}

// Demanded are the collections in which proxies ask for its certificate by the
// name: its fronts, unless others have a say.
func (a Presence) Demanded() []model.Collection {
	if !a.OnDemand {
		return nil
	}
	if in := ofKind(a.contests, model.Disputes); len(in) > 0 {
		return in
	}
	return a.Fronts
}

// declareOwners decides who has a host: in its fronts each class what no other
// has, and what several have the oldest of a contest.
func (p *Program) declareOwners(g *inc.Graph) {
	p.OwnHosts = inc.IndexBy(p.Spreads, func(k model.HostKey, s Spread) []HostIn {
		if !s.served || s.contested {
			return nil
		}
		return hostsIn(s.Fronts, k.Host)
	})
	contested := inc.IndexBy(p.Spreads, func(k model.HostKey, s Spread) []model.HostKey {
		if !s.contested {
			return nil
		}
		return []model.HostKey{k}
	})
	p.Presences = inc.Derive(g, "presences", p.presence, contested, p.Chains)
	ids := inc.IndexBy(p.Presences, func(k model.HostKey, row Presence) []HostIn {
		return hostsIn(ofKind(row.contests, model.Contest), k.Host)
	})
	p.Owners = inc.Derive(g, "owners", p.ownerIn, ids)
}

func (p *Program) presence(r *inc.Reader, k model.HostKey) (Presence, bool) {
	spread, ok := p.Spreads.Get(r, k)
	if !ok {
		return Presence{}, false
	}
	chain, _ := p.Chains.Get(r, k)
	out := Presence{Outlets: spread.Outlets, Secrets: chain.Secrets}
	if spread.tls != nil {
		out.chained = spread.tls.chained
	}
	if disputed := spread.tls != nil && spread.tls.disputed && spread.OnDemand; disputed || spread.contested {
		in := map[model.Kind]bool{model.Contest: spread.contested, model.Disputes: disputed}
		out.contests = slices.DeleteFunc(p.contestsOf.Keys(r, k.Class), func(c model.Collection) bool { return !in[c.Kind()] })
	}
	return out, true
}

func ofKind(all []model.Collection, kind model.Kind) []model.Collection {
	var out []model.Collection
	for _, c := range all {
		if c.Kind() == kind {
			out = append(out, c)
		}
	}
	return out
}

func hostsIn(in []model.Collection, host model.Host) []HostIn {
	out := make([]HostIn, len(in))
	for i, c := range in {
		out[i] = HostIn{c, host}
	}
	return out
}

// ownerIn gives a host of a contest to the oldest class that has it.
func (p *Program) ownerIn(r *inc.Reader, id HostIn) (Owner, bool) {
	var out Owner
	for _, class := range ClassesOf(id.In.Classes()) { // oldest first
		key := model.HostKey{Class: class, Host: id.Host}
		spread, _ := p.Spreads.Get(r, key)
		switch {
		case !spread.served:
		case out.Class == "":
			out.Class = class
		default:
			out.loses(key, spread.roots)
		}
	}
	out.Lost = out.Lost.Sorted()
	return out, out.Class != ""
}

// loses tells roots that another class has their host.
func (a *Owner) loses(key model.HostKey, roots []model.Object) {
	name := key.Host.Written()
	if name == "" {
		name = "every unnamed host"
	}
	for _, root := range roots {
		a.Lost = append(a.Lost, model.ErrorOf(root, "spec.rules", model.ReasonConflict,
			"%s is served by %s, which is older than %s and shares an edge and a port with it", name, a.Class.Described(), key.Class.Described()))
	}
}

// Owner is whose a host of a front or a contest is. Nobody has it while the class
// that it belongs to waits for it, so that no younger one has it meanwhile.
func (p *Program) Owner(r *inc.Reader, id HostIn) (model.HostKey, bool) {
	key := model.HostKey{Class: id.In.Class(), Host: id.Host}
	contest := id.In.Kind() == model.Contest
	if contest {
		row, ok := p.Owners.Get(r, id)
		if !ok {
			return model.HostKey{}, false
		}
		key.Class = row.Class
	}
	spread, _ := p.Spreads.Get(r, key)
	if !spread.served || spread.contested != contest {
		return model.HostKey{}, false
	}
	return key, slices.Contains(spread.Fronts, model.FrontOf(key.Class, id.In.Key().Table))
}

// Owns reports whether requests for a host at an edge go by a class that is
// bound there, on some port of it: no older class with that port has the host.
func (p *Program) Owns(r *inc.Reader, e model.Edge, key model.HostKey) bool {
	if spread, _ := p.Spreads.Get(r, key); !spread.contested {
		return true
	}
	if _, alone := p.Lease(r, model.LeaseID{Edge: e, Class: key.Class.Tenant()}); alone {
		return true
	}
	view, _ := p.Views.Get(r, e)
	all, _ := p.Collections.Get(r, view.Key)
	return slices.ContainsFunc(ofKind(Few(all), model.Contest), func(c model.Collection) bool {
		owner, ok := p.Owners.Get(r, HostIn{c, key.Host})
		return ok && owner.Class == key.Class
	})
}
