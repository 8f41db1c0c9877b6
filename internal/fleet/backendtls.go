package fleet

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TLSPolicy is what became of a BackendTLSPolicy.
type TLSPolicy struct {
	TLS     model.UpstreamTLS
	Lost    []model.Backend // its targets that an older policy has
	Refused model.Refusal   // why it is not accepted
	Broken  model.Refusal   // why references of it are not resolved
}

// Equal reports whether both are the same.
func (a TLSPolicy) Equal(b TLSPolicy) bool {
	return a.TLS == b.TLS && slices.Equal(a.Lost, b.Lost) && a.Refused == b.Refused && a.Broken == b.Broken
}

// bucket is a part of all services. Every backend reads the policies of its bucket, as
// one read that all of them share: a policy that comes costs a look at each backend
// there.
type bucket uint8

const buckets = 16

// Compare orders buckets.
func (a bucket) Compare(b bucket) int { return cmp.Compare(a, b) }

func bucketOf(b model.Backend) bucket {
	h := fnv.New32a()
	_, _ = h.Write([]byte(b.Key().Service.String()))
	return bucket(h.Sum32() % buckets)
}

// serviceOf is a backend without its port.
func serviceOf(b model.Backend) model.Backend {
	k := b.Key()
	k.Port, k.Placed = model.PortRef{}, ""
	return k.Backend()
}

// declareTLS decides what policies come to.
func (d *program) declareTLS(g *inc.Graph) {
	in := d.In.TLSPolicies
	d.tlsAt = inc.IndexBy(in, func(_ model.Object, spec model.BackendTLSSpec) []model.Backend { return spec.Targets })
	d.tlsNear = inc.IndexBy(in, func(_ model.Object, spec model.BackendTLSSpec) []bucket {
		out := make([]bucket, len(spec.Targets))
		for i, t := range spec.Targets {
			out[i] = bucketOf(t)
		}
		return out
	})
	d.TLSPolicies = inc.Derive(g, "TLS of backends", d.tlsPolicy, in)
}

func (d *program) tlsPolicy(r *inc.Reader, k model.Object) (TLSPolicy, bool) {
	spec, ok := d.In.TLSPolicies.Get(r, k)
	out := TLSPolicy{Refused: spec.Refused, Broken: spec.Broken}
	for _, t := range spec.Targets {
		if older, lost := d.olderTLS(r, k, spec, t); lost {
			out.Lost = append(out.Lost, t)
			if out.Refused == (model.Refusal{}) {
				out.Refused = model.Refusal{Reason: string(gatewayv1.PolicyReasonConflicted), Message: fmt.Sprintf("the older %s is for %s, too", older, t.Described())}
			}
		}
	}
	ca := d.authorities(r, spec, &out)
	if spec.Refused != (model.Refusal{}) || ca == "" && !spec.System {
		out.TLS = model.UpstreamTLSKey{Broken: true}.UpstreamTLS()
		return out, ok
	}
	out.TLS = model.UpstreamTLSKey{Host: spec.Host, Names: spec.Names, URIs: spec.URIs, CA: ca}.UpstreamTLS()
	return out, ok
}

// olderTLS is the policy that has a target in place of this one.
func (d *program) olderTLS(r *inc.Reader, k model.Object, spec model.BackendTLSSpec, t model.Backend) (model.Object, bool) {
	first, age := k, spec.Origin(k)
	all := d.tlsAt.Get(r, t)
	for i, other := range d.tlsAt.Keys(r, t) {
		if o := all[i].Origin(other); o.Compare(age) < 0 {
			first, age = other, o
		}
	}
	return first, first != k
}

// authorities are the certificates of those that a policy trusts, as far as they are
// there, and says what is not.
func (d *program) authorities(r *inc.Reader, spec model.BackendTLSSpec, out *TLSPolicy) string {
	var all []string
	for _, ref := range spec.Bundles {
		pem, problem := d.bundle(r, ref)
		if problem == "" {
			all = append(all, pem)
		} else if out.Broken == (model.Refusal{}) {
			out.Broken = model.Refusal{Reason: string(gatewayv1.BackendTLSPolicyReasonInvalidCACertificateRef), Message: fmt.Sprintf("%s: %s", ref, problem)}
		}
	}
	if len(all) == 0 && !spec.System && out.Refused == (model.Refusal{}) {
		out.Refused = model.Refusal{Reason: string(gatewayv1.BackendTLSPolicyReasonNoValidCACertificate), Message: "no reference leads to certificates of authorities"}
	}
	return strings.Join(all, "")
}

