package fleettest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// prints are the tables with a form that is short to read.
var prints = map[string]func(w *World) []string{
	"hosts": func(w *World) []string { return Rows(w.Program.Hosts, hostText) },
	"chains": func(w *World) []string {
		return Rows(w.Program.Chains, func(c fleet.Chain) string { return joined(c.Secrets) })
	},
	"attachments": func(w *World) []string {
		return Rows(w.Program.Attachments, func(a fleet.Attachment) string { return string(a.Classes) })
	},
	"classes": func(w *World) []string {
		return Rows(w.Program.ClassInfo, func(c fleet.ClassInfo) string { return joined(c.Edges) })
	},
	"views": func(w *World) []string {
		return Rows(w.Program.Views, func(v fleet.View) string { return v.Key.String() })
	},
	"outlets": func(w *World) []string {
		return Rows(w.Program.Outlets, func(o *fleet.Outlets) string { return o.String() })
	},
	"parents": func(w *World) []string { return Rows(w.Program.Parents, parentsText) },
	"resolved": func(w *World) []string {
		return Rows(w.Program.Resolved, func(v fleet.Resolved) string {
			return strings.TrimSpace(fmt.Sprint(v.Refused.Reason, " ", v.Refused.Message, map[bool]string{true: "unsure"}[v.Unsure]))
		})
	},
	"gateways": func(w *World) []string { return Rows(w.Program.Gateways, gatewayText) },
	"groups":   func(w *World) []string { return Rows(w.Program.Groups, groupText) },
	"imports":  func(w *World) []string { return Rows(w.Program.Imports, importText) },
	"backends": func(w *World) []string { return Rows(w.Program.Backends, backendText) },
	"plans":    func(w *World) []string { return Rows(w.Program.Plans, PlanText) },
	"paths": func(w *World) []string {
		return Rows(w.Program.Paths, func(p fleet.PathHealth) string { return fmt.Sprintf("%s by %d", p.Health, p.Proxies) })
	},
	"reaches":  reachesText,
	"missing":  func(w *World) []string { return Rows(w.Program.Missing, missingText) },
	"kept":     func(w *World) []string { return Rows(w.Program.Kept, keptText) },
	"findings": func(w *World) []string { return Rows(w.Program.Findings, FindingsText) },
}

// Print commits, and prints a table whose keys begin with a prefix, "-" if
// there is nothing. A list of routes or findings takes a line for each.
func Print(w *World, words []string) (string, error) {
	a := Parse(words)
	w.Commit()
	name := a.Word(0)
	if p, ok := prints[name]; ok {
		return Lines(p(w), a.Rest(1)), a.Err
	}
	var text strings.Builder
	if err := w.Graph.WriteText(&text, name); err != nil {
		return "", err
	}
	return Lines(strings.Split(strings.TrimSpace(text.String()), "\n"), a.Rest(1)), a.Err
}

// Lines are those that begin with the words of a prefix, "-" if none does.
func Lines(lines, prefix []string) string {
	var out strings.Builder
	for _, line := range lines {
		if strings.HasPrefix(line, strings.Join(prefix, " ")) {
			out.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	if strings.TrimSpace(out.String()) == "" {
		return "-\n"
	}
	return out.String()
}

// Rows is a line per row, or per line of its text.
func Rows[K inc.Key[K], V inc.Value[V]](t *inc.Table[K, V], text func(V) string) []string {
	var out []string
	for _, k := range t.Keys() {
		v, _ := t.Get(nil, k)
		for line := range strings.SplitSeq(text(v), "\n") {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%v: %s", k, line)))
		}
	}
	return out
}

func joined[T any](list []T) string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = fmt.Sprint(x)
	}
	return strings.Join(out, " ")
}

func hostText(h fleet.Host) string {
	var out []string
	for _, r := range h.Routes {
		out = append(out, fmt.Sprintf("%s -> %s", strings.Replace(r.Match.String(), "exact path", "exact", 1), targetText(r.Target)))
	}
	if h.Default != nil {
		out = append(out, "default -> "+targetText(*h.Default))
	}
	if h.Passed != nil {
		out = append(out, "passed -> "+targetText(*h.Passed))
	}
	return strings.Join(out, "\n")
}

func targetText(t fleet.Target) string {
	var names []string
	status := fmt.Sprint(fleet.Unanswered(t.Root))
	for _, b := range t.Backends {
		name := b.Backend.String()
		if b.Backend == (model.Backend{}) {
			name = "500"
		}
		names = append(names, name)
	}
	switch {
	case t.Reply != nil:
		names = []string{t.Reply.String()}
	case len(names) == 0:
		names = []string{status}
	case t.Nowhere:
		names = append(names, "("+status+")")
	}
	if filters := t.Filters.String(); filters != "" {
		names = append(names, "("+filters+")")
	}
	return strings.Join(names, " ") + " of " + t.Root.String()
}

