package model

import "slices"

// The group of multi-cluster services, and its kinds (KEP-1645).
const (
	ImportGroup = "multicluster.x-k8s.io"
	ImportKind  = "ServiceImport"
	ExportKind  = "ServiceExport"
)

// ImportOf names what members export of a Service, or what a ServiceImport says of it.
func ImportOf(namespace, name string) Service {
	return ServiceKey{Kind: ImportKind, Namespace: namespace, Name: name}.Service()
}

// Export says that a member exports its Service of that name.
type Export struct {
	Created int64 // unix seconds
}

// Equal reports whether both are the same.
func (a Export) Equal(b Export) bool { return a == b }

// ImportSpec is a ServiceImport that is written on the hub.
type ImportSpec struct {
	Ports []ServicePort // sorted by number, protocol and name
}

// Equal reports whether both are the same.
func (a ImportSpec) Equal(b ImportSpec) bool { return slices.Equal(a.Ports, b.Ports) }
