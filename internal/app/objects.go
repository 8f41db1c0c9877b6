package app

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
	"github.com/spillway-dev/spillway/internal/ui"
	"github.com/spillway-dev/spillway/internal/xds"
)

// objects are the kinds that the admin listener shows.
func (s *server) objects() map[string]ui.List {
	return map[string]ui.List{
		"members": s.membersShown, "edges": s.edgesShown, "fronts": s.frontsShown, "hosts": s.hostsShown,
		"plans": s.plansShown, "streams": s.streamsShown, "keys": s.keysShown, "findings": s.findingsShown,
	}
}

// page makes objects of rows.
func page[R, O any](rows []R, more bool, name func(R) string, object func(i int, row R) O) ui.Page {
	out := make([]O, len(rows))
	for i, row := range rows {
		out[i] = object(i, row)
	}
	p := ui.Page{Items: out}
	if more {
		p.Next = name(rows[len(rows)-1])
	}
	return p
}

func nameOf[K, V any](row picked[K, V]) string { return row.name }

func (s *server) membersShown(ctx context.Context, q ui.Query) (ui.Page, error) {
	rows, more, err := pick(ctx, s.loop, s.prog.In.Members, q, func(m model.Member) string { return string(m) })
	if err != nil {
		return ui.Page{}, err
	}
	type side struct {
		status leaf.MemberStatus
		count  leaf.Count
	}
	sides := make([]side, len(rows))
	err = beside(ctx, s.loop, rows, 2, func(i int, row picked[model.Member, model.MemberSpec]) {
		sides[i].status, _ = s.leaf.Members.Get(nil, row.key)
		sides[i].count = s.leaf.Counts.Of(row.key)
	})
	if err != nil {
		return ui.Page{}, err
	}
	paths := map[model.Member][]ui.Path{}
	for _, row := range rows {
		paths[row.key] = []ui.Path{}
	}
	err = walk(ctx, s.loop, s.prog.Paths, func(p model.Path, h fleet.PathHealth) {
		if list, ok := paths[p.Member]; ok {
			paths[p.Member] = append(list, ui.Path{From: placeShown(p.From), Health: h.Health.String(), Proxies: h.Proxies})
		}
	})
	return page(rows, more, nameOf, func(i int, row picked[model.Member, model.MemberSpec]) ui.Member {
		status, count := sides[i].status, sides[i].count
		slices.SortFunc(paths[row.key], func(a, b ui.Path) int { return strings.Compare(a.From.String(), b.From.String()) })
		return ui.Member{
			Name: string(row.key), Created: unix(row.val.Created), Place: placeShown(row.val.Place), Networks: filled(row.val.Networks), PodRanges: texts(row.val.PodRanges),
			Taints: filled(row.val.Taints), Drain: row.val.Drain, Leaving: row.val.Leaving, Read: status.Read, Services: count.Services, Endpoints: count.Endpoints,
			StaleSince: since(status.StaleSince), CredentialExpiry: since(status.CredentialExpiry), Paths: paths[row.key], Conditions: conditionsShown(status.Conditions),
		}
	}), err
}

func (s *server) edgesShown(ctx context.Context, q ui.Query) (ui.Page, error) {
	rows, more, err := pick(ctx, s.loop, s.prog.In.Edges, q, func(e model.Edge) string { return string(e) })
	if err != nil {
		return ui.Page{}, err
	}
	type side struct {
		status  leaf.EdgeStatus
		streams model.Streams
		view    fleet.View
		ports   fleet.Ports
	}
	sides := make([]side, len(rows))
	err = beside(ctx, s.loop, rows, 4, func(i int, row picked[model.Edge, model.EdgeSpec]) {
		at := &sides[i]
		at.status, _ = s.leaf.Edges.Get(nil, row.key)
		at.streams, _ = s.prog.In.Streams.Get(nil, row.key)
		at.view, _ = s.prog.Views.Get(nil, row.key)
		at.ports, _ = s.prog.Ports.Get(nil, fleet.SetOf(at.view.Key))
	})
	return page(rows, more, nameOf, func(i int, row picked[model.Edge, model.EdgeSpec]) ui.Edge {
		at := sides[i]
		out := ui.Edge{
			Name: string(row.key), Place: placeShown(row.val.Place), Networks: filled(row.val.Networks), Addresses: filled(row.val.PublicAddresses()), Drain: row.val.Drain,
			Fronts: filled(names(at.view.Classes)), Ports: []ui.Port{}, Proxies: at.streams.Connected, Synced: at.streams.Synced, Conditions: conditionsShown(at.status.Conditions),
		}
		for _, p := range at.ports.List {
			out.Ports = append(out.Ports, ui.Port{Number: p.Number, TLS: p.TLS, Relay: relayed[p.Traffic], Fronts: names(p.Classes)})
		}
		return out
	}), err
}

