package model

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"unique"
)

// Place is where something is. Locality is as in Envoy (region, zone, sub-zone).
// It is comparable: two edges with equal places see the same distances.
type Place struct {
	Provider            string
	Region              string
	Zone                string
	SubZone             string
	Latitude, Longitude float64 // degrees; meaningful only if Located
	Located             bool
}

// Compare orders places by name, then by coordinates.
func (a Place) Compare(b Place) int {
	return cmp.Or(
		strings.Compare(a.Region, b.Region), strings.Compare(a.Zone, b.Zone), strings.Compare(a.SubZone, b.SubZone),
		strings.Compare(a.Provider, b.Provider),
		cmp.Compare(a.Latitude, b.Latitude), cmp.Compare(a.Longitude, b.Longitude),
		boolCompare(a.Located, b.Located),
	)
}

// String is "eu/eu-a", with the sub-zone if there is one.
func (a Place) String() string {
	s := a.Region
	if a.Zone != "" || a.SubZone != "" {
		s += "/" + a.Zone
	}
	if a.SubZone != "" {
		s += "/" + a.SubZone
	}
	return s
}

// full is the place with all that it has.
func (p Place) full() string {
	s := p.String()
	if p.Provider != "" {
		s += " provider=" + p.Provider
	}
	if p.Located {
		s += fmt.Sprintf(" at=%v,%v", p.Latitude, p.Longitude)
	}
	return s
}

// Spot is an interned Place, 8 bytes in place of 88, for what is kept by the
// hundred thousand. The zero value is that of the zero Place.
type Spot struct{ h unique.Handle[Place] }

// Spot interns the place.
func (a Place) Spot() Spot {
	if a == (Place{}) {
		return Spot{}
	}
	return Spot{unique.Make(a)}
}

// Place is what it was made of.
func (s Spot) Place() Place {
	if s == (Spot{}) {
		return Place{}
	}
	return s.h.Value()
}

// String is that of the place.
func (s Spot) String() string { return s.Place().String() }

// earthRadius is the mean radius of the Earth in kilometres (IUGG).
const earthRadius = 6371.0088

// Kilometres is the great-circle distance between two places, by the haversine
// formula, and false if one of them has no coordinates.
func Kilometres(a, b Place) (float64, bool) {
	if !a.Located || !b.Located {
		return 0, false
	}
	rad := func(deg float64) float64 { return deg * math.Pi / 180 }
	sin2 := func(x float64) float64 { s := math.Sin(x / 2); return s * s }
	lat1, lat2 := rad(a.Latitude), rad(b.Latitude)
	h := sin2(lat2-lat1) + math.Cos(lat1)*math.Cos(lat2)*sin2(rad(b.Longitude-a.Longitude))
	return 2 * earthRadius * math.Asin(math.Sqrt(min(h, 1))), true
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
