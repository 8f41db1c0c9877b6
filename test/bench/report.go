package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kinds of changes, and what is said of each.
var kinds = []struct{ name, text string }{
	{"endpoint_change", "endpoint"},
	{"route_change", "route"},
	{"certificate_change", "certificate"},
	{"host_change", "host added"},
	{"host_removal", "host removed"},
}

// columns of the tables of changes.
var columns = []struct{ suffix, text string }{
	{".bytes", "bytes to a proxy"},
	{".cpu_us", "control plane, CPU µs"},
	{".envoy_main_ms", "Envoy's main thread, CPU ms"},
	{".served_ms_p50", "until served, p50 ms"},
	{".served_ms_p99", "p99 ms"},
}

// changeTables has one table a sweep.
func (f figures) changeTables() []table {
	var out []table
	for _, s := range f.sweeps(kinds[0].name + columns[0].suffix) {
		t := table{title: "By " + s.key + ", with " + fixedText(s)}
		head := []string{"change", s.key}
		for _, c := range columns {
			head = append(head, c.text)
		}
		t.row(head...)
		for _, k := range kinds {
			for _, v := range s.values {
				cells := []string{k.text, number(float64(v))}
				for _, c := range columns {
					cells = append(cells, f.cell(k.name+c.suffix, s.at(v)))
				}
				t.row(cells...)
			}
		}
		out = append(out, t)
	}
	return out
}

// slopeTable says how often a change costs in the largest world of a sweep
// what it costs in the smallest.
func (f figures) slopeTable() table {
	t := table{title: "How many times the cost in the smallest world is the cost in the largest; 1 is flat"}
	head := []string{"change", "from", "to"}
	for _, c := range columns[:4] {
		head = append(head, c.text)
	}
	t.row(head...)
	for _, s := range f.sweeps(kinds[0].name + columns[0].suffix) {
		few, many := s.values[0], s.values[len(s.values)-1]
		for _, k := range kinds {
			cells := []string{k.text, number(float64(few)) + " " + s.key, number(float64(many)) + " " + s.key + ", " + fixedText(s)}
			for _, c := range columns[:4] {
				cells = append(cells, f.ratio(k.name+c.suffix, s.at(few), s.at(many)))
			}
			t.row(cells...)
		}
	}
	return t
}

func (f figures) ratio(name string, few, many params) string {
	low, ok1 := f.find(name, few)
	high, ok2 := f.find(name, many)
	if !ok1 || !ok2 || low.Value <= 0 {
		return ""
	}
	return number(math.Round(100*high.Value/low.Value) / 100)
}

func (f figures) cell(name string, p params) string {
	if one, ok := f.find(name, p); ok {
		return number(one.Value)
	}
	return ""
}

// fixedText says what a sweep does not vary.
func fixedText(s sweep) string {
	var parts []string
	for _, d := range dimensions {
		if v, ok := s.fixed[d]; ok {
			what := d
			if v == 1 {
				what = strings.TrimSuffix(d, "s")
			}
			parts = append(parts, number(float64(v))+" "+what)
		}
	}
	return strings.Join(parts, " and ")
}

// gatewaysTitle is of tables in which each Gateway has perGateway of the hosts.
const gatewaysTitle = "A Gateway, a listener or a route among other Gateways of 10 hosts, half of them with addresses of their own"

