package fleet

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A site may have leaves of any number of roots, and our probe asks it for few hosts: of
// each port those of the two oldest roots, of two namespaces where there are, so that no
// tenant's application decides alone what is known of a member. Roots of a site are in
// buckets, so that one that comes or goes is compared with few.

// LeafAsk is what a site is asked for.
type LeafAsk struct {
	Port uint16
	TLS  bool
	Host string // empty: no host in particular
}

// leafOffer is what a root's leaves may be asked for, an entry with port 0 for nothing.
type leafOffer struct {
	origin      model.Origin
	plain, over LeafAsk // HTTP, and HTTPS
}

func (a leafOffer) Equal(b leafOffer) bool { return a == b }

// leafBuckets is how many buckets the roots of a site are in.
const leafBuckets = 64

// leafAskers is how many roots are asked for on each port of a site.
const leafAskers = 2

// siteBucket is a part of the roots of a site.
type siteBucket struct {
	site   model.Edge
	bucket uint32
}

// Compare orders by site and bucket.
func (a siteBucket) Compare(b siteBucket) int {
	return cmp.Or(a.site.Compare(b.site), cmp.Compare(a.bucket, b.bucket))
}

// String is the site and the bucket.
func (a siteBucket) String() string { return fmt.Sprint(a.site, " ", a.bucket) }

func bucketOfRoot(k model.Object) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.String()))
	return h.Sum32() % leafBuckets
}

// declareLeafAsks decides for which hosts sites are asked.
func (d *program) declareLeafAsks(g *inc.Graph) {
	offers := inc.Derive(g, "leaf offers", d.leafOffer, d.Leafed)
	buckets := inc.IndexBy(d.LeafSites, func(k model.LeafID, row LeafSite) []siteBucket {
		var out []siteBucket
		for _, at := range row.All() {
			if b := (siteBucket{at.Site, bucketOfRoot(k.Root)}); at.Site != "" && !slices.Contains(out, b) {
				out = append(out, b)
			}
		}
		return out
	})
	picks := inc.Derive(g, "leaf picks", func(r *inc.Reader, k siteBucket) (inc.List[leafOffer], bool) {
		var all []leafOffer
		for _, id := range buckets.Keys(r, k) {
			if o, ok := offers.Get(r, id.Root); ok {
				all = append(all, o)
			}
		}
		return oldestOffers(all), true
	}, buckets)
	ofSite := inc.IndexBy(picks, func(k siteBucket, _ inc.List[leafOffer]) []model.Edge { return []model.Edge{k.site} })
	d.LeafAsks = inc.Derive(g, "leaf asks", func(r *inc.Reader, site model.Edge) (inc.List[LeafAsk], bool) {
		return asksOf(slices.Concat(ofSite.Get(r, site)...)), true
	}, ofSite)
}

// ports are what an offer has, by port.
var ports = [...]func(leafOffer) LeafAsk{func(o leafOffer) LeafAsk { return o.plain }, func(o leafOffer) LeafAsk { return o.over }}

// oldestOffers are the offers that count of some, sorted.
func oldestOffers(all []leafOffer) inc.List[leafOffer] {
	var out []leafOffer
	for _, ask := range ports {
		out = append(out, firstOffers(all, ask)...)
	}
	slices.SortFunc(out, func(a, b leafOffer) int { return a.origin.Compare(b.origin) })
	return slices.Compact(out)
}

// firstOffers are the oldest that have a port, of different namespaces as far as there are.
func firstOffers(all []leafOffer, ask func(leafOffer) LeafAsk) []leafOffer {
	all = slices.DeleteFunc(slices.Clone(all), func(o leafOffer) bool { return ask(o).Port == 0 })
	slices.SortFunc(all, func(a, b leafOffer) int { return a.origin.Compare(b.origin) })
	var out, rest []leafOffer
	for _, o := range all {
		same := func(x leafOffer) bool { return namespaceOf(x.origin.Object) == namespaceOf(o.origin.Object) }
		if slices.ContainsFunc(out, same) {
			rest = append(rest, o)
		} else {
			out = append(out, o)
		}
	}
	out = append(out, rest...)
	return out[:min(len(out), leafAskers)]
}

// asksOf are what some offers ask for, sorted.
func asksOf(all []leafOffer) inc.List[LeafAsk] {
	var out []LeafAsk
	for _, ask := range ports {
		for _, o := range firstOffers(all, ask) {
			out = append(out, ask(o))
		}
	}
	slices.SortFunc(out, func(a, b LeafAsk) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), strings.Compare(a.Host, b.Host))
	})
	return slices.Compact(out)
}

// fewHosts is how many hosts of a root are looked at for one that it has.
const fewHosts = 16

// leafOffer is what a root's leaves may be asked for: the first host that it has a part
// of, and the first of those that are under its TLS.
func (d *program) leafOffer(r *inc.Reader, k model.Object) (leafOffer, bool) {
	a, ok := d.Attachments.Get(r, k)
	if !ok || len(a.Classes.List()) == 0 {
		return leafOffer{}, false
	}
	class := a.Classes.List()[0]
	leafy, _ := d.Leafy.Get(r, class)
	out := leafOffer{origin: model.Origin{Created: a.Created, Object: k}}
	ids := d.RulesOf.Keys(r, k)
	for _, id := range ids[:min(len(ids), fewHosts)] {
		host, served := d.Hosts.Get(r, model.HostKey{Class: class, Host: id.Host})
		if !served || !slices.Contains(host.Roots, k) {
			continue
		}
		if out.plain.Port == 0 {
			out.plain = LeafAsk{leafy.ports[0], false, sample(id.Host)}
		}
		if out.over.Port == 0 && (a.Attached || underTLS(a.TLS, id.Host)) {
			out.over = LeafAsk{leafy.ports[1], true, sample(id.Host)}
		}
	}
	return out, out.plain.Port != 0 || out.over.Port != 0
}

// underTLS reports whether a root lists a host, or a wildcard for it, under its TLS; an
// entry without hosts is for all.
func underTLS(all []model.TLS, h model.Host) bool {
	return slices.ContainsFunc(all, func(t model.TLS) bool {
		return len(t.Hosts) == 0 || slices.Contains(t.Hosts, h) || h.Above() != "" && slices.Contains(t.Hosts, h.Above())
	})
}

// sample is a name that a host stands for.
func sample(h model.Host) string {
	if h.Wildcard() {
		_, below, _ := strings.Cut(string(h), ".")
		return "spillway-probe." + below
	}
	return string(h)
}
