package zone

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

var update = flag.Bool("update", false, "write what the stories say now into testdata")

// TestStories runs testdata/*.txt: prose after #, commands, ----, what is expected.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newStory(t).tell(string(text))
			if *update {
				err = os.WriteFile(file, []byte(got), 0o644)
			} else if got != string(text) {
				t.Errorf("%s differs; got\n%s", file, got)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

type story struct {
	t      *testing.T
	snap   *Snapshot
	spec   map[Name]Spec
	edges  map[string]*Edge
	places []PlaceEntry
	states map[model.Edge]EdgeState
	order  []model.Edge
	last   []model.Edge
}

func newStory(t *testing.T) *story {
	return &story{t: t, snap: &Snapshot{}, spec: map[Name]Spec{}, edges: map[string]*Edge{}, states: map[model.Edge]EdgeState{}}
}

// tell replays a story and returns it with the expectations as they are now.
func (s *story) tell(text string) string {
	var out, said strings.Builder
	expecting := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case expecting && line != "":
			continue
		case line == "----":
			out.WriteString("----\n" + said.String())
			said.Reset()
			expecting = true
			continue
		case line == "":
			expecting = false
		case !strings.HasPrefix(line, "#"):
			said.WriteString(s.do(strings.Fields(line)))
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

func (s *story) do(f []string) string {
	commands := map[string]func(args []string, opts map[string]string) string{
		"zone": s.zone, "unzone": s.unzone, "ns": s.ns, "edge": s.edge, "host": s.host, "unhost": s.unhost,
		"place": s.place, "ask": s.ask, "state": s.state, "step": s.step, "held": s.held, "hosts": s.hosts,
	}
	run, ok := commands[f[0]]
	if !ok {
		s.t.Fatalf("no command %q", f[0])
	}
	opts := map[string]string{}
	var args []string
	for _, a := range f[1:] {
		if k, v, ok := strings.Cut(a, "="); ok {
			opts[k] = v
		} else {
			args = append(args, a)
		}
	}
	return run(args, opts)
}

func (s *story) zone(args []string, opts map[string]string) string {
	number := func(key string, or int) int {
		n, err := strconv.Atoi(opts[key])
		if err != nil {
			return or
		}
		return n
	}
	apex := name(s.t, args[0])
	spec := s.spec[apex]
	spec.Apex, spec.TTL, spec.Answers, spec.Held = apex, uint32(number("ttl", 30)), number("answers", 0), opts["held"] == "yes"
	spec.ServerTTL = uint32(number("servers", 3600))
	spec.SOA = SOA{MName: name(s.t, "ns1."+args[0]), RName: name(s.t, "hostmaster."+args[0]), Serial: 1, Refresh: 2, Retry: 3, Expire: 4, Minimum: uint32(number("minimum", 30))}
	s.spec[apex] = spec
	s.snap = s.snap.WithZone(NewZone(spec))
	return ""
}

func (s *story) unzone(args []string, _ map[string]string) string {
	s.snap = s.snap.WithoutZone(name(s.t, args[0]))
	return ""
}

func (s *story) ns(args []string, _ map[string]string) string {
	apex := name(s.t, args[0])
	spec := s.spec[apex]
	spec.NameServers = append(spec.NameServers, NameServer{Host: name(s.t, args[1]), Addresses: addrs(args[2:])})
	s.spec[apex] = spec
	s.snap = s.snap.WithZone(NewZone(spec))
	return ""
}

// edge NAME REGION/ZONE [at=LAT,LON] ADDRESS...
func (s *story) edge(args []string, opts map[string]string) string {
	s.edges[args[0]] = NewEdge(model.Edge(args[0]), placeFrom(args[1], opts["at"]), addrs(args[2:]))
	return ""
}

func (s *story) host(args []string, _ map[string]string) string {
	var edges []*Edge
	for _, e := range args[1:] {
		if e == "held" {
			s.snap = s.snap.WithHost(name(s.t, args[0]), HeldRecordSet())
			return ""
		}
		if s.edges[e] == nil {
			s.t.Fatalf("no edge %q", e)
		}
		edges = append(edges, s.edges[e])
	}
	s.snap = s.snap.WithHost(name(s.t, args[0]), NewRecordSet(edges))
	return ""
}

func (s *story) unhost(args []string, _ map[string]string) string {
	s.snap = s.snap.WithHost(name(s.t, args[0]), nil)
	return ""
}

func (s *story) place(args []string, opts map[string]string) string {
	s.places = append(s.places, PlaceEntry{Prefix: netip.MustParsePrefix(args[0]), Place: placeFrom(args[1], opts["at"])})
	table, err := NewPlaces(s.places)
	if err != nil {
		s.t.Fatal(err)
	}
	s.snap = s.snap.WithPlaces(table)
	return ""
}

func (s *story) held(args []string, _ map[string]string) string {
	s.snap = s.snap.WithHeld(args[0] == "yes")
	return ""
}

func (s *story) hosts([]string, map[string]string) string {
	var lines []string
	for name, n := range s.snap.names.all() {
		if n.set != nil {
			lines = append(lines, fmt.Sprintf("%s %s\n", name, n.set))
		}
		if n.wild != nil && n.wild.one != nil {
			lines = append(lines, fmt.Sprintf("*.%s %s\n", name, n.wild.one))
		}
		if n.wild != nil && n.wild.any != nil {
			lines = append(lines, fmt.Sprintf("**.%s %s\n", name, n.wild.any))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

var storyTypes = map[string]Type{"A": TypeA, "AAAA": TypeAAAA, "NS": TypeNS, "SOA": TypeSOA, "TXT": 16, "ANY": TypeANY, "DS": TypeDS, "AXFR": TypeAXFR}

// ask TYPE NAME [from=ADDRESS] [subnet=PREFIX] [class=N]
func (s *story) ask(args []string, opts map[string]string) string {
	var c Client
	if from := opts["from"]; from != "" {
		c.Addr = netip.MustParseAddr(from)
	}
	if subnet := opts["subnet"]; subnet != "" {
		c.Subnet = netip.MustParsePrefix(subnet)
	}
	q := Question{Name: []byte(name(s.t, args[1])), Type: storyTypes[args[0]], Class: ClassIN}
	if q.Type == 0 {
		s.t.Fatalf("no type %q", args[0])
	}
	if opts["class"] != "" {
		q.Class = 3
	}
	return show(Answer(s.snap, q, c))
}

// state EDGE stream=W probe=W serves=no|drained|down unsure=yes drain=yes|no, where W is up, down, down-alone or unknown.
func (s *story) state(args []string, opts map[string]string) string {
	witness := func(text string) Witness {
		return map[string]Witness{"up": {Health: model.Up}, "down": {Health: model.Down}, "down-alone": {Health: model.Down, Alone: true}}[text]
	}
	id := model.Edge(args[0])
	if _, ok := s.states[id]; !ok {
		s.order = append(s.order, id)
	}
	rooms := map[string]steer.Room{"": steer.Best, "no": steer.NoRoom, "drained": 2, "down": 8}
	s.states[id] = EdgeState{Edge: id, Room: rooms[opts["serves"]], Unsure: opts["unsure"] == "yes", Drain: opts["drain"] == "yes", Stream: witness(opts["stream"]), Probe: witness(opts["probe"])}
	return ""
}

func (s *story) step([]string, map[string]string) string {
	var b strings.Builder
	var states []EdgeState
	for _, id := range s.order {
		states = append(states, s.states[id])
		_, why := s.states[id].Standing()
		fmt.Fprintf(&b, "%s %s\n", id, why)
	}
	s.last = Step(s.last, states)
	fmt.Fprintf(&b, "answer %v\n", s.last)
	return b.String()
}

func show(r Response) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", r.RCode)
	if r.Authoritative {
		b.WriteString(" aa")
	}
	fmt.Fprintf(&b, " scope=%d\n", r.Scope)
	sections := []struct {
		name    string
		records []Record
	}{{"answer", r.Answer}, {"authority", r.Authority}, {"additional", r.Additional}}
	for _, section := range sections {
		for _, rec := range section.records {
			fmt.Fprintf(&b, "  %s: %s\n", section.name, showRecord(rec))
		}
	}
	return b.String()
}

func showRecord(r Record) string {
	owner := "@"
	if r.Owner != "" {
		owner = r.Owner.String()
	}
	data := ""
	switch r.Type {
	case TypeA, TypeAAAA:
		data = r.Addr.String()
	case TypeNS:
		data = r.Host.String()
	case TypeSOA:
		data = fmt.Sprint(r.SOA.MName, " ", r.SOA.RName, " ", r.SOA.Minimum)
	case TypeHINFO:
		data = "RFC8482"
	}
	return fmt.Sprintf("%s %d %s %s", owner, r.TTL, r.Type, data)
}

func name(t testing.TB, text string) Name {
	t.Helper()
	n, err := ParseName(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func addrs(texts []string) (out []netip.Addr) {
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// placeFrom reads "eu/eu-a" and "50.1,8.7".
func placeFrom(locality, at string) model.Place {
	var p model.Place
	p.Region, p.Zone, _ = strings.Cut(locality, "/")
	if p.Region == "-" {
		p.Region = ""
	}
	if n, _ := fmt.Sscanf(at, "%g,%g", &p.Latitude, &p.Longitude); n == 2 {
		p.Located = true
	}
	return p
}
