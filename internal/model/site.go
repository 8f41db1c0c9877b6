package model

import (
	"net/netip"
	"slices"
	"strings"
)

// SiteID is where leaves of a member are reached: the member, and what their statuses
// name as addresses. Hosts with the same leaves there have one site, whatever they are.
type SiteID struct {
	Member    Member
	Addresses Texts // IP addresses and host names, each once, none with an "@", "!", "+" or ","; none: nobody knows yet
}

// String is "eu-1!192.0.2.1+lb.example". No name of a member or an edge has a "!".
func (a SiteID) String() string {
	return string(a.Member) + "!" + strings.Join(a.Addresses.List(), "+")
}

// Edge is what DNS answers for it, as it answers an edge.
func (a SiteID) Edge() Edge { return Edge(a.String()) }

// Site is the site that an edge of DNS is; false: it is an edge, or a seat.
func (a Edge) Site() (SiteID, bool) {
	member, rest, ok := strings.Cut(string(a), "!")
	if !ok {
		return SiteID{}, false
	}
	out := SiteID{Member: Member(member)}
	if rest != "" {
		out.Addresses = TextsOf(strings.Split(rest, "+"))
	}
	return out, true
}

// MaxSiteAddresses is how many addresses of a kind a site has: of IPv4, of IPv6, and
// host names.
const MaxSiteAddresses = 8

// SiteOf is the site of a member whose leaf names some addresses. It has the first of each
// kind; left are those that it does not have.
func SiteOf(m Member, named []string) (site SiteID, left []string) {
	var kept []string
	count := map[string]int{}
	all := slices.Clone(named)
	for i, text := range all {
		all[i] = strings.ToLower(text)
		if ip, err := netip.ParseAddr(text); err == nil {
			all[i] = ip.Unmap().String()
		}
	}
	slices.Sort(all)
	for _, text := range slices.Compact(all) {
		kind := kindOf(text)
		if count[kind]++; kind == "" || count[kind] > MaxSiteAddresses {
			left = append(left, text)
			continue
		}
		kept = append(kept, text)
	}
	return SiteID{m, TextsOf(kept)}, left
}

// IPs and Names are the addresses of each kind.
func (a SiteID) IPs() (out []netip.Addr) {
	for _, text := range a.Addresses.List() {
		if ip, err := netip.ParseAddr(text); err == nil {
			out = append(out, ip)
		}
	}
	return out
}

// Names are the host names.
func (a SiteID) Names() (out []Host) {
	for _, text := range a.Addresses.List() {
		if kindOf(text) == hostNames {
			out = append(out, Host(text))
		}
	}
	return out
}

const hostNames = "host name"

// kindOf is what an address is; empty: none that clients can be sent to.
func kindOf(text string) string {
	ip, err := netip.ParseAddr(text)
	switch {
	case err != nil && isHostName(text):
		return hostNames
	case err != nil || ip.Zone() != "" || ip.IsMulticast() || ip.IsUnspecified():
		return ""
	case ip.Is4():
		return "IPv4"
	}
	return "IPv6"
}

// isHostName reports whether a text is a name that resolvers look up, in lower case.
func isHostName(text string) bool {
	if text == "" || len(text) > 253 {
		return false
	}
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}
