package envoy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestStories tells testdata/*.txt over the whole program. Commands besides
// those of fleettest:
//
//	envoy listeners|scopes|routes|clusters|endpoints|secrets [NAME]   what each view holds; a view is its region
//	envoy findings                                                    what proxies refuse, and what others have
//	reject EDGE listeners|… NAME ERROR…                        a proxy refuses what it was given
func TestStories(t *testing.T) {
	fleettest.Run(t, func(g *inc.Graph, p *fleet.Program) map[string]fleettest.Command {
		w := &world{g: g, p: p, t: Declare(g, p)}
		tables := map[string]Type{}
		for i, name := range []string{"secrets", "clusters", "endpoints", "listeners", "scopes", "routes"} {
			tables[name] = w.t.Types()[i]
		}
		return map[string]fleettest.Command{
			"envoy": func(fw *fleettest.World, words []string) (string, error) {
				fw.Commit()
				validateAll(t, w)
				if words[0] == "findings" {
					return w.findings(), nil
				}
				return w.print(t, tables[words[0]], strings.Join(words[1:], " ")), nil
			},
			"reject": func(fw *fleettest.World, words []string) (string, error) {
				fw.Commit()
				view, _ := p.Views.Get(nil, model.Edge(words[0]))
				typ := tables[words[1]]
				res, ok := w.lookIn(typ.Table, view.Key, words[2])
				if !ok {
					return "", fmt.Errorf("there is no %s", words[2])
				}
				fw.Stage(func(tx *inc.Tx) {
					p.In.Rejections.Set(tx, model.RejectionID{Edge: model.Edge(words[0]), Type: typ.URL, Name: words[2]},
						model.Rejection{Version: res.Version, Error: strings.Join(words[3:], " "),
							By: []model.Refuser{{Node: words[0] + "-1", Version: "1.40.0"}}})
				})
				return "", nil
			},
		}
	})
}

func (w *world) findings() string {
	all := map[model.Object]model.Findings{}
	for _, table := range []*inc.Table[model.Object, model.Findings]{w.p.Conflicts, w.t.Findings} {
		for _, o := range table.Keys() {
			found, _ := table.Get(nil, o)
			all[o] = append(all[o], found...).Sorted()
		}
	}
	var out strings.Builder
	for _, o := range slices.SortedFunc(maps.Keys(all), model.Object.Compare) {
		for line := range strings.SplitSeq(fleettest.FindingsText(all[o]), "\n") {
			fmt.Fprintf(&out, "%s: %s\n", o, line)
		}
	}
	return out.String()
}

// print writes the resources of a type, or those of one name.
func (w *world) print(t *testing.T, typ Type, name string) string {
	var out strings.Builder
	for _, view := range w.p.EdgesOfView.Groups() {
		for _, res := range w.rowsOf(typ, view) {
			if name != "" && name != res.Name {
				continue
			}
			fmt.Fprintf(&out, "%s %s", view.Place().Region, res.Name)
			if res.Held() {
				out.WriteString(" held")
			}
			if res.Unsure() {
				out.WriteString(" unsure")
			}
			out.WriteString("\n" + indent(describeAny(decode(t, res))))
		}
	}
	return out.String()
}

func indent(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		out.WriteString("  " + line)
	}
	return out.String()
}

func describeAny(m proto.Message) string {
	switch m := m.(type) {
	case *endpointv3.ClusterLoadAssignment:
		return describe(m)
	case *clusterv3.Cluster:
		text := m.GetType().String() + " " + m.ConnectTimeout.AsDuration().String() + "\n"
		if m.LoadAssignment != nil {
			text += describe(m.LoadAssignment)
		}
		return text
	case *listenerv3.Listener:
		return describeListener(m)
	case *routev3.RouteConfiguration:
		var out strings.Builder
		for _, vh := range m.VirtualHosts {
			out.WriteString(describeRoutes(vh.Routes))
		}
		return out.String()
	case *routev3.ScopedRouteConfiguration:
		return m.Key.Fragments[0].GetStringKey() + " -> " + m.RouteConfigurationName + "\n"
	case *tlsv3.Secret:
		return string(m.GetTlsCertificate().CertificateChain.GetInlineBytes()) + "\n"
	}
	return fmt.Sprintf("%T\n", m)
}

func describeListener(m *listenerv3.Listener) string {
	var out strings.Builder
	for _, a := range append([]*listenerv3.AdditionalAddress{{Address: m.Address}}, m.AdditionalAddresses...) {
		s := a.Address.GetSocketAddress()
		fmt.Fprintf(&out, "%s port %d\n", s.Address, s.GetPortValue())
	}
	for _, c := range m.FilterChains {
		fmt.Fprintf(&out, "chain %s for %s\n", c.Name, strings.Join(c.GetFilterChainMatch().GetServerNames(), " "))
	}
	return out.String()
}

// describeRoutes writes one line a route; that for the safe methods is "safe".
func describeRoutes(routes []*routev3.Route) string {
	var out strings.Builder
	for _, r := range routes {
		switch p := r.Match.PathSpecifier.(type) {
		case *routev3.RouteMatch_Path:
			out.WriteString("exact " + p.Path)
		case *routev3.RouteMatch_Prefix:
			out.WriteString("prefix " + p.Prefix)
		case *routev3.RouteMatch_PathSeparatedPrefix:
			out.WriteString("prefix " + p.PathSeparatedPrefix)
		}
		for _, h := range r.Match.Headers {
			if proto.Equal(h, isSafe) {
				out.WriteString(" safe")
			} else {
				out.WriteString(" " + h.Name + "~" + h.GetStringMatch().GetSafeRegex().GetRegex())
			}
		}
		switch {
		case r.GetDirectResponse() != nil:
			fmt.Fprintf(&out, " -> %d\n", r.GetDirectResponse().Status)
		case r.GetRoute().GetCluster() != "":
			fmt.Fprintf(&out, " -> %s\n", r.GetRoute().GetCluster())
		default:
			for _, c := range r.GetRoute().GetWeightedClusters().Clusters {
				fmt.Fprintf(&out, " -> %s=%d", c.Name, c.Weight.GetValue())
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}