func (s *server) frontsShown(ctx context.Context, q ui.Query) (ui.Page, error) {
	type front = picked[model.Class, fleet.ClassInfo]
	rows, more, err := pick(ctx, s.loop, s.prog.ClassInfo, q, func(c model.Class) string { return string(c) })
	if err != nil {
		return ui.Page{}, err
	}
	type seat struct {
		front int // of rows
		edge  model.Edge
	}
	var seats []seat
	edges := make([][]ui.FrontEdge, len(rows))
	for i, row := range rows {
		edges[i] = []ui.FrontEdge{}
		for _, e := range row.val.Edges {
			seats = append(seats, seat{i, e})
		}
	}
	const perBinding = 4 // rows that it reads
	err = beside(ctx, s.loop, seats, perBinding, func(_ int, at seat) {
		b, ok := s.prog.Binding(nil, rows[at.front].key, at.edge)
		edges[at.front] = append(edges[at.front], ui.FrontEdge{Name: string(at.edge), Served: ok, Addresses: texts(b.Lease.Addresses())})
	})
	return page(rows, more, nameOf, func(i int, row front) ui.Front {
		spec, config := row.val.Spec, row.val.Config
		return ui.Front{
			Name: string(row.key), Object: objectShown(spec.Origin.Object), Created: unix(spec.Origin.Created), Default: spec.Default, Config: string(spec.Config),
			HTTPPort: config.HTTPPort, HTTPSPort: config.HTTPSPort, OnDemand: config.OnDemand, OwnAddresses: config.Own, Edges: edges[i],
		}
	}), err
}

func (s *server) hostsShown(ctx context.Context, q ui.Query) (ui.Page, error) {
	type host = picked[model.HostKey, fleet.Host]
	rows, more, err := pick(ctx, s.loop, s.prog.Hosts, q, func(k model.HostKey) string { return string(k.Host) + " " + string(k.Class) })
	if err != nil {
		return ui.Page{}, err
	}
	acks := make([]model.EdgeSet, len(rows))
	if err = beside(ctx, s.loop, rows, 1, func(i int, row host) { acks[i], _ = s.prog.In.Acks.Get(nil, row.key) }); err != nil {
		return ui.Page{}, err
	}
	members, err := s.sitesShown(ctx, rows)
	if err != nil {
		return ui.Page{}, err
	}
	return page(rows, more, nameOf, func(i int, row host) ui.Host {
		out := ui.Host{Host: row.key.Host.Written(), Front: string(row.key.Class), Objects: []ui.Object{}, Edges: filled(names(acks[i].Edges())), Routes: []ui.Route{}, Members: members[i]}
		for _, o := range row.val.Roots {
			out.Objects = append(out.Objects, objectShown(o))
		}
		for _, r := range row.val.Routes {
			out.Routes = append(out.Routes, routeShown(pathTypes[r.Match.Kind], r.Match, r.Target))
		}
		if row.val.Default != nil {
			out.Routes = append(out.Routes, routeShown("Default", model.Match{}, *row.val.Default))
		}
		return out
	}), nil
}

// relayed are the protocols of ports on which nothing is asked.
var relayed = [...]string{model.Requests: "", model.Connections: "TCP", model.Datagrams: "UDP"}

var pathTypes = map[model.PathKind]string{model.PathExact: "Exact", model.PathPrefix: "Prefix", model.PathRegex: "Regex", model.PathLate: "Regex"}

func routeShown(pathType string, m model.Match, to fleet.Target) ui.Route {
	out := ui.Route{PathType: pathType, Path: m.Path, When: m.When.String(), Object: objectShown(to.Root), Rule: to.Rule, Backends: []ui.Target{}}
	for _, b := range to.Backends {
		out.Backends = append(out.Backends, ui.Target{Backend: b.Backend.String(), Weight: b.Weight})
	}
	if to.Reply != nil {
		out.Answer = to.Reply.String()
	}
	return out
}

