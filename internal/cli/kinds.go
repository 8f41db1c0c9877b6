package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/spillway-dev/spillway/internal/ui"
	"github.com/spillway-dev/spillway/internal/xds"
)

// kind is what `spillway get` can show. All answers are lists of JSON objects.
type kind struct {
	name, about string
	path        string // empty: /v1/ and the name
	heads       []head
	cells       func(body []byte, now time.Time) ([][]string, error) // one a head
}

// head is that of a column.
type head struct {
	text string
	wide bool // shown with -o wide only
}

// column is what people see of a T.
type column[T any] struct {
	head string
	wide bool
	cell func(one T, now time.Time) string
}

func kindOf[T any](name, about string, columns ...column[T]) kind {
	k := kind{name: name, about: about}
	for _, c := range columns {
		k.heads = append(k.heads, head{c.head, c.wide})
	}
	k.cells = func(body []byte, now time.Time) ([][]string, error) {
		var list []T
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, fmt.Errorf("this is no list of %s (is it a spillway serve of another version?): %w", name, err)
		}
		rows := make([][]string, len(list))
		for i, one := range list {
			for _, c := range columns {
				rows[i] = append(rows[i], c.cell(one, now))
			}
		}
		return rows, nil
	}
	return k
}

// text is a column that needs no clock.
func text[T any](head string, cell func(T) string) column[T] {
	return column[T]{head: head, cell: func(one T, _ time.Time) string { return cell(one) }}
}

func wide[T any](c column[T]) column[T] {
	c.wide = true
	return c
}

// kinds are those with typed objects, and the tables of the program.
var kinds = []kind{members, edges, fronts, hosts, plans, streams, keys, findings, tables}

var members = kindOf("members", "the clusters of the fleet",
	text("NAME", func(m ui.Member) string { return m.Name }),
	text("PLACE", func(m ui.Member) string { return m.Place.String() }),
	text("CONNECTED", func(m ui.Member) string { return condition(m.Conditions, "Connected") }),
	text("HEALTHY", func(m ui.Member) string { return condition(m.Conditions, "Healthy") }),
	text("TRAFFIC", traffic),
	text("SERVICES", func(m ui.Member) string { return counted(m.Read, m.Services) }),
	text("ENDPOINTS", func(m ui.Member) string { return counted(m.Read, m.Endpoints) }),
	column[ui.Member]{head: "STALE", cell: func(m ui.Member, now time.Time) string { return since(m.StaleSince, now) }},
	column[ui.Member]{head: "AGE", cell: func(m ui.Member, now time.Time) string { return since(&m.Created, now) }},
	wide(text("NETWORKS", func(m ui.Member) string { return joined(m.Networks) })),
	wide(text("TAINTS", func(m ui.Member) string { return joined(m.Taints) })),
	wide(column[ui.Member]{head: "CREDENTIALS-END", cell: func(m ui.Member, now time.Time) string { return until(m.CredentialExpiry, now) }}),
)

var edges = kindOf("edges", "the places with proxies",
	text("NAME", func(e ui.Edge) string { return e.Name }),
	text("PLACE", func(e ui.Edge) string { return e.Place.String() }),
	text("ADDRESSES", func(e ui.Edge) string { return joined(e.Addresses) }),
	text("PROXIES", func(e ui.Edge) string { return strconv.Itoa(e.Proxies) }),
	text("SERVING", func(e ui.Edge) string { return condition(e.Conditions, "Serving") }),
	text("DRAIN", func(e ui.Edge) string { return yes(e.Drain) }),
	text("FRONTS", func(e ui.Edge) string { return few(e.Fronts) }),
	wide(text("NETWORKS", func(e ui.Edge) string { return joined(e.Networks) })),
	wide(text("PORTS", func(e ui.Edge) string {
		return joined(each(e.Ports, func(p ui.Port) string { return strconv.Itoa(int(p.Number)) + protocolOf(p) }))
	})),
)

// protocolOf is what is behind the number of a port, where that is not HTTP.
func protocolOf(p ui.Port) string {
	switch {
	case p.TLS:
		return "/TLS"
	case p.Relay != "":
		return "/" + p.Relay
	}
	return ""
}

