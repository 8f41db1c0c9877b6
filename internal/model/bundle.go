package model

// Bundle is the certificates of authorities that an object holds.
type Bundle struct {
	PEM     string // certificates alone
	Problem string // why they can't be used; empty: they can
}

// Equal reports whether both are the same.
func (a Bundle) Equal(b Bundle) bool { return a == b }

// String says whether they can be used, not what they are.
func (a Bundle) String() string {
	if a.Problem != "" {
		return "unusable: " + a.Problem
	}
	return "certificates of authorities"
}

// ConfigMap names one of the hub.
func ConfigMap(workspace, namespace, name string) Object {
	return Object{Workspace: workspace, Kind: "ConfigMap", Namespace: namespace, Name: name}
}
