package model

import "fmt"

// OpenShiftRoute is the kind of Routes of OpenShift (group route.openshift.io).
const OpenShiftRoute = "Route"

// AdmitSpec is what the status of a Route says of it, beside what becomes of it.
type AdmitSpec struct {
	Host      string  // as it is written, or of the wildcard that is exposed
	Subdomain bool    // wildcardPolicy
	Canonical string  // name of ours that the status has now; empty: it has none
	Refused   Refusal // why it is not admitted whatever else there is
}

// String is what it says, not where it is.
func (a *AdmitSpec) String() string {
	if a == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%+v", *a)
}

// Admission is our entry of the status of a Route, without its time.
type Admission struct {
	Host      string
	Subdomain bool
	Canonical string // name of edges; empty: there is none, or several
	Admitted  bool
	Reason    string
	Message   string
}

// Text is all of it, to be compared.
func (a Admission) Text() string { return fmt.Sprintf("%+q", fmt.Sprint(a)) }

// InlineCertificate names the certificate that a Route has in itself, among those of
// Secrets. No Secret has a capital letter in its name.
func InlineCertificate(route Object) SecretID {
	return SecretID{Workspace: route.Workspace, Namespace: route.Namespace, Name: inline + route.Name}
}

const inline = OpenShiftRoute + "."
