package model

import (
	"cmp"
	"slices"
	"strings"
)

// Finding is what is wrong with an object, told to its owner. The object's
// broken part is left out; the rest of it is served.
type Finding struct {
	Object  Object
	Field   string // path of the field, for example spec.rules[0].http.paths[1].backend.service.name
	Reason  string // one of the documented constants below
	Message string // what is wrong and what to do, without times or counters
}

// Reasons of findings, a documented contract: they appear in events and conditions.
const (
	ReasonInvalid             = "Invalid"             // a field has a value that no standard allows
	ReasonUnsupported         = "NotSupported"        // the field is fine, Spillway does not do it (yet)
	ReasonConflict            = "Conflict"            // an older object has this already
	ReasonConfigNotFound      = "ConfigNotFound"      // the class points at a GatewayClassConfig that is not there
	ReasonNoEdges             = "NoEdges"             // the class has no edge to serve it
	ReasonServiceNotFound     = "ServiceNotFound"     // no member has the Service
	ReasonPortNotFound        = "PortNotFound"        // a member's Service lacks the port
	ReasonProtocolConflict    = "ProtocolConflict"    // members disagree about the protocol of a port
	ReasonExternalNameRefused = "ExternalNameRefused" // an ExternalName Service, and the class does not allow it
	ReasonSecretNotFound      = "SecretNotFound"      // the TLS Secret is not there
	ReasonSecretInvalid       = "SecretInvalid"       // the TLS Secret does not hold a usable certificate and key
	ReasonCertificateMismatch = "CertificateMismatch" // the certificate does not cover the host
	ReasonManyCertificates    = "ManyCertificates"    // so many that a change of one is costly; all are served
	ReasonRejected            = "Rejected"            // a proxy refused what was made of this object
	ReasonInternal            = "InternalError"       // a bug of ours, limited to this object
	ReasonLastSite            = "LastSite"            // a member can't leave: hostnames are served nowhere else
	ReasonHubChanged          = "HubChanged"          // the hub is another one than before, or was set back: nothing is deleted
	ReasonUnsafeKubeconfig    = "UnsafeKubeconfig"    // a kubeconfig that would run a program or read a file
)

// Compare orders findings by object, field, reason and message.
func (a Finding) Compare(b Finding) int {
	return cmp.Or(a.Object.Compare(b.Object), strings.Compare(a.Field, b.Field),
		strings.Compare(a.Reason, b.Reason), strings.Compare(a.Message, b.Message))
}

// Findings is a sorted list without duplicates.
type Findings []Finding

// Equal reports whether both lists hold the same findings.
func (a Findings) Equal(b Findings) bool { return slices.Equal(a, b) }

// Sorted returns the findings in order, each once.
func (a Findings) Sorted() Findings {
	out := slices.Clone(a)
	slices.SortFunc(out, Finding.Compare)
	return slices.Compact(out)
}
