package ingest

import (
	"encoding/json"
	"slices"
	"strings"

	routev1 "github.com/openshift/api/route/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// Bounds of what is kept of the status of a leaf: a member may write what it likes.
const (
	mostListeners   = 64
	mostParents     = 32
	mostSaid        = 256 // bytes of a message, and of a reason
	mostOfAddresses = 64
)

// saidTypes are the types of conditions that are merged.
var saidTypes = []string{
	string(gatewayv1.GatewayConditionAccepted), string(gatewayv1.GatewayConditionProgrammed), string(gatewayv1.ListenerConditionResolvedRefs),
	string(routev1.RouteAdmitted),
}

// LeafStatus is what the status of a leaf says, given as JSON: its addresses, and the
// rest.
func LeafStatus(kind string, status []byte) (model.Texts, model.LeafSaid, error) {
	if len(status) == 0 {
		return model.Texts{}, "", nil
	}
	switch kind {
	case "Ingress":
		addresses, err := IngressAddresses(status)
		return addresses, "", err
	case model.GatewayKind:
		return gatewaySaid(status)
	case model.ListenerSetKind: // as a Gateway's, whose addresses it has
		_, said, err := gatewaySaid(status)
		return model.Texts{}, said, err
	case "BackendTLSPolicy":
		said, err := policySaid(status)
		return model.Texts{}, said, err
	case model.OpenShiftRoute:
		said, err := openShiftSaid(status)
		return model.Texts{}, said, err
	}
	said, err := routeSaid(status)
	return model.Texts{}, said, err
}

func gatewaySaid(status []byte) (model.Texts, model.LeafSaid, error) {
	var s gatewayv1.GatewayStatus
	if err := json.Unmarshal(status, &s); err != nil {
		return model.Texts{}, "", err
	}
	out := model.LeafReport{Conditions: said(s.Conditions)}
	for _, l := range s.Listeners[:min(len(s.Listeners), mostListeners)] {
		if c := said(l.Conditions); len(c) > 0 {
			out.Listeners = append(out.Listeners, model.LeafPart{Name: string(l.Name), Conditions: c})
		}
	}
	slices.SortStableFunc(out.Listeners, func(a, b model.LeafPart) int { return strings.Compare(a.Name, b.Name) })
	return gatewayAddresses(s.Addresses[:min(len(s.Addresses), mostOfAddresses)]), out.Text(), nil
}

func routeSaid(status []byte) (model.LeafSaid, error) {
	var s gatewayv1.RouteStatus
	if err := json.Unmarshal(status, &s); err != nil {
		return "", err
	}
	var out model.LeafReport
	for _, p := range s.Parents[:min(len(s.Parents), mostParents)] {
		if c := said(p.Conditions); len(c) > 0 {
			parent := Parent(p.ParentRef)
			out.Parents = append(out.Parents, model.LeafPart{Parent: &parent, Conditions: c})
		}
	}
	return out.Text(), nil
}

// policySaid: each controller says it of each ancestor; one that has an issue is heard.
func policySaid(status []byte) (model.LeafSaid, error) {
	var s gatewayv1.PolicyStatus
	if err := json.Unmarshal(status, &s); err != nil {
		return "", err
	}
	var out model.LeafReport
	for i := range s.Ancestors[:min(len(s.Ancestors), mostParents)] {
		for _, c := range said(s.Ancestors[i].Conditions) {
			at := slices.IndexFunc(out.Conditions, func(o model.LeafCondition) bool { return o.Type == c.Type })
			switch {
			case at < 0:
				out.Conditions = append(out.Conditions, c)
			case out.Conditions[at].Status != model.Down.String() && c.Status == model.Down.String():
				out.Conditions[at] = c
			}
		}
	}
	slices.SortFunc(out.Conditions, func(a, b model.LeafCondition) int { return strings.Compare(a.Type, b.Type) })
	return out.Text(), nil
}

// openShiftSaid: of several routers each says whether it admits a Route; one that does
// not is heard first.
func openShiftSaid(status []byte) (model.LeafSaid, error) {
	var s routev1.RouteStatus
	if err := json.Unmarshal(status, &s); err != nil {
		return "", err
	}
	var out model.LeafReport
	for i := range s.Ingress[:min(len(s.Ingress), mostParents)] {
		for _, c := range s.Ingress[i].Conditions {
			if c.Type != routev1.RouteAdmitted {
				continue
			}
			one := model.LeafCondition{Type: string(c.Type), Status: string(c.Status), Reason: short(c.Reason), Message: short(c.Message)}
			if len(out.Conditions) == 0 || out.Conditions[0].Status == string(metav1.ConditionTrue) && c.Status == "False" {
				out.Conditions = []model.LeafCondition{one}
			}
		}
	}
	return out.Text(), nil
}

// said are the conditions that are merged, by type.
func said(all []metav1.Condition) []model.LeafCondition {
	var out []model.LeafCondition
	for _, c := range all {
		if slices.Contains(saidTypes, c.Type) && !slices.ContainsFunc(out, func(o model.LeafCondition) bool { return o.Type == c.Type }) {
			out = append(out, model.LeafCondition{Type: c.Type, Status: string(c.Status), Reason: short(c.Reason), Message: short(c.Message)})
		}
	}
	slices.SortFunc(out, func(a, b model.LeafCondition) int { return strings.Compare(a.Type, b.Type) })
	return out
}

// short is a text that is kept of a member's words, whole characters only.
func short(s string) string {
	s = strings.ToValidUTF8(s, "")
	if len(s) <= mostSaid {
		return s
	}
	return strings.ToValidUTF8(s[:mostSaid-len("…")], "") + "…"
}
