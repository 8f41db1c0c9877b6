package model

import "net/netip"

// Range is a part of the address space that no pod is in, and what it is for.
type Range struct {
	Prefix netip.Prefix
	Use    string
}

// NotPods are the ranges that never lead to a pod: an edge that dials one
// reaches itself, or what its own machine or link keeps for those on it, such
// as a cloud's metadata service (RFC 6890). Class E is not among them, since
// some clouds give it to pods, but for the broadcast address.
//
// Three metadata services are at addresses that no RFC reserves: that of AWS
// over IPv6 (EC2 User Guide, "Use the Instance Metadata Service"), Alibaba
// Cloud's (ECS, "Instance metadata") and Azure's wire server ("What is IP
// address 168.63.129.16?"). Each is refused alone, since pods may be beside it.
var NotPods = []Range{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("100.100.100.200/32"), "cloud metadata"}, // Alibaba Cloud
	{netip.MustParsePrefix("168.63.129.16/32"), "cloud metadata"},   // Azure
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("255.255.255.255/32"), "broadcast"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "IPv4-mapped"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "cloud metadata"}, // AWS
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// NotPod says what an address is for that can't be a pod's; empty: it can be.
func NotPod(ip netip.Addr) string {
	for _, r := range NotPods {
		if r.Prefix.Contains(ip) {
			return r.Use
		}
	}
	return ""
}
