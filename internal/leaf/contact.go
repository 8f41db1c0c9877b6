package leaf

import (
	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// contactReasons are the reasons of Connected that somebody has to do something
// about. An API that does not answer is none: it comes back, and until then what
// was read stays in use.
var contactReasons = map[string]model.Reason{
	v1alpha1.ReasonSecretNotFound:    model.ReasonSecretNotFound,
	v1alpha1.ReasonInvalidKubeconfig: model.ReasonInvalidKubeconfig,
	v1alpha1.ReasonUnsafeKubeconfig:  model.ReasonUnsafeKubeconfig,
	v1alpha1.ReasonUnauthorized:      model.ReasonUnauthorized,
	v1alpha1.ReasonFailing:           model.ReasonFailing,
	v1alpha1.ReasonTooManyObjects:    model.ReasonTooManyObjects,
}

const contactField model.Field = "spec.connection"

// declareContacts tells of members that can't be connected to, and of those that
// are connected in a way that is not safe, or that hide something.
func declareContacts(g *inc.Graph, p *fleet.Program) *inc.Table[model.Object, model.Findings] {
	broken := inc.IndexBy(p.In.Contacts, func(m model.Member, c model.Contact) []model.Object {
		if told := c.Reason == v1alpha1.ReasonConnected && c.Message+c.Hidden != ""; contactReasons[c.Reason] == "" && !told {
			return nil
		}
		return []model.Object{memberObject.of(m)}
	})
	return inc.Derive(g, "findings of contacts", func(r *inc.Reader, o model.Object) (model.Findings, bool) {
		n := model.Collector{Object: o}
		for _, c := range broken.Get(r, o) {
			if c.Reason != v1alpha1.ReasonConnected {
				n.Error(contactField, contactReasons[c.Reason], "%s", c.Message)
				continue
			}
			if c.Message != "" {
				n.Warning(contactField, model.ReasonUnsafeKubeconfig, "%s", c.Message)
			}
			if c.Hidden != "" {
				n.Warning(contactField, model.ReasonUnauthorized, "%s", c.Hidden)
			}
		}
		return n.Row()
	}, broken)
}

// isContact is whether a finding is about the way to a member, for which the
// condition is Connected and not Accepted.
func isContact(f model.Finding) bool {
	return f.Object.Kind == "MemberCluster" && f.Field == contactField && contactReasons[string(f.Reason)] != ""
}
