package model

import (
	"net/netip"
	"testing"
)

func TestNotPod(t *testing.T) {
	for text, want := range map[string]string{
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "127.0.0.1": "loopback", "127.8.9.10": "loopback",
		"169.254.169.254": "link-local", "224.0.0.1": "multicast", "239.255.255.255": "multicast", "255.255.255.255": "broadcast",
		"::": "unspecified", "::1": "loopback", "::ffff:127.0.0.1": "IPv4-mapped", "fe80::1": "link-local", "ff02::1": "multicast",
		"100.100.100.200": "cloud metadata", "168.63.129.16": "cloud metadata", "fd00:ec2::254": "cloud metadata",
		"100.100.100.201": "", "168.63.129.17": "", "fd00:ec2::255": "",
		"10.1.2.3": "", "100.64.0.1": "", "192.168.1.1": "", "240.1.2.3": "", "1.1.1.1": "", "fd00::1": "", "2001:db8::1": "", "64:ff9b::a01:203": "",
	} {
		if got := NotPod(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