func (s *server) plansShown(ctx context.Context, q ui.Query) (ui.Page, error) {
	rows, more, err := pick(ctx, s.loop, s.prog.Plans, q, func(k fleet.UseID) string { return k.Backend.String() + " " + k.Vantage.String() })
	return page(rows, more, nameOf, func(_ int, row picked[fleet.UseID, steer.Plan]) ui.Plan {
		at := row.key.Vantage.Key()
		out := ui.Plan{Backend: row.key.Backend.String(), From: placeShown(at.Place), Networks: []string{}, Room: row.val.Room.String(), Unsure: row.val.Unsure, Shares: []ui.Share{}}
		if at.Networks != "" {
			out.Networks = strings.Split(at.Networks, ",")
		}
		for _, share := range row.val.Shares {
			out.Shares = append(out.Shares, ui.Share{Member: string(share.Member), Place: placeShown(share.Place.Place()), Tier: share.Tier,
				Weight: share.Weight, State: share.State.String(), Terminating: share.Terminating})
		}
		return out
	}), err
}

// streamsShown asks the streams themselves: no table has them.
func (s *server) streamsShown(_ context.Context, q ui.Query) (ui.Page, error) {
	name := func(st xds.StreamStatus) string { return fmt.Sprintf("%s %s %020d", st.Edge, st.Node, st.Stream) }
	best := least[xds.StreamStatus]{most: q.Limit, name: name}
	for _, st := range s.xds.Streams() {
		if q.Wants(name(st)) {
			best.add(st)
		}
	}
	rows, more := best.sorted()
	return page(rows, more, name, func(_ int, st xds.StreamStatus) xds.StreamStatus {
		st.Types = filled(st.Types)
		return st
	}), nil
}

// keysShown lists which members hold keys, or may.
func (s *server) keysShown(ctx context.Context, q ui.Query) (ui.Page, error) {
	rows, more, err := pick(ctx, s.loop, s.prog.In.HeldKeys, q, func(k model.HeldKey) string { return string(k.Member) + " " + k.Secret.String() + " " + k.Name })
	if err != nil {
		return ui.Page{}, err
	}
	wanted := make([]bool, len(rows))
	err = beside(ctx, s.loop, rows, 1, func(i int, row picked[model.HeldKey, model.KeyState]) {
		_, wanted[i] = s.leaf.Keys.Get(nil, row.key)
	})
	return page(rows, more, nameOf, func(i int, row picked[model.HeldKey, model.KeyState]) ui.Key {
		k := row.key
		return ui.Key{
			Member: string(k.Member), Secret: ui.Object{Kind: "Secret", Workspace: k.Secret.Workspace, Namespace: k.Secret.Namespace, Name: k.Secret.Name},
			Namespace: k.Namespace(), Name: k.Name, Wanted: wanted[i], There: row.val.There, State: row.val.Reason, Detail: row.val.Detail,
		}
	}), err
}

// findingsShown lists the findings of objects: those of one object are never split.
func (s *server) findingsShown(ctx context.Context, q ui.Query) (ui.Page, error) {
	rows, more, err := pick(ctx, s.loop, s.leaf.Findings, q, model.Object.String)
	out := []ui.Finding{}
	for i, row := range rows {
		if i > 0 && len(out)+len(row.val) > q.Limit {
			rows, more = rows[:i], true
			break
		}
		for _, f := range row.val {
			out = append(out, ui.Finding{Severity: f.Severity.String(), Object: f.Object.String(), Ref: objectShown(f.Object), Field: string(f.Field), Reason: string(f.Reason), Message: f.Message})
		}
	}
	p := ui.Page{Items: out}
	if more {
		p.Next = rows[len(rows)-1].name
	}
	return p, err
}

func objectShown(o model.Object) ui.Object {
	return ui.Object{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Workspace: o.Workspace, Member: string(o.Member)}
}

func placeShown(p model.Place) ui.Place {
	out := ui.Place{Region: p.Region, Zone: p.Zone, SubZone: p.SubZone, Provider: p.Provider}
	if p.Located {
		out.Latitude, out.Longitude = &p.Latitude, &p.Longitude
	}
	return out
}

func conditionsShown(all leaf.Conditions) []ui.Condition {
	out := make([]ui.Condition, len(all))
	for i, c := range all {
		out[i] = ui.Condition{Type: c.Type, Status: c.Status.String(), Reason: c.Reason, Message: c.Message}
	}
	return out
}

// filled is never nil: a list without elements is [], not null.
func filled[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

func names[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, n := range all {
		out[i] = string(n)
	}
	return out
}

func texts[T netip.Addr | netip.Prefix](all []T) []string {
	var out []string
	for _, a := range all {
		out = append(out, fmt.Sprint(a))
	}
	return out
}

func unix(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

// since is nil for 0, which says that there is no such time.
func since(seconds int64) *time.Time {
	if seconds == 0 {
		return nil
	}
	t := unix(seconds)
	return &t
}
