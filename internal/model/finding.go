package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Finding is what is wrong with an object, told to its owner. The object's
// broken part is left out; the rest of it is served. A Collector makes them, or
// ErrorOf and WarningOf: nothing else does.
type Finding struct {
	Object   Object
	Severity Severity
	Field    Field
	Reason   Reason
	Message  string // what is wrong and what to do, without times or counters
}

// Field is the path of a field, for example
// spec.rules[0].http.paths[1].backend.service.name. Empty: the whole object.
type Field string

// Index is the path of an element of a list.
func (f Field) Index(i int) Field { return f + Field("["+strconv.Itoa(i)+"]") }

// Compare orders paths as the object is written: rules[2] before rules[10].
func (f Field) Compare(g Field) int {
	a, b := string(f), string(g)
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == 0 || y == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		if c := cmp.Or(cmp.Compare(x, y), strings.Compare(a[:x], b[:y])); c != 0 {
			return c
		}
		a, b = a[x:], b[y:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many a text begins with.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

// Severity says what a finding means for its object. The zero value is none:
// whoever makes a finding chooses.
type Severity uint8

// Severities.
const (
	Error   Severity = iota + 1 // a part of the object is not done
	Warning                     // all of it is done, but somebody should look
)

// String is the name that users see.
func (s Severity) String() string {
	switch s {
	case Error:
		return "Error"
	case Warning:
		return "Warning"
	}
	return "Severity(" + strconv.Itoa(int(s)) + ")"
}

// Reason is a documented contract: it appears in events and conditions.
type Reason string

// Reasons of findings.
const (
	ReasonInvalid             Reason = "Invalid"             // a field has a value that no standard allows
	ReasonUnsupported         Reason = "NotSupported"        // the field is fine, Spillway does not do it (yet)
	ReasonConflict            Reason = "Conflict"            // an older object has this already
	ReasonConfigNotFound      Reason = "ConfigNotFound"      // the class points at a GatewayClassConfig that is not there
	ReasonNoEdges             Reason = "NoEdges"             // the class has no edge to serve it
	ReasonNoAddress           Reason = "AddressNotAssigned"  // no address is left for a class that wants one for itself (Gateway API's word)
	ReasonServiceNotFound     Reason = "ServiceNotFound"     // no member has the Service
	ReasonNoMembers           Reason = "NoMembers"           // a Placement leaves none of the members that have the Service
	ReasonMemberNotFound      Reason = "MemberNotFound"      // a Placement names a MemberCluster that is not there
	ReasonPortNotFound        Reason = "PortNotFound"        // a member's Service lacks the port
	ReasonProtocolConflict    Reason = "ProtocolConflict"    // members disagree about the protocol of a port
	ReasonExternalNameRefused Reason = "ExternalNameRefused" // an ExternalName Service, and the class does not allow it
	ReasonEndpointRefused     Reason = "EndpointRefused"     // an endpoint is an edge, or outside the ranges of its member's pods
	ReasonSecretNotFound      Reason = "SecretNotFound"      // the TLS Secret is not there
	ReasonSecretInvalid       Reason = "SecretInvalid"       // the TLS Secret does not hold a usable certificate and key
	ReasonCertificateExpired  Reason = "CertificateExpired"  // the certificate's time is over
	ReasonCertificateMismatch Reason = "CertificateMismatch" // the certificate does not cover the host
	ReasonNoCertificate       Reason = "NoCertificate"       // TLS ends at edges for the host, and they have no certificate to present
	ReasonNamespaceRefused    Reason = "NamespaceRefused"    // the DNSZone of a host does not allow the object's namespace
	ReasonHostShared          Reason = "HostShared"          // objects of other namespaces have rules for the host, too, or for hosts below a wildcard
	ReasonNoRule              Reason = "NoRule"              // a certificate for a host that the object has no rule for
	ReasonManyCertificates    Reason = "ManyCertificates"    // so many that a change of one is costly; all are served
	ReasonRejected            Reason = "Rejected"            // a proxy refused what was made of this object
	ReasonOldProxy            Reason = "OldProxy"            // an Edge's proxy is older than what is rendered for it
	ReasonInternal            Reason = "InternalError"       // a bug of ours, limited to this object
	ReasonLastSite            Reason = "LastSite"            // a member can't leave: hostnames are served nowhere else
	ReasonHubChanged          Reason = "HubChanged"          // the hub is another one than before, or was set back: nothing is deleted
	ReasonUnsafeKubeconfig    Reason = "UnsafeKubeconfig"    // a kubeconfig that would run a program or read a file, or whose way others can read
	ReasonInvalidKubeconfig   Reason = "InvalidKubeconfig"   // a kubeconfig that can't be read
	ReasonUnauthorized        Reason = "Unauthorized"        // a member's API refuses our credentials
	ReasonFailing             Reason = "Failing"             // a member's API answers, and not as it should
	ReasonTooManyObjects      Reason = "TooManyObjects"      // a member has more than is read of one
	ReasonLeafRefused         Reason = "LeafRefused"         // a member says no to a leaf
	ReasonLeafForeign         Reason = "LeafForeign"         // a member has an object of the name that is not ours
	ReasonLeafContested       Reason = "LeafContested"       // somebody keeps changing a leaf
	ReasonLeafAltered         Reason = "LeafAltered"         // a member does not take a leaf as it is
	ReasonLeafHostClaimed     Reason = "LeafHostClaimed"     // an object in a member that is not ours asks for a host of a leaf
	ReasonLeafAddressRefused  Reason = "LeafAddressRefused"  // a leaf's status names an address that is not declared
	ReasonLeavesLeft          Reason = "LeavesLeft"          // leaves are in a member that leaves, or left
	ReasonAnotherCluster      Reason = "AnotherCluster"      // not the cluster whose leaves a tombstone is about
	ReasonAnotherHub          Reason = "AnotherHub"          // a tombstone is about leaves of another hub
	ReasonKeyNotDistributed   Reason = "KeyNotDistributed"   // a Secret does not say that a member may have its key
	ReasonKeyRefused          Reason = "KeyRefused"          // a member does not take a key that a leaf needs
	ReasonKeysLeft            Reason = "KeysLeft"            // a member has keys that it should not have any more
	ReasonLeavesWait          Reason = "LeavesWait"          // many leaves of a member should go, and somebody must consent
	ReasonRolloutStopped      Reason = "RolloutStopped"      // an edit of a root goes to no further wave of members
	ReasonGlobalForeign       Reason = "GlobalForeign"       // a GlobalIngress of the name is not ours
	ReasonGlobalHeld          Reason = "GlobalHeld"          // a GlobalIngress should be gone, and finalizers hold it
)

// Compare orders findings by object, field, reason, message and severity.
func (a Finding) Compare(b Finding) int {
	return cmp.Or(a.Object.Compare(b.Object), a.Field.Compare(b.Field), cmp.Compare(a.Reason, b.Reason),
		strings.Compare(a.Message, b.Message), cmp.Compare(a.Severity, b.Severity))
}

// Text is what the finding says, and of which field.
func (a Finding) Text() string {
	if a.Field == "" {
		return a.Message
	}
	return string(a.Field) + ": " + a.Message
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

// Objects are those that they are about.
func (a Findings) Objects() []Object {
	out := make([]Object, len(a))
	for i, f := range a {
		out[i] = f.Object
	}
	return out
}

// Errors are those that say that a part of the object is not done.
func (a Findings) Errors() Findings {
	return slices.DeleteFunc(slices.Clone(a), func(f Finding) bool { return f.Severity == Warning })
}

// Text is what the findings say, one after the other.
func (a Findings) Text() string {
	out := make([]string, len(a))
	for i, f := range a {
		out[i] = f.Text()
	}
	return strings.Join(out, "; ")
}

// Complete makes errors of findings without a severity: checkpoints of versions
// that had none hold such.
func (a Findings) Complete() {
	for i := range a {
		a[i].Severity = cmp.Or(a[i].Severity, Error)
	}
}

// ErrorOf is the finding that a part of an object is not done.
func ErrorOf(o Object, field Field, reason Reason, format string, args ...any) Finding {
	return Finding{o, Error, field, reason, fmt.Sprintf(format, args...)}
}

// WarningOf is the finding that an object needs a look, though all of it is done.
func WarningOf(o Object, field Field, reason Reason, format string, args ...any) Finding {
	return Finding{o, Warning, field, reason, fmt.Sprintf(format, args...)}
}

// MostNamed is how many of many a message names.
const MostNamed = 3

// Few joins the first of some names, for a message that is not to grow with them.
func Few(names []string) string {
	if len(names) > MostNamed {
		names = append(slices.Clone(names[:MostNamed]), "…")
	}
	return strings.Join(names, ", ")
}

// Collector collects the findings of one object.
type Collector struct {
	Object Object
	Once   bool // what is said again with the same words is kept at its first field

	list Findings
	said map[saying]bool
}

// saying is a finding without its field.
type saying struct {
	reason  Reason
	message string
}

// Error adds that a part of the object is not done.
func (c *Collector) Error(field Field, reason Reason, format string, args ...any) {
	c.add(ErrorOf(c.Object, field, reason, format, args...))
}

// Warning adds that all of the object is done, but somebody should look.
func (c *Collector) Warning(field Field, reason Reason, format string, args ...any) {
	c.add(WarningOf(c.Object, field, reason, format, args...))
}

func (c *Collector) add(f Finding) {
	if key := (saying{f.Reason, f.Message}); c.Once {
		if c.said[key] {
			return
		}
		if c.said == nil {
			c.said = map[saying]bool{}
		}
		c.said[key] = true
	}
	c.list = append(c.list, f)
}

// Take adds those of some findings that are about the object.
func (c *Collector) Take(all Findings) {
	for _, f := range all {
		if f.Object == c.Object {
			c.add(f)
		}
	}
}

// Add adds a finding of either severity.
func (c *Collector) Add(s Severity, field Field, reason Reason, format string, args ...any) {
	c.add(Finding{c.Object, s, field, reason, fmt.Sprintf(format, args...)})
}

// Findings are what was collected, sorted; nil if nothing was.
func (c *Collector) Findings() Findings {
	if len(c.list) == 0 {
		return nil
	}
	return c.list.Sorted()
}

// Row is the row of a table of findings: none, if there is nothing to say.
func (c *Collector) Row() (Findings, bool) { return c.Findings(), len(c.list) > 0 }