// others are the figures that are not of one change, by heading.
var others = []struct {
	title, prefix string
}{
	{"Load and memory", "load."}, {"Load and memory", "load_one_by_one."}, {"Load and memory", "memory."}, {"Streams", "stream."}, {"Streams", "health_stream."}, {"Streams", "idle."},
	{"A turn of the loop that has nothing to do, every proxy reporting all members", "turn."},
	{"Every host with a certificate", "all_tls."},
	{gatewaysTitle, "gateway_change."}, {gatewaysTitle, "gateway_added."}, {gatewaysTitle, "gateway_edited."}, {gatewaysTitle, "gateway_removed."},
	{gatewaysTitle, "listener_change."}, {gatewaysTitle, "listener_added."}, {gatewaysTitle, "listener_edited."}, {gatewaysTitle, "listener_removed."},
	{gatewaysTitle, "gateway_route_change."}, {gatewaysTitle, "gateway_route_added."}, {gatewaysTitle, "gateway_route_edited."}, {gatewaysTitle, "gateway_route_removed."},
	{"All Gateways, and one with as many routes", "gateways."}, {"All Gateways, and one with as many routes", "one_gateway."},
	{"Changes of hosts of HTTPRoutes, and of Ingresses, beside each other", "beside."},
	{"HTTPRoutes applied at once, until each is served", "httproutes."}, {"One of them edited under load", "httproute_edit."},
	{"An endpoint change while 50 others a second change", "endpoint_change_beside_"},
	{"5,000 endpoint changes a second", "replay_"},
	{"Loss and return of a member that has half of the endpoints of every host", "member_"},
	{"An edge moves to another region and back, which is another view each time", "edge_"},
	{"Nodes that follow some assignments each", "nodes."},
	{"Edges that come, each with a proxy that acknowledges everything", "vantages."},
	{"Requests, CPU of Envoy", "request."},
	{"Restart of the control plane", "restart."},
	{"A host that comes or goes, and a scope alone, in turns", "scope_map."},
}

// otherTables has one table a heading, and a line a figure and world.
func (f figures) otherTables() []table {
	var out []table
	for _, o := range others {
		var t table
		for _, one := range f {
			if rest, ok := strings.CutPrefix(one.Name, o.prefix); ok {
				if len(t.rows) == 0 {
					t.row("", "hosts", "members", "streams", "")
				}
				dims := make([]string, len(dimensions))
				for i, d := range dimensions {
					if v, ok := one.Params[d]; ok {
						dims[i] = number(float64(v))
					}
				}
				t.row(strings.ReplaceAll(label(o.prefix, rest), "_", " "), dims[0], dims[1], dims[2], withUnit(one))
			}
		}
		if len(t.rows) == 0 {
			continue
		}
		slices.SortStableFunc(t.rows[1:], func(a, b []string) int { return strings.Compare(a[0], b[0]) })
		if n := len(out); n > 0 && out[n-1].title == o.title {
			out[n-1].rows = append(out[n-1].rows, t.rows[1:]...)
			continue
		}
		t.title = o.title
		out = append(out, t)
	}
	return out
}

// label is a figure's name without what the heading says.
func label(prefix, rest string) string {
	if strings.HasSuffix(prefix, ".") {
		return strings.TrimSuffix(prefix, ".") + ": " + rest
	}
	if _, after, ok := strings.Cut(rest, "."); ok && prefix != "member_" {
		return after
	}
	return strings.Replace(rest, ".", ": ", 1)
}

// profileTable has the shares of CPU time, most first.
func (f figures) profileTables() []table {
	var out []table
	for _, p := range []struct{ name, text string }{
		{"endpoint_change", "Endpoint changes, 200 a second: share of the control plane's CPU"},
		{"replay", "Endpoint changes, 5,000 a second"},
		{"load", "First list of all"},
		{"heap", "Heap after it, by who allocated it"},
	} {
		t := table{title: p.text}
		t.row("", "share")
		for _, one := range f {
			if rest, ok := strings.CutPrefix(one.Name, "profile."+p.name+"."); ok {
				t.row(rest, number(one.Value)+" %")
			}
		}
		if len(t.rows) > 1 {
			out = append(out, t)
		}
	}
	return out
}

func (f figures) machineText() string {
	said := map[string]string{}
	for _, one := range f {
		if rest, ok := strings.CutPrefix(one.Name, "machine."); ok {
			said[rest] = one.Text
		}
	}
	return fmt.Sprintf("%s, %s, %s; %s, %s; commit %s, %s. Load average before the start: %s.%s\n",
		said["cpu"], said["memory"], said["kernel"], said["go"], said["envoy"], said["commit"], said["date"], said["load"], f.paceText())
}

