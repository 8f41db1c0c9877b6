package leaf

import (
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// MemberStatus is what a MemberCluster's status should say. How many Services
// and endpoints it has is in Counts: it changes too often for a row.
type MemberStatus struct {
	Generation       int64
	Conditions       Conditions // Accepted, Connected, Healthy, Synced
	Read             bool       // its objects were read: Counts of it are true, and no longer unknown
	StaleSince       int64      // Unix seconds; 0: its rows are fresh, or there are none
	CredentialExpiry int64      // Unix seconds; 0: none, or not known
}

// Equal reports whether both say the same.
func (a MemberStatus) Equal(b MemberStatus) bool {
	return a.Generation == b.Generation && slices.Equal(a.Conditions, b.Conditions) && a.Read == b.Read &&
		a.StaleSince == b.StaleSince && a.CredentialExpiry == b.CredentialExpiry
}

func (d *derivation) member(r *inc.Reader, m model.Member) (MemberStatus, bool) {
	spec, ok := d.p.In.Members.Get(r, m)
	accepted := d.accepted(r, memberObject.of(m))
	out := MemberStatus{Generation: spec.Generation, Conditions: Conditions{accepted}}
	if !ok {
		return out, accepted.Status == model.Down
	}
	if contact, ok := d.p.In.Contacts.Get(r, m); ok {
		out.CredentialExpiry = contact.Expiry
		out.Conditions = append(out.Conditions, connected(contact))
	}
	out.Conditions = append(out.Conditions, d.healthy(r, m, spec.Networks))
	if source, ok := d.p.In.Sources.Get(r, m); ok {
		out.Read, out.StaleSince = true, source.StaleSince
		out.Conditions = append(out.Conditions, synced(source))
	}
	return out, true
}

func connected(c model.Contact) Condition {
	status := model.Down
	switch c.Reason {
	case v1alpha1.ReasonConnected:
		status = model.Up
	case v1alpha1.ReasonPending:
		status = model.Unknown
	}
	return Condition{Type: v1alpha1.ConditionConnected, Status: status, Reason: c.Reason, Message: strings.Join(slices.DeleteFunc([]string{c.Message, c.Hidden}, func(s string) bool { return s == "" }), "; ")}
}

func synced(s model.Source) Condition {
	if s.StaleSince == 0 {
		return Condition{Type: v1alpha1.ConditionSynced, Status: model.Up, Reason: v1alpha1.ReasonSynced}
	}
	return Condition{Type: v1alpha1.ConditionSynced, Status: model.Down, Reason: v1alpha1.ReasonStale,
		Message: "its API is away: what was last read is used"}
}

// healthy brings together how a member is seen from the places with edges that
// dial it: one that can't reach it makes it False, one that can makes it True,
// and silence is Unknown.
func (d *derivation) healthy(r *inc.Reader, m model.Member, networks []string) Condition {
	places := map[model.Health][]string{}
	for _, v := range d.views.Get(r, model.All{}) {
		if len(v.Classes) == 0 || !fleet.Dials(v.Key.Vantage(), networks) {
			continue
		}
		from := v.Key.Place()
		path, _ := d.p.Paths.Get(r, model.Path{From: from, Member: m})
		places[path.Health] = append(places[path.Health], placeName(from))
	}
	out := Condition{Type: v1alpha1.ConditionHealthy, Reason: v1alpha1.ReasonNoEvidence, Message: "no edge that serves a class shares a network with it"}
	if len(places) > 0 {
		out.Message = sentence(places)
	}
	switch {
	case len(places[model.Down]) > 0:
		out.Status, out.Reason = model.Down, v1alpha1.ReasonPathDown
	case len(places[model.Up]) > 0:
		out.Status, out.Reason = model.Up, v1alpha1.ReasonHealthy
	}
	return out
}

// sentence says from where a member is reached and from where not.
func sentence(places map[model.Health][]string) string {
	var out []string
	for _, part := range []struct {
		health model.Health
		words  string
	}{
		{model.Down, "all canaries fail from "},
		{model.Up, "reached from "},
		{model.Unknown, "nothing reported from "},
	} {
		if names := places[part.health]; len(names) > 0 {
			slices.Sort(names)
			out = append(out, part.words+strings.Join(slices.Compact(names), ", "))
		}
	}
	return strings.Join(out, "; ")
}

// placeName is the name of a place, also of one that has none.
func placeName(p model.Place) string {
	if s := p.String(); s != "" {
		return s
	}
	return "an edge without a locality"
}
