package zone

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/model"
)

func TestParsePlaces(t *testing.T) {
	table, err := ParsePlaces(`
# where our offices are
192.0.2.0/24    eu  eu-a  50.11 8.68  # Frankfurt
198.51.100.7    us
2001:db8::/32   -   -     -33.9 151.2
203.0.113.0/24  ap  ap-a
`)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]model.Place{
		"192.0.2.9":    {Region: "eu", Zone: "eu-a", Latitude: 50.11, Longitude: 8.68, Located: true},
		"198.51.100.7": {Region: "us"},
		"2001:db8::1":  {Latitude: -33.9, Longitude: 151.2, Located: true},
		"203.0.113.1":  {Region: "ap", Zone: "ap-a"},
	} {
		if got, _, ok := table.Locate(netip.MustParseAddr(addr), 0); got != want || !ok {
			t.Errorf("%s: %+v %v, want %+v", addr, got, ok, want)
		}
	}
	for text, want := range map[string]string{
		"\n192.0.2.1/24 eu":              `line 2: "192.0.2.1/24" is not a network`,
		"::ffff:192.0.2.0/120 eu":        "is not a network",
		"example eu":                     "is not a network",
		"192.0.2.0/24":                   "line 1: 1 fields",
		"192.0.2.0/24 eu eu-a 50":        "line 1: 4 fields",
		"192.0.2.0/24 eu eu-a 91 8":      `"91" is not a number of degrees`,
		"192.0.2.0/24 eu eu-a 50 NaN":    `"NaN" is not a number of degrees`,
		"192.0.2.0/24 a\n192.0.2.0/24 b": "line 2: 192.0.2.0/24 is in line 1 already",
	} {
		if _, err := ParsePlaces(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
