package ingest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// EndpointSlice reads an EndpointSlice of a member. Endpoints that take no
// requests are left out. A slice that belongs to no Service, or holds names
// instead of addresses, gives no row.
func EndpointSlice(member model.Member, o *discoveryv1.EndpointSlice) (model.SliceID, model.Slice, bool, model.Findings) {
	r := reportOf(model.Object{Member: member, Kind: "EndpointSlice", Namespace: o.Namespace, Name: o.Name})
	service := o.Labels[discoveryv1.LabelServiceName]
	id := model.SliceID{
		MemberService: model.MemberService{Service: model.ServiceOf(o.Namespace, service), Member: member},
		Name:          o.Name,
	}
	if service == "" {
		r.unsupported("metadata.labels", "the label %s is missing, so it belongs to no Service", discoveryv1.LabelServiceName)
		return id, model.Slice{}, false, r.Findings()
	}
	if t := o.AddressType; t != discoveryv1.AddressTypeIPv4 && t != discoveryv1.AddressTypeIPv6 {
		r.unsupported("addressType", "%q is not supported: use IPv4 or IPv6, or a Service of type ExternalName", t)
		return id, model.Slice{}, false, r.Findings()
	}
	out := model.Slice{Ports: r.slicePorts(o.Ports)}
	all := r.endpoints(o)
	if len(out.Ports) == 1 {
		for i := range all {
			all[i].Port = out.Ports[0].Number
		}
	}
	out.Endpoints = model.EndpointsOf(all...)
	return id, out, true, r.Findings()
}

func (r *report) slicePorts(ports []discoveryv1.EndpointPort) []model.SlicePort {
	var out []model.SlicePort
	for i := range ports {
		p := &ports[i]
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		if protocol != corev1.ProtocolTCP && protocol != corev1.ProtocolUDP {
			continue // of a port that no route can lead to
		}
		if p.Port == nil {
			r.unsupported(model.Field("ports").Index(i)+".port", "all ports at once are not supported: give the port a number")
			continue
		}
		if *p.Port < 1 || *p.Port > 65535 {
			r.invalid(model.Field("ports").Index(i)+".port", "%d is no port", *p.Port)
			continue
		}
		port := model.SlicePort{Number: uint16(*p.Port), UDP: protocol == corev1.ProtocolUDP}
		if p.Name != nil {
			port.Name = *p.Name
		}
		out = append(out, port)
	}
	slices.SortStableFunc(out, func(a, b model.SlicePort) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Number, b.Number))
	})
	return slices.Compact(out)
}

// endpoints are sorted by address, each once; the better state wins.
func (r *report) endpoints(o *discoveryv1.EndpointSlice) []model.Endpoint {
	if len(o.Endpoints) == 0 {
		return nil
	}
	out := make([]model.Endpoint, 0, len(o.Endpoints))
	for i := range o.Endpoints {
		e := &o.Endpoints[i]
		state, takes := endpointState(&e.Conditions)
		if !takes {
			continue
		}
		ip, err := endpointAddress(o.AddressType, e.Addresses)
		if err != nil {
			r.invalid(model.Field("endpoints").Index(i)+".addresses", "%v", err)
			continue
		}
		endpoint := model.Endpoint{Addr: ip, State: state}
		if e.Zone != nil {
			endpoint.Zone = model.ZoneOf(*e.Zone)
		}
		out = append(out, endpoint)
	}
	slices.SortStableFunc(out, func(a, b model.Endpoint) int {
		return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.State, b.State))
	})
	return slices.CompactFunc(out, func(a, b model.Endpoint) bool { return a.Addr == b.Addr })
}

// endpointState reads conditions; what is not said means ready, serving, and
// not terminating (discovery/v1, EndpointConditions).
func endpointState(c *discoveryv1.EndpointConditions) (model.EndpointState, bool) {
	ready := c.Ready == nil || *c.Ready
	serving := ready
	if c.Serving != nil {
		serving = *c.Serving
	}
	terminating := c.Terminating != nil && *c.Terminating
	switch {
	case ready:
		return model.EndpointReady, true
	case serving && terminating:
		return model.EndpointDraining, true
	}
	return 0, false
}

// endpointAddress reads the first address: all of an endpoint's are
// interchangeable. Most that are refused here an API server refuses too; a
// member's may be another program, and an edge must not be made to call itself.
func endpointAddress(t discoveryv1.AddressType, addresses []string) (netip.Addr, error) {
	if len(addresses) == 0 {
		return netip.Addr{}, fmt.Errorf("there is no address")
	}
	ip, err := netip.ParseAddr(addresses[0])
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%q is no IP address", addresses[0])
	case ip.Zone() != "" || ip.Is4In6() || ip.Is4() != (t == discoveryv1.AddressTypeIPv4):
		return netip.Addr{}, fmt.Errorf("%q is no address of type %s", addresses[0], t)
	}
	if use := model.NotPod(ip); use != "" {
		return netip.Addr{}, fmt.Errorf("%q is a %s address: give the address of a pod", addresses[0], use)
	}
	return ip, nil
}
