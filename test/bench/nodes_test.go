package main

import (
	"slices"
	"testing"
)

// TestHolders: as many nodes hold a pool as say so.
func TestHolders(t *testing.T) {
	c := crews{pools: 100, each: 10}
	for _, nodes := range []int{1, 9, 10, 11, 25} {
		for pool := range c.pools {
			n := 0
			for node := range nodes {
				if slices.Contains(c.of(node), clusterOf(pool)) {
					n++
				}
			}
			if got := c.holders(pool, nodes); got != n {
				t.Fatalf("pool %d of %d nodes: %d, want %d", pool, nodes, got, n)
			}
		}
	}
}
