package leaf

import (
	"net/netip"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// AdmissionStatus is what our entry of the status of a Route of OpenShift should say.
type AdmissionStatus struct {
	Says    model.Admission
	Left    bool // none of our classes serves it: our entry goes
	Settled bool // it says so already
}

// Equal reports whether both say the same.
func (a AdmissionStatus) Equal(b AdmissionStatus) bool { return a == b }

// reasonHostTaken is that of OpenShift's router.
const reasonHostTaken = "HostAlreadyClaimed"

func (d *derivation) declareAdmissions(g *inc.Graph) {
	routes := inc.IndexBy(d.p.In.Roots, func(k model.Object, root model.Root) []model.Object {
		if root.Admit == nil {
			return nil
		}
		return []model.Object{k}
	})
	d.t.Admissions = inc.Derive(g, "leaf.Admissions", d.admission, routes)
	inc.MayWait(d.t.Admissions, d.seatsOfClass, d.heard, d.p.In.Acks)
	inc.Shared(d.t.Admissions, d.seatsOfClass, d.heard)
}

func (d *derivation) admission(r *inc.Reader, k model.Object) (AdmissionStatus, bool) {
	root, _ := d.p.In.Roots.Get(r, k)
	a, ours := d.p.Attachments.Get(r, k)
	if !ours {
		return AdmissionStatus{Left: true}, root.Ours
	}
	says := model.Admission{Host: root.Admit.Host, Subdomain: root.Admit.Subdomain, Admitted: true}
	why := root.Admit.Refused
	if why == (model.Refusal{}) {
		why = d.unadmitted(r, k, a.Classes)
	}
	if why == (model.Refusal{}) && a.Leaf {
		var known bool
		if why, known = d.unadmittedLeaf(r, k); !known {
			return AdmissionStatus{Says: says, Settled: true}, true
		}
	}
	if why != (model.Refusal{}) {
		says.Admitted, says.Reason, says.Message = false, why.Reason, why.Message
	} else if !a.Leaf {
		says.Canonical = onlyName(d.served(r, k, a, model.TextsOf([]string{root.Admit.Canonical})))
	}
	return AdmissionStatus{Says: says, Settled: root.Published == model.TextsOf([]string{says.Text()})}, true
}

// unadmitted is why a Route that is valid has no part of its host.
func (d *derivation) unadmitted(r *inc.Reader, k model.Object, classes model.Classes) model.Refusal {
	for _, id := range d.p.RulesOf.Keys(r, k) {
		for _, class := range classes.List() {
			host, ok := d.p.Hosts.Get(r, model.HostKey{Class: class, Host: id.Host})
			if slices.Contains(host.Roots, k) {
				return model.Refusal{}
			}
			if ok {
				return d.first(r, k, model.Refusal{Reason: reasonHostTaken}, model.ReasonConflict)
			}
		}
	}
	return d.first(r, k, model.Refusal{Reason: string(model.ReasonConfigNotFound)}, model.ReasonConfigNotFound)
}

// first gives a refusal the words of the first error of an object for a reason.
func (d *derivation) first(r *inc.Reader, k model.Object, out model.Refusal, reason model.Reason) model.Refusal {
	found, _ := d.t.Findings.Get(r, k)
	for _, f := range found.Errors() {
		if f.Reason == reason {
			out.Message = f.Text()
			break
		}
	}
	return out
}

// onlyName is the one that is no IP address, if there is just one.
func onlyName(addresses []string) string {
	names := slices.DeleteFunc(addresses, func(a string) bool {
		_, err := netip.ParseAddr(a)
		return err == nil
	})
	if len(names) != 1 {
		return ""
	}
	return names[0]
}