var fronts = kindOf("fronts", "what clients connect to: IngressClasses",
	text("NAME", func(f ui.Front) string { return f.Name }),
	text("KIND", func(f ui.Front) string { return f.Object.Kind }),
	text("DEFAULT", func(f ui.Front) string { return yes(f.Default) }),
	text("HTTP", func(f ui.Front) string { return port(f.HTTPPort) }),
	text("HTTPS", func(f ui.Front) string { return port(f.HTTPSPort) }),
	text("EDGES", func(f ui.Front) string {
		return few(each(f.Edges, func(e ui.FrontEdge) string { return e.Name + map[bool]string{false: " (not served)"}[e.Served] }))
	}),
	column[ui.Front]{head: "AGE", cell: func(f ui.Front, now time.Time) string { return since(&f.Created, now) }},
	wide(text("CONFIG", func(f ui.Front) string { return dash(f.Config) })),
	wide(text("CERTIFICATES", func(f ui.Front) string {
		return map[bool]string{true: "OnDemand", false: "Static"}[f.OnDemand]
	})),
	wide(text("OWN-ADDRESSES", func(f ui.Front) string {
		return joined(slices.Concat(each(f.Edges, func(e ui.FrontEdge) []string { return e.Addresses })...))
	})),
)

var hosts = kindOf("hosts", "host names and what becomes of requests to them",
	text("HOST", func(h ui.Host) string { return cmp.Or(h.Host, "(any other)") }),
	text("FRONT", func(h ui.Host) string { return h.Front }),
	text("ROUTES", func(h ui.Host) string { return strconv.Itoa(len(h.Routes)) }),
	text("OBJECTS", func(h ui.Host) string { return few(each(h.Objects, ui.Object.String)) }),
	text("EDGES", func(h ui.Host) string { return few(h.Edges) }),
	wide(text("MEMBERS", func(h ui.Host) string { return few(each(h.Members, answeredBy)) })),
	wide(text("WHY", func(h ui.Host) string { return joined(each(h.Members, whyMember)) })),
	wide(text("GOES-TO", func(h ui.Host) string { return few(each(h.Routes, goesTo)) })),
)

// answeredBy is a member with which DNS answers; one with which it does not is in
// parentheses.
func answeredBy(m ui.HostMember) string {
	if !m.Answered {
		return "(" + m.Name + ")"
	}
	return m.Name
}

// whyMember is why it does, or does not.
func whyMember(m ui.HostMember) string { return m.Name + ": " + m.Why }

var plans = kindOf("plans", "who gets the requests for a backend, seen from a place",
	text("BACKEND", func(p ui.Plan) string { return p.Backend }),
	text("FROM", func(p ui.Plan) string { return dash(p.From.String()) }),
	text("NOW", func(p ui.Plan) string { return dash(now(p)) }),
	text("NEXT", func(p ui.Plan) string { return dash(later(p)) }),
	text("OUT", func(p ui.Plan) string { return dash(out(p)) }),
	text("SURE", func(p ui.Plan) string { return yes(!p.Unsure) }),
	wide(text("NETWORKS", func(p ui.Plan) string { return joined(p.Networks) })),
	wide(text("ROOM", func(p ui.Plan) string { return p.Room })),
)

var streams = kindOf("streams", "the proxies and gRPC clients that are connected",
	text("EDGE", func(s xds.StreamStatus) string { return s.Edge }),
	text("NODE", func(s xds.StreamStatus) string { return s.Node }),
	text("CLIENT", func(s xds.StreamStatus) string {
		if s.GRPC != "" {
			return "gRPC " + s.GRPC
		}
		return strings.TrimSpace("Envoy " + s.Envoy)
	}),
	column[xds.StreamStatus]{head: "AGE", cell: func(s xds.StreamStatus, now time.Time) string { return since(&s.Since, now) }},
	text("INSYNC", func(s xds.StreamStatus) string { return yes(s.InSync) }),
	text("REFUSES", func(s xds.StreamStatus) string {
		n := 0
		for _, t := range s.Types {
			n += len(t.Quarantined)
		}
		return strconv.Itoa(n)
	}),
	text("SENT", func(s xds.StreamStatus) string { return humanize.IBytes(s.BytesSent) }),
	wide(text("STREAM", func(s xds.StreamStatus) string { return strconv.FormatUint(s.Stream, 10) })),
	wide(text("VIEW", func(s xds.StreamStatus) string { return s.View })),
)

var keys = kindOf("keys", "which members hold copies of which Secrets of the hub",
	text("MEMBER", func(k ui.Key) string { return k.Member }),
	text("SECRET", func(k ui.Key) string { return k.Secret.String() }),
	text("NAMESPACE", func(k ui.Key) string { return k.Namespace }),
	text("NAME", func(k ui.Key) string { return k.Name }),
	text("WANTED", func(k ui.Key) string { return yes(k.Wanted) }),
	text("STATE", func(k ui.Key) string {
		if k.Detail != "" {
			return k.State + " (" + k.Detail + ")"
		}
		return k.State
	}),
)

