package dnsserver

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/zone"
)

// GeoFields says where in a record of the database a value stands: the keys
// from the outside in, as in MaxMind's "country", "iso_code". No keys: the
// database does not have it.
type GeoFields struct {
	Country, Continent  []string // a code: "DE", "EU"
	Latitude, Longitude []string // degrees
}

// MaxMindFields are the fields of the GeoIP2 and GeoLite2 databases.
var MaxMindFields = GeoFields{
	Country: []string{"country", "iso_code"}, Continent: []string{"continent", "code"},
	Latitude: []string{"location", "latitude"}, Longitude: []string{"location", "longitude"},
}

// GeoConfig is a database that a user mounts. Spillway brings none.
type GeoConfig struct {
	Path   string
	Fields GeoFields // default MaxMindFields
	// Places says where countries and continents are, by code. It comes before
	// the continents' centres that we know, and, for its region and zone, even
	// before the coordinates of the database.
	Places map[string]model.Place
	Every  time.Duration // how often to look for a new file; default 10 s
	Log    *slog.Logger  // default: none
}

// continents are rough centres, for databases without coordinates.
var continents = map[string]model.Place{
	"AF": {Latitude: 2, Longitude: 21, Located: true},
	"AN": {Latitude: -82, Longitude: 0, Located: true},
	"AS": {Latitude: 34, Longitude: 100, Located: true},
	"EU": {Latitude: 50, Longitude: 10, Located: true},
	"NA": {Latitude: 40, Longitude: -97, Located: true},
	"OC": {Latitude: -26, Longitude: 135, Located: true},
	"SA": {Latitude: -15, Longitude: -58, Located: true},
}

// Geo is a zone.Locator over one version of a database. It holds the file in
// memory, so that replacing or truncating it hurts nobody.
type Geo struct {
	reader *maxminddb.Reader
	cfg    GeoConfig
	bits4  bool // the database has IPv4 only
	cache  [1 << geoCacheBits][4]atomic.Pointer[geoEntry]
}

// geoCacheBits bounds the places kept decoded, four to a hash, which makes a
// lookup several times cheaper: many networks share one record.
const geoCacheBits = 13

type geoEntry struct {
	offset uintptr
	place  model.Place
	ok     bool
}

// OpenGeo reads a database.
func OpenGeo(cfg GeoConfig) (*Geo, error) {
	if cfg.Fields.isZero() {
		cfg.Fields = MaxMindFields
	}
	data, err := os.ReadFile(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("geoip: %w", err)
	}
	reader, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("geoip: %s is not a usable MaxMind DB file: %w", cfg.Path, err)
	}
	return &Geo{reader: reader, cfg: cfg, bits4: reader.Metadata.IPVersion == 4}, nil
}

func (f GeoFields) isZero() bool {
	return len(f.Country)+len(f.Continent)+len(f.Latitude)+len(f.Longitude) == 0
}

// Locate implements zone.Locator.
func (g *Geo) Locate(addr netip.Addr, least int) (place model.Place, bits int, ok bool) {
	if !addr.IsValid() || g.bits4 && !addr.Is4() {
		return place, 0, false
	}
	r := g.reader.Lookup(addr)
	if r.Err() != nil {
		return place, 0, false
	}
	if bits = r.Prefix().Bits(); addr.Is4() && r.Prefix().Addr().Is6() { // IPv4 stands in the last 32 bits
		bits = max(0, bits-96)
	}
	if !r.Found() || bits < least {
		return place, bits, false
	}
	e := g.entry(r)
	return e.place, bits, e.ok
}

// entry is the decoded record, from the cache if it is in one of its slots.
func (g *Geo) entry(r maxminddb.Result) *geoEntry {
	offset := r.Offset()
	slots := &g.cache[uint64(offset)*0x9e3779b97f4a7c15>>(64-geoCacheBits)]
	free := int(offset) % len(slots)
	for i := range slots {
		e := slots[i].Load()
		if e == nil {
			free = i
			break
		}
		if e.offset == offset {
			return e
		}
	}
	e := &geoEntry{offset: offset}
	e.place, e.ok = g.decode(r)
	slots[free].Store(e)
	return e
}

// decode reads the place of a record: coordinates if it has them, the region
// and zone a user gave to its country or continent, else where those are.
func (g *Geo) decode(r maxminddb.Result) (model.Place, bool) {
	country, continent := text(r, g.cfg.Fields.Country), text(r, g.cfg.Fields.Continent)
	place, known := g.cfg.Places[country]
	if !known {
		place, known = g.cfg.Places[continent]
	}
	if !known {
		place, known = continents[continent]
	}
	lat, hasLat := degrees(r, g.cfg.Fields.Latitude, 90)
	lon, hasLon := degrees(r, g.cfg.Fields.Longitude, 180)
	if hasLat && hasLon {
		place.Latitude, place.Longitude, place.Located, known = lat, lon, true, true
	}
	return place, known
}

func text(r maxminddb.Result, path []string) (s string) {
	if len(path) == 0 || r.DecodePath(&s, keys(path)...) != nil {
		return "" // of another type, or not there: as good as unknown
	}
	return s
}

func degrees(r maxminddb.Result, path []string, most float64) (float64, bool) {
	v := math.NaN()
	if len(path) == 0 || r.DecodePath(&v, keys(path)...) != nil || !(math.Abs(v) <= most) {
		return 0, false
	}
	return v, true
}

func keys(path []string) []any {
	out := make([]any, len(path))
	for i, k := range path {
		out[i] = k
	}
	return out
}

// WatchGeo gives use the database, and each new version of it, until the
// context ends. A file that is missing or broken is said once in the log and
// changes nothing: what was used last stays.
func WatchGeo(ctx context.Context, cfg GeoConfig, use func(zone.Locator)) {
	if cfg.Every <= 0 {
		cfg.Every = 10 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	tick := time.NewTicker(cfg.Every)
	defer tick.Stop()
	var seen fileMark
	for {
		mark, err := markOf(cfg.Path)
		if mark != seen {
			seen = mark
			var g *Geo
			if err == nil {
				g, err = OpenGeo(cfg)
			}
			if err != nil {
				cfg.Log.Warn("geoip: keeping what was loaded before", "error", err)
			} else {
				cfg.Log.Info("geoip: loaded", "path", cfg.Path, "type", g.reader.Metadata.DatabaseType, "built", time.Unix(int64(g.reader.Metadata.BuildEpoch), 0).UTC())
				use(g)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// fileMark tells versions of a file apart. The zero value is "not looked yet".
type fileMark struct {
	size     int64
	modified time.Time
	failed   string
}

func markOf(path string) (fileMark, error) {
	stat, err := os.Stat(path)
	if err == nil && !stat.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	if err != nil {
		err = fmt.Errorf("geoip: %w", err)
		return fileMark{failed: err.Error()}, err
	}
	return fileMark{size: stat.Size(), modified: stat.ModTime()}, nil
}