// paceText says how fast the machine was.
func (f figures) paceText() string {
	least, ok := f.find("yardstick.least_ms", nil)
	if !ok {
		return ""
	}
	most, _ := f.find("yardstick.most_ms", nil)
	text := fmt.Sprintf(" Before and after each world, %s loads from %d MiB took %s to %s of CPU time",
		number(yardstickLoads), yardstickMiB, withUnit(least), withUnit(most))
	if share, ok := f.find("yardstick.stolen_percent", nil); ok {
		text += fmt.Sprintf("; meanwhile %s of the CPUs' time went to other machines of the host", withUnit(share))
	}
	return text + "."
}

// print writes everything as text.
func (f figures) print(w io.Writer) {
	fmt.Fprintln(w, f.machineText())
	for _, t := range slices.Concat([]table{f.slopeTable()}, f.changeTables(), f.otherTables(), f.profileTables()) {
		t.text(w)
	}
	t := f.goalTable()
	t.title = "Goals"
	t.text(w)
}

// plots are the pictures of the report, by file name.
func (f figures) plots() map[string]plot {
	out := map[string]plot{}
	for _, s := range f.sweeps(kinds[0].name + columns[0].suffix) {
		for _, c := range columns[:4] {
			p := plot{title: c.text + " of one change, by " + s.key + ", with " + fixedText(s), x: s.key}
			for _, k := range kinds {
				l := line{name: k.text}
				for _, v := range s.values {
					if one, ok := f.find(k.name+c.suffix, s.at(v)); ok {
						l.points = append(l.points, point{float64(v), one.Value})
					}
				}
				p.lines = append(p.lines, l)
			}
			name := s.key + strings.ReplaceAll(c.suffix, ".", "-")
			if _, taken := out[name]; !taken { // the largest sweep of a dimension comes first
				out[name] = p
			}
		}
	}
	return out
}

// shown are the plots in the report, in order.
var shown = []string{"hosts-cpu_us", "hosts-bytes", "hosts-envoy_main_ms", "hosts-served_ms_p50", "members-cpu_us", "streams-cpu_us"}

// write brings the report in a folder up to date: the generated sections of
// performance.md, and its plots below img.
func (f figures) write(dir string) error {
	path := filepath.Join(dir, "performance.md")
	body, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "img"), 0o755); err != nil {
		return err
	}
	plots := f.plots()
	var pictures strings.Builder
	for _, name := range shown {
		svg, ok := plots[name].svg()
		if !ok {
			continue
		}
		file := "img/performance-" + name + ".svg"
		if err := os.WriteFile(filepath.Join(dir, file), []byte(svg), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&pictures, "![%s](%s)\n\n", plots[name].title, file)
	}
	text, err := replaceSections(string(body), map[string]string{
		"machine": f.machineText(), "goals": f.goalTable().markdown(), "plots": pictures.String(),
		"changes": markdown(slices.Concat([]table{f.slopeTable()}, f.changeTables())), "others": markdown(f.otherTables()), "profile": markdown(f.profileTables()),
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func markdown(tables []table) string {
	parts := make([]string, len(tables))
	for i, t := range tables {
		parts[i] = t.markdown()
	}
	return strings.Join(parts, "\n")
}

const (
	sectionBegin = "<!-- generated by make bench: "
	sectionEnd   = "<!-- end -->"
)

// replaceSections puts new text between the marks of each section. Each must
// be there, once.
func replaceSections(body string, sections map[string]string) (string, error) {
	for name, text := range sections {
		begin := sectionBegin + name + " -->\n"
		head, rest, ok := strings.Cut(body, begin)
		_, tail, ended := strings.Cut(rest, sectionEnd)
		if !ok || !ended || strings.Contains(tail, begin) {
			return "", errors.New("there must be one section that begins with " + strings.TrimSpace(begin) + " and ends with " + sectionEnd)
		}
		body = head + begin + strings.TrimRight(text, "\n") + "\n" + sectionEnd + tail
	}
	return body, nil
}