var findings = kindOf("findings", "what is wrong with objects, and what to do",
	text("SEVERITY", func(f ui.Finding) string { return f.Severity }),
	text("OBJECT", func(f ui.Finding) string { return f.Object }),
	text("REASON", func(f ui.Finding) string { return f.Reason }),
	text("FIELD", func(f ui.Finding) string { return dash(f.Field) }),
	text("MESSAGE", func(f ui.Finding) string { return f.Message }),
)

var tables = kindOf("tables", "the tables that serve computes all of this with",
	text("NAME", func(t ui.Table) string { return t.Name }),
	text("KIND", func(t ui.Table) string { return t.Kind }),
	text("ROWS", func(t ui.Table) string { return strconv.Itoa(t.Rows) }),
	text("EVALUATIONS", func(t ui.Table) string { return strconv.FormatUint(t.Evaluations, 10) }),
)

// rows are those of one table, as text: for experts, and another with each version.
var rows = kindOf("rows", "the rows of one of these tables",
	text("KEY", func(r ui.Row) string { return r.Key }),
	text("VALUE", func(r ui.Row) string { return r.Value }),
)

// condition is the status of a condition, with the reason where it is not True.
func condition(all []ui.Condition, name string) string {
	for _, c := range all {
		switch {
		case c.Type != name:
		case c.Status == "True":
			return c.Status
		default:
			return c.Status + " (" + c.Reason + ")"
		}
	}
	return "Unknown"
}

func traffic(m ui.Member) string {
	switch {
	case m.Leaving:
		return "Leaving"
	case len(m.Taints) > 0:
		return "Tainted"
	case m.Drain:
		return "Drained"
	}
	return "Takes"
}

func goesTo(r ui.Route) string {
	to := r.Answer
	if to == "" {
		to = few(each(r.Backends, func(b ui.Target) string { return b.Backend }))
	}
	return strings.TrimSpace(r.PathType+" "+r.Path) + " → " + to
}

// now is who gets requests: the members of the first tier that has some, by share.
func now(p ui.Plan) string {
	tier, total, weights, order := firstTier(p), uint64(0), map[string]uint64{}, []string(nil)
	for _, s := range p.Shares {
		if s.State != serving || s.Tier != tier {
			continue
		}
		if weights[s.Member] == 0 {
			order = append(order, s.Member)
		}
		weights[s.Member] += uint64(s.Weight)
		total += uint64(s.Weight)
	}
	return few(each(order, func(m string) string { return fmt.Sprintf("%s %d%%", m, (100*weights[m]+total/2)/total) }))
}

const serving = "Serving" // steer.State

func firstTier(p ui.Plan) int {
	for _, s := range p.Shares { // those that serve are first, by tier
		if s.State == serving {
			return s.Tier
		}
	}
	return -1
}

// later is who gets them after those.
func later(p ui.Plan) string {
	var out []string
	for _, s := range p.Shares {
		if s.State == serving && s.Tier != firstTier(p) && !slices.Contains(out, s.Member) {
			out = append(out, s.Member)
		}
	}
	return few(out)
}

// out is who gets none, and why.
func out(p ui.Plan) string {
	var out []string
	for _, s := range p.Shares {
		if text := s.Member + " " + s.State; s.State != serving && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return few(out)
}

// mostNamed is how many of many are shown: -o json has all.
const mostNamed = 4

func few(names []string) string {
	if len(names) > mostNamed {
		return joined(names[:mostNamed]) + fmt.Sprintf(", … (%d)", len(names))
	}
	return joined(names)
}

func joined(names []string) string { return dash(strings.Join(names, ", ")) }

func dash(s string) string { return cmp.Or(s, "-") }

func yes(b bool) string { return map[bool]string{true: "Yes", false: "No"}[b] }

func port(n uint16) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(int(n))
}

func counted(known bool, n int) string {
	if !known {
		return "-"
	}
	return strconv.Itoa(n)
}

// since is how long ago something was, as kubectl writes it.
func since(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	return duration.HumanDuration(max(now.Sub(*t), 0))
}

// until is in how long something will be.
func until(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	if !t.After(now) {
		return "expired"
	}
	return duration.HumanDuration(t.Sub(now))
}

func each[A, B any](all []A, f func(A) B) []B {
	out := make([]B, len(all))
	for i, a := range all {
		out[i] = f(a)
	}
	return out
}
