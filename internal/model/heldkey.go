package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// HeldKey names a copy of a Secret of the hub in a member. It is in the namespace that
// is the Secret's there. One Secret has several while it is renewed.
type HeldKey struct {
	Member Member
	Secret SecretID
	Name   string // in the member
	In     string `cbor:",omitempty"` // namespace there, if the member calls that of the Secret otherwise
}

// Compare orders by member, Secret and name.
func (a HeldKey) Compare(b HeldKey) int {
	return cmp.Or(a.Member.Compare(b.Member), a.Secret.Compare(b.Secret), strings.Compare(a.Name, b.Name), strings.Compare(a.In, b.In))
}

// String is the Secret, what its copy is called, and the member.
func (a HeldKey) String() string {
	s := a.Secret.String() + " as " + a.Name + " in " + string(a.Member)
	if a.In != "" {
		s += " (" + a.In + ")"
	}
	return s
}

// Namespace is where it is in the member.
func (a HeldKey) Namespace() string {
	return cmp.Or(a.In, MemberNamespace(a.Secret.Workspace, a.Secret.Namespace))
}

// What became of a copy of a Secret.
const (
	KeyPending = "Pending" // it is being made
	KeyHeld    = "Held"    // the member has it
	KeyRefused = "Refused" // the member says no
	KeyFailing = "Failing" // the member's API does not do its work
)

// KeyState is what became of a copy of a Secret. A row that is there says that the member
// may have it.
type KeyState struct {
	Reason string
	Detail string `cbor:",omitempty"` // a word of the API's, never a text of the member: that may quote the key
	There  bool   // the member has it, as far as is known
}

// Equal reports whether both say the same.
func (a KeyState) Equal(b KeyState) bool { return a == b }

// keyHash is how long the end of a copy's name is.
const keyHash = 20

// HeldName is what copies of a Secret are called in members: another name for each
// certificate, since they never change, and for each Secret of each hub. It follows from
// what everybody may know and a UID, and tells nothing of the key.
func HeldName(id SecretID, c Certificate) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(c.UID), []byte(id.Workspace), []byte(id.Namespace), []byte(id.Name), c.Chain} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write(part)
	}
	const longest = 253 // of a name of Kubernetes
	name := strings.TrimRight(id.Name[:min(len(id.Name), longest-1-keyHash)], "-.")
	return name + "-" + hex.EncodeToString(h.Sum(nil))[:keyHash]
}

// HeldHash is the end of such a name.
func HeldHash(name string) string { return name[max(0, len(name)-keyHash):] }
