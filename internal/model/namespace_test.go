package model

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// label is a name of a namespace, as Kubernetes allows it.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// TestMemberNamespaces: whatever workspaces and namespaces are called, members have a name
// for each, and one for no two.
func TestMemberNamespaces(t *testing.T) {
	for _, c := range []struct{ workspace, namespace, want string }{
		{"", "shop", "shop"},
		{"a", "shop", "a--shop"},
		{"a", strings.Repeat("n", 60), "a--" + strings.Repeat("n", 60)},
		{"a", strings.Repeat("n", 61), "a--" + strings.Repeat("n", 41) + "---"},
		{"a", "b--c", "a--b--c---"},
		{"a--b", "c", "a--b--c---"},
	} {
		if got := MemberNamespace(c.workspace, c.namespace); got != c.want && (!strings.HasSuffix(c.want, "---") || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s of %s: %s, want %s", c.namespace, c.workspace, got, c.want)
		}
	}
	part := rapid.StringMatching(`[ab](-{0,3}[ab]){0,3}|[ab]{1,62}[ab-]{0,40}[ab]`)
	rapid.Check(t, func(t *rapid.T) {
		type pair struct{ workspace, namespace string }
		names := map[string]pair{}
		for range rapid.IntRange(2, 40).Draw(t, "n") {
			p := pair{part.Draw(t, "workspace"), part.Filter(func(s string) bool { return len(s) <= 63 }).Draw(t, "namespace")}
			name := MemberNamespace(p.workspace, p.namespace)
			if !label.MatchString(name) {
				t.Fatalf("%v is called %q", p, name)
			}
			if other, there := names[name]; there && other != p {
				t.Fatalf("%v and %v are both called %q", p, other, name)
			}
			names[name] = p
		}
	})
}

// TestHeldNames: a copy has a name of its own for each certificate, Secret and hub, which
// Kubernetes takes.
func TestHeldNames(t *testing.T) {
	cert := Certificate{Chain: []byte("c"), Key: []byte("k"), UID: "u"}
	id := SecretID{Namespace: "shop", Name: "cert"}
	name := HeldName(id, cert)
	for what, other := range map[string]string{
		"another certificate": HeldName(id, Certificate{Chain: []byte("d"), UID: "u"}),
		"another hub":         HeldName(id, Certificate{Chain: []byte("c"), UID: "v"}),
		"another namespace":   HeldName(SecretID{Namespace: "shoq", Name: "cert"}, cert),
	} {
		if other == name {
			t.Errorf("%s has the same name", what)
		}
	}
	if again := HeldName(id, Certificate{Chain: []byte("c"), Key: []byte("another text of it"), UID: "u"}); again != name {
		t.Error("the name tells of the key")
	}
	subdomain := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	for _, long := range []string{"a.b", strings.Repeat("a", 253), strings.Repeat("a.", 126) + "a", strings.Repeat("a", 231) + ".-b"} {
		if n := HeldName(SecretID{Name: long}, cert); len(n) > 253 || !subdomain.MatchString(n) || !strings.HasSuffix(n, HeldHash(n)) {
			t.Errorf("%q", n)
		}
	}
}
