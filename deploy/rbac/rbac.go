// Package rbac holds the roles that `spillway serve` needs, as users apply them.
package rbac

import _ "embed"

// Hub is hub.yaml: namespace, account, roles and bindings of serve on the hub.
//
//go:embed hub.yaml
var Hub []byte

// Member is member.yaml: the same in a member.
//
//go:embed member.yaml
var Member []byte

// MemberLeaves is member-leaves.yaml: what serve needs in a member beside, to write
// leaves there.
//
//go:embed member-leaves.yaml
var MemberLeaves []byte

// MemberKeys is member-keys.yaml: what serve needs in a member beside these, to give it
// keys of certificates.
//
//go:embed member-keys.yaml
var MemberKeys []byte
