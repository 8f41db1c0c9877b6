package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Tables are rows of this package's own, for the checkpoint: no decision
// depends on them.
type Tables struct {
	Kubeconfigs *inc.Table[model.Member, Kubeconfig] // how members were reached last
	Identities  *inc.Table[Resource, Identity]       // which hub it was, per resource
}

// Declare declares the tables.
func Declare(g *inc.Graph) *Tables {
	return &Tables{
		Kubeconfigs: inc.Input[model.Member, Kubeconfig](g, "kubeconfigs"),
		Identities:  inc.Input[Resource, Identity](g, "hub identities"),
	}
}

// Kubeconfig is how to reach a member. Its text form never shows it.
type Kubeconfig struct {
	Data    []byte
	Proxied bool // it may name a proxy

	Namespaces string // that are read, sorted, with commas; empty: all
}

// Equal reports whether both are the same.
func (a Kubeconfig) Equal(b Kubeconfig) bool {
	return a.Proxied == b.Proxied && a.Namespaces == b.Namespaces && bytes.Equal(a.Data, b.Data)
}

// String is a fingerprint.
func (a Kubeconfig) String() string {
	sum := sha256.Sum256(a.Data)
	return "kubeconfig " + hex.EncodeToString(sum[:8])
}

// GoString is String: %#v must not show it either.
func (a Kubeconfig) GoString() string { return a.String() }

// Resource names a resource of the hub by its plural.
type Resource string

// Compare orders resources by name.
func (a Resource) Compare(b Resource) int { return strings.Compare(string(a), string(b)) }

// Identity is which hub a resource was read from, and how far.
type Identity struct {
	UID      string // of the namespace kube-system; empty: not known
	Revision uint64 // highest resource version of a list; 0: not known
}

// Equal reports whether both are the same.
func (a Identity) Equal(b Identity) bool { return a == b }