func groupText(g fleet.Group) string {
	if name, port := g.External(); name != "" {
		return fmt.Sprintf("%s:%d", name, port)
	}
	var out []string
	for e := range g.Endpoints.All() {
		text := netAddr(e)
		if zone := e.Zone.String(); zone != "" {
			text += "@" + zone
		}
		if e.State == model.EndpointDraining {
			text += "~"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func netAddr(e model.Endpoint) string {
	if e.Addr.Is6() {
		return fmt.Sprintf("[%s]:%d", e.Addr, e.Port)
	}
	return fmt.Sprintf("%s:%d", e.Addr, e.Port)
}

func backendText(b fleet.Backend) string {
	out := joined(b.Members)
	if b.AppProtocol != "" {
		out += " " + b.AppProtocol
	}
	if b.External {
		out += " external"
	}
	if b.TLS != (model.UpstreamTLS{}) {
		out += " over " + b.TLS.String()
	}
	if p := b.Placing; p != nil {
		for _, list := range []struct {
			what    string
			members []model.Member
		}{{"beyond", p.Beyond}, {"unknown", p.Unknown}, {"held", p.Held}, {"tolerated", p.Tolerated}} {
			if len(list.members) > 0 {
				out += fmt.Sprintf(" (%s: %s)", list.what, joined(list.members))
			}
		}
		if p.Outside {
			out += " (others do not fit)"
		}
	}
	for _, p := range b.Problems {
		out += fmt.Sprintf("\n%s: %s", p.Reason, p.Message)
	}
	return out
}

func keptText(k fleet.Kept) string {
	var out []string
	for _, p := range k.Places {
		text := string(p.Member)
		if slices.Contains(k.Held, p.Member) {
			text += " held"
		}
		if p.Since != 0 {
			text += fmt.Sprintf(" since %d", p.Since)
		}
		if p.Over {
			text += " over"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func importText(i fleet.Import) string {
	var from, ports []string
	for _, e := range i.Exporters {
		from = append(from, string(e.Member))
	}
	if i.Written {
		from = append(from, "written")
	}
	for _, p := range i.Ports {
		ports = append(ports, strings.TrimRight(fmt.Sprintf("%s:%d/%s+%s", p.Name, p.Number, p.Protocol, p.AppProtocol), "+"))
	}
	return joined(from) + " " + joined(ports)
}

// PlanText is the shares of a plan, "TIER MEMBER ZONE WEIGHT" each.
func PlanText(p steer.Plan) string {
	var out []string
	for _, s := range p.Shares {
		text := fmt.Sprintf("%d %s %s %d", s.Tier, s.Member, s.Place.Place().Zone, s.Weight)
		if s.State != steer.Serving {
			text = fmt.Sprintf("%d %s %s %s", s.Tier, s.Member, s.Place.Place().Zone, s.State)
		}
		if s.Terminating {
			text += " terminating"
		}
		out = append(out, text)
	}
	return strings.TrimSpace(strings.Join(out, ", ") + " " + word(p.Unsure, "unsure"))
}

func reachesText(w *World) (out []string) {
	w.Program.Reaches(func(k model.HostKey, at model.Vantage, r fleet.Reach) {
		out = append(out, fmt.Sprintf("%s from %s: %s", k, at, reachText(r)))
	})
	return out
}

func reachText(r fleet.Reach) string {
	return strings.TrimSpace(r.Room.String() + " " + word(r.Unsure, "unsure"))
}

func missingText(m fleet.Missing) string {
	return strings.Join(strings.Fields(word(!m.Serves, "drained")+" "+word(m.Overdue, "overdue")+" "+word(m.Old, "old")+" "+word(m.Barred, "tainted")), " ")
}

func word(on bool, s string) string {
	if on {
		return s
	}
	return ""
}

// FindingsText is a line for each finding: field, reason and message, of a
// warning that it is one.
func FindingsText(all model.Findings) string {
	var out []string
	for _, f := range all {
		reason := string(f.Reason)
		if f.Severity != model.Error {
			reason = f.Severity.String() + " " + reason
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s: %s", f.Field, reason, f.Message)))
	}
	return strings.Join(out, "\n")
}

func parentsText(all fleet.Parents) string {
	var out []string
	for _, p := range all {
		text := fmt.Sprintf("%s/%s/%s", p.Parent.Namespace, p.Parent.Name, p.Parent.Section)
		if p.Parent.Kind == model.ListenerSetKind {
			text = "set " + text
		}
		for _, f := range p.Fronts {
			text += fmt.Sprintf(" %s|%s", f.Front, f.Host.Written())
		}
		out = append(out, strings.TrimSpace(text+" "+p.Refused.Reason))
	}
	return strings.Join(out, "\n")
}

func gatewayText(row *fleet.Gateway) string {
	var out []string
	for _, p := range row.Parts {
		head := "gateway "
		if p.Object.Kind == model.ListenerSetKind {
			head = fmt.Sprintf("set %s/%s ", p.Object.Namespace, p.Object.Name)
		}
		out = append(out, strings.TrimSpace(head+p.Refused.Reason))
		for _, l := range p.Listeners {
			text := fmt.Sprintf("%s %s %s", l.Spec.Name, l.Front, joined(l.Secrets))
			for _, why := range []model.Refusal{l.Refused, l.Broken} {
				if why.Reason != "" {
					text += " " + why.Reason
				}
			}
			out = append(out, strings.TrimSpace(text))
		}
	}
	return strings.Join(out, "\n")
}
