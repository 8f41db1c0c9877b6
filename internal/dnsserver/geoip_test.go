package dnsserver

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"github.com/miekg/dns"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/zone"
)

// writeDB makes a database over documentation ranges.
func writeDB(t testing.TB, path string, rows map[string]mmdbtype.DataType) {
	t.Helper()
	writeDBWith(t, path, mmdbwriter.Options{DatabaseType: "Test", IncludeReservedNetworks: true, BuildEpoch: 1}, rows)
}

func writeDBWith(t testing.TB, path string, options mmdbwriter.Options, rows map[string]mmdbtype.DataType) {
	t.Helper()
	w, err := mmdbwriter.New(options)
	if err != nil {
		t.Fatal(err)
	}
	for prefix, row := range rows {
		_, network, err := net.ParseCIDR(prefix)
		if err == nil {
			err = w.Insert(network, row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err = w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err = os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func city(country, continent string, lat, lon float64) mmdbtype.Map {
	return mmdbtype.Map{
		"country":   mmdbtype.Map{"iso_code": mmdbtype.String(country)},
		"continent": mmdbtype.Map{"code": mmdbtype.String(continent)},
		"location":  mmdbtype.Map{"latitude": mmdbtype.Float64(lat), "longitude": mmdbtype.Float64(lon)},
	}
}

func TestGeoPlaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.mmdb")
	broken := city("XX", "EU", 1, 2)
	broken["location"] = mmdbtype.Map{"latitude": mmdbtype.Float64(400), "longitude": mmdbtype.Float64(2)}
	broken["country"] = mmdbtype.String("not a map")
	writeDB(t, path, map[string]mmdbtype.DataType{
		"192.0.2.0/25":    city("DE", "EU", 50, 8),
		"198.51.100.0/24": city("US", "NA", 40, -74),
		"203.0.113.0/24":  mmdbtype.Map{"country_code": mmdbtype.String("FR"), "continent": mmdbtype.Map{"code": mmdbtype.String("EU")}},
		"198.18.0.0/16":   broken,
		"198.19.0.0/16":   mmdbtype.Map{},
		"2001:db8::/33":   city("DE", "EU", 51, 9),
	})
	g, err := OpenGeo(GeoConfig{Path: path, Places: map[string]model.Place{"US": {Region: "us"}}})
	if err != nil {
		t.Fatal(err)
	}
	flat, err := OpenGeo(GeoConfig{Path: path, Fields: GeoFields{Country: []string{"country_code"}}, Places: map[string]model.Place{"FR": {Region: "fr"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from *Geo
		addr string
		want model.Place
		bits int
		ok   bool
	}{
		{g, "192.0.2.1", model.Place{Latitude: 50, Longitude: 8, Located: true}, 25, true},
		{g, "198.51.100.7", model.Place{Region: "us", Latitude: 40, Longitude: -74, Located: true}, 24, true},
		{g, "203.0.113.1", continents["EU"], 24, true},
		{g, "198.18.1.1", continents["EU"], 16, true},
		{g, "198.19.1.1", model.Place{}, 16, false},
		{g, "192.0.2.129", model.Place{}, 25, false},
		{g, "2001:db8::1", model.Place{Latitude: 51, Longitude: 9, Located: true}, 33, true},
		{flat, "203.0.113.1", model.Place{Region: "fr"}, 24, true},
		{flat, "192.0.2.1", model.Place{}, 25, false},
	} {
		for range 2 { // from the file, then from the cache
			place, bits, ok := c.from.Locate(netip.MustParseAddr(c.addr), 0)
			if place != c.want || bits != c.bits || ok != c.ok {
				t.Errorf("%s: %+v /%d %v, want %+v /%d %v", c.addr, place, bits, ok, c.want, c.bits, c.ok)
			}
		}
	}
}

// TestGeoCacheKnowsItsRecords asks for more places than the cache has hashes.
func TestGeoCacheKnowsItsRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.mmdb")
	rows := map[string]mmdbtype.DataType{}
	const n = 10000
	for i := range n {
		rows[fmt.Sprintf("198.%d.%d.0/24", i/256, i%256)] = mmdbtype.Map{"location": mmdbtype.Map{"latitude": mmdbtype.Float64(float64(i) / 1000), "longitude": mmdbtype.Float64(0)}}
	}
	writeDB(t, path, rows)
	g, err := OpenGeo(GeoConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for i := range n {
			if p, _, ok := g.Locate(netip.AddrFrom4([4]byte{198, byte(i / 256), byte(i), 7}), 0); !ok || p.Latitude != float64(i)/1000 {
				t.Fatalf("record %d: %+v %v", i, p, ok)
			}
		}
	}
}

// TestGeoWithoutIPv4 asks a database that has nothing about IPv4 at all.
func TestGeoWithoutIPv4(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.mmdb")
	options := mmdbwriter.Options{IncludeReservedNetworks: true, DisableIPv4Aliasing: true}
	writeDBWith(t, path, options, map[string]mmdbtype.DataType{"2001:db8::/33": city("DE", "EU", 51, 9)})
	g, err := OpenGeo(GeoConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, bits, ok := g.Locate(netip.MustParseAddr("192.0.2.1"), 0); ok || bits != 0 {
		t.Errorf("/%d %v", bits, ok)
	}
}

func TestGeoOnTheWire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.mmdb")
	writeDB(t, path, map[string]mmdbtype.DataType{"192.0.2.0/25": mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String("US")}}})
	g, err := OpenGeo(GeoConfig{Path: path, Places: map[string]model.Place{"US": {Region: "r1"}}})
	if err != nil {
		t.Fatal(err)
	}
	s, addr := start(t, Config{}, world(t, 0))
	s.SetGeo(g)
	for prefix, want := range map[string]struct {
		addr  string
		scope uint8
	}{
		"192.0.2.0/24":    {"203.0.1.0", 24}, // the half that its first address is in
		"198.51.100.0/24": {"203.0.1.0", 24}, // from the table, which comes first
		"192.0.3.0/24":    {"203.0.0.0", 24},
	} {
		r := ask(t, "udp", addr, withSubnet(question("shop.g.example.", dns.TypeA), prefix))
		if got := r.Answer[0].(*dns.A).A.String(); got != want.addr || subnetOf(r).SourceScope != want.scope {
			t.Errorf("%s: %s, scope %d", prefix, got, subnetOf(r).SourceScope)
		}
	}
}

func TestGeoIsReloaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.mmdb")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var latest zone.Locator
		loads := 0
		cfg := GeoConfig{Path: path, Every: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}
		go WatchGeo(t.Context(), cfg, func(l zone.Locator) { latest, loads = l, loads+1 })
		at := time.Unix(1000, 0)
		next := func(wantLoads, wantLines int) {
			t.Helper()
			at = at.Add(time.Minute)
			os.Chtimes(path, at, at)
			for range 3 { // looked at more often than it changes
				<-time.After(time.Second) // of the fake clock
				synctest.Wait()
			}
			if lines := strings.Count(log.String(), "\n"); loads != wantLoads || lines != wantLines {
				t.Fatalf("%d loads and %d lines, want %d and %d:\n%s", loads, lines, wantLoads, wantLines, log.String())
			}
		}
		next(0, 1) // is not there
		writeDB(t, path, map[string]mmdbtype.DataType{"192.0.2.0/24": city("DE", "EU", 50, 8)})
		next(1, 2)
		os.WriteFile(path, []byte("half a file"), 0o644)
		next(1, 3)
		if _, _, ok := latest.Locate(netip.MustParseAddr("192.0.2.1"), 0); !ok {
			t.Fatal("what was loaded is gone")
		}
		writeDB(t, path, map[string]mmdbtype.DataType{"192.0.2.0/24": city("DE", "EU", 51, 8)})
		next(2, 4)
		if p, _, _ := latest.Locate(netip.MustParseAddr("192.0.2.1"), 0); p.Latitude != 51 {
			t.Fatalf("%+v", p)
		}
	})
}
