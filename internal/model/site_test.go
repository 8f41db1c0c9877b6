package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestSitesHaveNamesOfTheirOwn: a site is told from its name alone, whatever a member
// calls its addresses, and it is never taken for an edge or a seat.
func TestSitesHaveNamesOfTheirOwn(t *testing.T) {
	many := []string{"192.0.2.1", "::ffff:192.0.2.1", "2001:DB8::1", "LB.example", "a,b.example", "a@b", "a!b", "a+b.example", "224.0.0.1", "0.0.0.0", "", "a..b", strings.Repeat("a", 64) + ".example"}
	site, left := SiteOf("eu-1", many)
	if got := site.String(); got != "eu-1!192.0.2.1+2001:db8::1+lb.example" {
		t.Errorf("%s", got)
	}
	if len(left) != 9 {
		t.Errorf("%d are left out: %q", len(left), left)
	}
	if back, ok := site.Edge().Site(); !ok || back != site {
		t.Errorf("%v is %v again, %v", site, back, ok)
	}
	if _, seat := site.Edge().Leased(); seat {
		t.Error("a site is a seat")
	}
	if none, ok := (SiteID{Member: "eu-1"}).Edge().Site(); !ok || none.Addresses.Len() != 0 || none.Member != "eu-1" {
		t.Errorf("%v %v", none, ok)
	}
	for _, e := range []Edge{"fra", "fra@web", "fra@shop/web/http"} {
		if _, ok := e.Site(); ok {
			t.Errorf("%s is a site", e)
		}
	}
	if set := EdgesOf(site.Edge(), "fra"); !slices.Equal(set.Edges(), []Edge{site.Edge(), "fra"}) {
		t.Errorf("%v", set)
	}
	var crowd []string
	for i := range 20 {
		crowd = append(crowd, fmt.Sprintf("192.0.2.%d", i+1), fmt.Sprintf("lb%d.example", i))
	}
	if site, left = SiteOf("eu-1", crowd); len(site.IPs()) != MaxSiteAddresses || len(site.Names()) != MaxSiteAddresses || len(left) != 24 {
		t.Errorf("%v, %d left", site, len(left))
	}
}
