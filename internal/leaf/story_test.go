package leaf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/zone"
)

func TestStories(t *testing.T) { fleettest.Run(t, declare) }

// declare adds the tables of leaf and the command "status TABLE [PREFIX]".
func declare(g *inc.Graph, p *fleet.Program) map[string]fleettest.Command {
	dns := zone.Declare(g, p)
	t := leaf.Declare(g, p, leaf.Outputs{
		Findings: []*inc.Table[model.Object, model.Findings]{dns.Findings},
		Serves:   dns.Serves,
		Sites:    dns.Sites(p),
		Fails:    dns.Fails,
	})
	probe := func(w *fleettest.World, words []string) (string, error) {
		site, health := model.Edge(words[0]), map[string]model.Health{"up": model.Up, "down": model.Down}[words[1]]
		w.Stage(func(tx *inc.Tx) { dns.Witnesses.Set(tx, site, zone.Witnesses{Probe: zone.Witness{Health: health}}) })
		return "", nil
	}
	tables := map[string]func() []string{
		"roots": func() []string {
			return fleettest.Rows(t.Roots, func(s leaf.RootStatus) string {
				text := strings.Join(s.Addresses.List(), " ")
				if s.Settled {
					text += " settled"
				}
				if s.Left {
					text += " left"
				}
				return text
			})
		},
		"leaves": func() []string {
			return fleettest.Rows(t.Leaves, func(l leaf.Leaf) string {
				return l.Namespace + "/" + l.Name + map[bool]string{true: " adopts"}[l.Adopt] + map[bool]string{true: " keeps"}[l.Keep] + " " + l.Body
			})
		},
		"rollouts": func() []string { return fleettest.Rows(t.Rollouts, rolloutText) },
		"globals":  func() []string { return fleettest.Rows(t.Globals, globalText) },
		"keys": func() []string {
			return fleettest.Rows(t.Keys, func(model.There) string { return "wanted" })
		},
		"admissions": func() []string {
			return fleettest.Rows(t.Admissions, func(s leaf.AdmissionStatus) string {
				if s.Left {
					return "left"
				}
				out := fmt.Sprintf("%s admitted=%v %s %s %s", s.Says.Host, s.Says.Admitted, s.Says.Canonical, s.Says.Reason, s.Says.Message)
				if s.Settled {
					out += " settled"
				}
				return strings.Join(strings.Fields(out), " ")
			})
		},
		"members": func() []string {
			return fleettest.Rows(t.Members, func(s leaf.MemberStatus) string {
				return text(s.Conditions, fmt.Sprintf("read=%v stale since %d", s.Read, s.StaleSince))
			})
		},
		"edges": func() []string {
			return fleettest.Rows(t.Edges, func(s leaf.EdgeStatus) string {
				return text(s.Conditions, fmt.Sprintf("%v heard=%v proxies=%d", s.Addresses, s.Heard, s.Proxies))
			})
		},
		"configs": func() []string {
			return fleettest.Rows(t.Configs, func(s leaf.ConfigStatus) string { return text(s.Conditions) })
		},
		"zones": func() []string {
			return fleettest.Rows(t.Zones, func(s leaf.ZoneStatus) string { return text(s.Conditions) })
		},
		"gatewayclasses": func() []string {
			return fleettest.Rows(t.GatewayClasses, func(s leaf.GatewayClassStatus) string { return text(s.Conditions) })
		},
		"gateways": func() []string {
			return fleettest.Rows(t.Gateways, func(s leaf.GatewayStatus) string {
				more := []string{fmt.Sprint(s.Addresses)}
				if s.Allows {
					more = append(more, fmt.Sprintf("%d sets", s.Sets))
				}
				return text(s.Conditions, append(more, listenersText(s.Listeners)...)...)
			})
		},
		"listenersets": func() []string {
			return fleettest.Rows(t.ListenerSets, func(s leaf.ListenerSetStatus) string { return text(s.Conditions, listenersText(s.Listeners)...) })
		},
		"routes": func() []string { return fleettest.Rows(t.Routes, entriesText) },
		"placements": func() []string {
			return fleettest.Rows(t.Placements, func(s leaf.PlacementStatus) string {
				more := []string{fmt.Sprintf("%d of %d members", s.Chosen, s.Total)}
				for _, m := range s.Members {
					more = append(more, strings.TrimSpace(fmt.Sprintf("%s %v %s %s", m.Name, m.Chosen, m.Reason, m.Message)))
				}
				for _, e := range s.Edits {
					more = append(more, strings.ReplaceAll(fmt.Sprintf("edit %s of %s %s wave %d of %d, %d of %d members, returnable=%v: %s", e.Token, e.Of, e.Reason, e.Wave, e.Waves, e.Having, e.Members, e.Returnable, e.Message), "\n", " "))
				}
				return text(s.Conditions, more...)
			})
		},
		"targets":     func() []string { return fleettest.Rows(t.Targets, targetsText) },
		"tlspolicies": func() []string { return fleettest.Rows(t.TLSPolicies, entriesText) },
		"events":      func() []string { return fleettest.Rows(t.Findings, fleettest.FindingsText) },
		"counts": func() []string {
			var out []string
			for _, m := range p.In.Members.Keys() {
				n := t.Counts.Of(m)
				out = append(out, fmt.Sprintf("%s: %d services, %d endpoints", m, n.Services, n.Endpoints))
			}
			return out
		},
	}
	status := func(w *fleettest.World, words []string) (string, error) {
		if len(words) == 0 || tables[words[0]] == nil {
			return "", fmt.Errorf("no such table")
		}
		w.Commit()
		return fleettest.Lines(tables[words[0]](), words[1:]), nil
	}
	out := globalCommands(t, dns)
	out["status"], out["probe"] = status, probe
	for name, f := range rolloutCommands {
		out[name] = func(w *fleettest.World, words []string) (string, error) { return f(w, t, words) }
	}
	return out
}

func listenersText(all []leaf.ListenerStatus) (out []string) {
	for _, l := range all {
		out = append(out, fmt.Sprintf("%s %v %d routes", l.Name, l.Kinds, l.Attached), text(l.Conditions))
	}
	return out
}

func text(all leaf.Conditions, more ...string) string {
	var out []string
	for _, c := range all {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message)))
	}
	return strings.Join(append(out, more...), "\n")
}

// targetsText is entriesText with the kinds of what the entries are about.
func targetsText(s leaf.RouteStatus) string {
	out := []string{fmt.Sprintf("settled=%v", s.Settled)}
	for _, p := range s.Parents {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", p.Parent.Kind, p.Parent.Namespace, p.Parent.Name, p.Parent.Group)))
		for _, c := range p.Conditions {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message)))
		}
	}
	return strings.Join(out, "\n")
}

func entriesText(s leaf.RouteStatus) string {
	out := []string{fmt.Sprintf("settled=%v", s.Settled)}
	for _, p := range s.Parents {
		parent := fmt.Sprintf("%s/%s/%s", p.Parent.Namespace, p.Parent.Name, p.Parent.Section)
		if p.Parent.Kind == model.ListenerSetKind {
			parent = "set " + parent
		}
		out = append(out, parent)
		for _, c := range p.Conditions {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message)))
		}
	}
	return strings.Join(out, "\n")
}
