package ingest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spillway-dev/spillway/internal/model"
)

// maxLabel is the longest label of a DNS name (RFC 1035, 2.3.4).
const maxLabel = 63

// host reads a host name as written in a rule: lower case, exact or with one
// wildcard label in front. The error says what to do.
func host(s string) (model.Host, error) {
	h := strings.ToLower(s)
	switch {
	case h == "":
		return "", nil
	case strings.HasSuffix(h, "."):
		return "", fmt.Errorf("%q ends with a dot: leave the dot out", s)
	case strings.Contains(h, ":"):
		return "", fmt.Errorf("%q is not a DNS name: leave port and scheme out", s)
	}
	if _, err := netip.ParseAddr(h); err == nil {
		return "", fmt.Errorf("%q is an IP address: use a DNS name, or leave host out to serve every name", s)
	}
	name := h
	if rest, wild := strings.CutPrefix(h, "*."); wild {
		name = rest
	}
	if strings.Contains(name, "*") {
		return "", fmt.Errorf("%q: * may only stand for the whole first label, as in *.shop.example", s)
	}
	if err := dnsName(name); err != nil {
		return "", fmt.Errorf("%q is not a DNS name: %w", s, err)
	}
	return model.Host(h), nil
}

// dnsName checks a DNS name in lower case, without a dot at its end.
func dnsName(s string) error {
	if problems := validation.IsDNS1123Subdomain(s); len(problems) > 0 {
		return fmt.Errorf("%s", because(problems))
	}
	if slices.ContainsFunc(strings.Split(s, "."), func(l string) bool { return len(l) > maxLabel }) {
		return fmt.Errorf("a label is longer than %d characters", maxLabel)
	}
	return nil
}