// bundle is the certificates of authorities that an object has, or why there are none.
func (d *program) bundle(r *inc.Reader, ref model.Object) (pem, problem string) {
	b, there := d.In.Bundles.Get(r, ref)
	if !there {
		return "", map[bool]string{true: "there is none", false: "there is none that has ca.crt"}[ref.Namespace == ""]
	}
	return b.PEM, b.Problem
}

// tlsOf is how a port of a backend's service is spoken to over TLS: what is said of
// the port goes before what is said of the service.
func (d *program) tlsOf(r *inc.Reader, b model.Backend, port string) model.UpstreamTLS {
	if b.Port().Pass || b.Port().UDP() {
		return model.UpstreamTLS{}
	}
	if b.Port().Route != "" {
		return d.tlsByRoute(r, b, port)
	}
	return d.tlsByPolicy(r, b, port)
}

// tlsByRoute is how a Route has a backend spoken to: as it says whom to trust, whatever
// names these certify, or else as a policy does. It is not spoken to without TLS.
func (d *program) tlsByRoute(r *inc.Reader, b model.Backend, port string) model.UpstreamTLS {
	k := b.Key()
	route := model.Object{Workspace: k.Workspace, Kind: model.OpenShiftRoute, Namespace: k.Service.Namespace(), Name: k.Port.Route}
	if pem, problem := d.bundle(r, route); problem == "" {
		host := k.Service.Name() + "." + k.Service.Namespace() + ".svc"
		return model.UpstreamTLSKey{Host: host, CA: pem, AnyName: true}.UpstreamTLS()
	}
	if by := d.tlsByPolicy(r, b, port); by != (model.UpstreamTLS{}) {
		return by
	}
	return model.UpstreamTLSKey{Broken: true}.UpstreamTLS()
}

// tlsByPolicy is how policies say.
func (d *program) tlsByPolicy(r *inc.Reader, b model.Backend, port string) model.UpstreamTLS {
	near := bucketOf(b)
	names, specs := d.tlsNear.Keys(r, near), d.tlsNear.Get(r, near)
	if len(specs) == 0 {
		return model.UpstreamTLS{}
	}
	for _, section := range []string{port, ""} {
		target := b.Key()
		target.Port, target.Placed = model.PortRef{Name: section}, ""
		t := target.Backend()
		for i, spec := range specs {
			if !slices.Contains(spec.Targets, t) {
				continue
			}
			if row, ok := d.TLSPolicies.Get(r, names[i]); ok && !slices.Contains(row.Lost, t) {
				return row.TLS
			}
		}
	}
	return model.UpstreamTLS{}
}

// declareTLSUsers finds who is served by what policies are for.
func (d *program) declareTLSUsers(g *inc.Graph) {
	d.overTLS = inc.IndexBy(d.Backends, func(b model.Backend, row Backend) []model.Backend {
		if row.TLS == (model.UpstreamTLS{}) {
			return nil
		}
		return []model.Backend{serviceOf(b)}
	})
	d.TLSUsers = inc.Derive(g, "users of TLS policies", d.tlsUsers, d.In.TLSPolicies)
}

// tlsUsers are the Gateways that routes to the targets of a policy attach to.
func (d *program) tlsUsers(r *inc.Reader, k model.Object) (inc.List[model.GatewayID], bool) {
	spec, _ := d.In.TLSPolicies.Get(r, k)
	row, _ := d.TLSPolicies.Get(r, k)
	var out inc.List[model.GatewayID]
	for _, t := range spec.Targets {
		lost := slices.Contains(row.Lost, t)
		names, rows := d.overTLS.Keys(r, serviceOf(t)), d.overTLS.Get(r, serviceOf(t))
		for i, b := range names {
			if lost || rows[i].TLS == row.TLS {
				out = append(out, d.gatewaysOf(r, b)...)
			}
		}
	}
	slices.SortFunc(out, model.GatewayID.Compare)
	out = slices.Compact(out)
	return out, len(out) > 0
}

// gatewaysOf are the Gateways that routes to a backend attach to.
func (d *program) gatewaysOf(r *inc.Reader, b model.Backend) []model.GatewayID {
	var out []model.GatewayID
	for _, rules := range d.ruled.Keys(r, b) {
		parents, _ := d.Parents.Get(r, rules.Root)
		for _, p := range parents {
			if len(p.Fronts) > 0 && !p.Leaf { // members have policies of their own
				id, _ := p.Fronts[0].Front.Gateway()
				out = append(out, id)
			}
		}
	}
	return out
}
