package model

import (
	"fmt"
	"net/netip"
	"testing"
)

// TestOpenAddresses: clients of all the world are sent to addresses that all the world
// reaches, where there is one.
func TestOpenAddresses(t *testing.T) {
	public, cluster := PoolEntry{}, PoolEntry{Scope: ClusterScope}
	public.Address, cluster.Address = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.96.0.7")
	for _, c := range []struct {
		has  []PoolEntry
		want string
	}{
		{nil, "[]"},
		{[]PoolEntry{public}, "[192.0.2.1]"},
		{[]PoolEntry{cluster}, "[10.96.0.7]"},
		{[]PoolEntry{cluster, public}, "[192.0.2.1]"},
	} {
		if got := fmt.Sprint(Lease{Has: c.has}.Open()); got != c.want {
			t.Errorf("of %v: %s, want %s", c.has, got, c.want)
		}
	}
}
