package zone

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spillway-dev/spillway/internal/model"
)

// ParsePlaces reads a table of places, one a line:
//
//	192.0.2.0/24  eu  eu-a  50.11 8.68   # network, region, zone, latitude, longitude
//
// "-" is no region or no zone; zone and coordinates may be left out. An address
// without a length is a network of one. Errors name the line.
func ParsePlaces(text string) (*Places, error) {
	var entries []PlaceEntry
	lines := map[netip.Prefix]int{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		e, err := parsePlace(fields)
		if err != nil {
			return nil, fmt.Errorf("places: line %d: %w", number, err)
		}
		if first, twice := lines[e.Prefix]; twice {
			return nil, fmt.Errorf("places: line %d: %v is in line %d already", number, e.Prefix, first)
		}
		lines[e.Prefix] = number
		entries = append(entries, e)
	}
	return NewPlaces(entries)
}

func parsePlace(fields []string) (e PlaceEntry, err error) {
	if e.Prefix, err = parseNetwork(fields[0]); err != nil {
		return e, err
	}
	name := func(i int) string {
		if i >= len(fields) || fields[i] == "-" {
			return ""
		}
		return fields[i]
	}
	e.Place = model.Place{Region: name(1), Zone: name(2)}
	switch len(fields) {
	case 2, 3:
		return e, nil
	case 5:
	default:
		return e, fmt.Errorf("%d fields, want network, region and, if known, zone, latitude and longitude", len(fields))
	}
	if e.Place.Latitude, err = parseDegrees(fields[3], 90); err != nil {
		return e, err
	}
	e.Place.Longitude, err = parseDegrees(fields[4], 180)
	e.Place.Located = true
	return e, err
}

func parseNetwork(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p != p.Masked() || p.Addr().Is4In6() {
		return p, fmt.Errorf("%q is not a network: want for example 192.0.2.0/24", text)
	}
	return p, nil
}

func parseDegrees(text string, most float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(math.Abs(v) <= most) {
		return 0, fmt.Errorf("%q is not a number of degrees from -%g to %g", text, most, most)
	}
	return v, nil
}
