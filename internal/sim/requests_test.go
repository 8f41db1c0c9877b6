package sim

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/envoy/routetest"
)

// tables are those of internal/envoy, where their rows are made by hand and
// Envoy itself is asked, too.
const tables = "../envoy/testdata/requests/*.txt"

// notFromObjects have rows that no object gives: states of members, which are
// told as stories here (paths.txt, drained.txt), and rules and hosts as only kinds other
// than Ingress have them.
var notFromObjects = []string{"tiers.txt", "kinds.txt", "matches.txt", "replies.txt", "wildcards.txt", "filters.txt", "cors.txt", "calls.txt", "layers.txt", "misdirected.txt", "misdirected-few.txt", "auth.txt", "sessions.txt", "openshift.txt"}

// TestRequestTables asks the same when everything begins with objects.
func TestRequestTables(t *testing.T) {
	files, err := filepath.Glob(tables)
	if err != nil || len(files) < 5 {
		t.Fatal("no tables", err)
	}
	for _, file := range files {
		if slices.Contains(notFromObjects, filepath.Base(file)) {
			continue
		}
		for _, delivery := range []string{"", " ondemand"} {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+delivery, func(t *testing.T) { askTable(t, file, delivery) })
		}
	}
}

func askTable(t *testing.T, file, delivery string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	serve, ask, found := strings.Cut(string(text), "\n----\n")
	if !found {
		t.Fatal("the table asks nothing")
	}
	w, err := newWorld(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lines := append([]string{"edge fra region=eu", "config c" + delivery, "class spillway default config=c", "member eu-1 region=eu", "proxy fra/a"}, objectsOf(t, serve)...)
	for _, line := range lines {
		if _, err := w.do(line); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(ask) {
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(line, "#") {
			w.expect(t, words)
		}
	}
}

// expect asks one line of a table.
func (w *world) expect(t *testing.T, words []string) {
	t.Helper()
	q := routetest.Request{Port: 80}
	if words[0] == "TLS" {
		sni, err := strconv.Unquote(`"` + strings.TrimPrefix(words[1], "-") + `"`)
		if err != nil {
			t.Fatal(err)
		}
		q.TLS, q.SNI, q.Port, words = true, sni, 443, words[2:]
	}
	q.Method, q.Host, q.Path = words[0], words[1], words[2]
	got, err := w.ask(w.proxies["fra/a"], q)
	if err != nil {
		t.Fatal(err)
	}
	got, _, _ = strings.Cut(strings.TrimSpace(got), " ")
	if got != words[3] && !strings.HasPrefix(got, words[3]+"@") {
		t.Errorf("%s: got %s", strings.Join(words, " "), got)
	}
}

// ingressOf is what a table says of one host: the words of a command.
type ingressOf struct {
	host, bare, tls string
	named           bool // not for a certificate alone
	rules           []string
}

// objectsOf are the commands that make what a table serves: an Ingress a host,
// and a pod for each backend that is named and has members.
func objectsOf(t *testing.T, text string) []string {
	t.Helper()
	var all []*ingressOf
	var lines []string
	backends := map[string]bool{}
	last := func() *ingressOf { return all[len(all)-1] }
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		switch words[0] {
		case "host":
			all = append(all, &ingressOf{host: words[1], named: true})
		case "exact", "prefix":
			at := map[string]string{"exact": "=", "prefix": ""}[words[0]] + words[1] + "->"
			last().rules = append(last().rules, last().host+at+to(words[2]))
			backends[words[2]] = backends[words[2]] || words[2] != "none"
		case "default":
			backends[words[1]] = true
			if o := last(); o.host == "*" {
				o.bare = to(words[1])
			} else { // an Ingress's defaultBackend would serve hosts that nobody names, too
				o.rules = append(o.rules, o.host+"/->"+to(words[1]))
			}
		case "backend":
			if len(words) > 2 {
				t.Fatalf("objects can't say %q", line)
			}
			backends[words[1]] = false
		case "tls":
			i := slices.IndexFunc(all, func(o *ingressOf) bool { return o.host == words[1] })
			if i < 0 { // a certificate alone
				all, i = append(all, &ingressOf{host: words[1]}), len(all)
			}
			all[i].tls = words[2]
		}
	}
	for i, o := range all {
		lines = append(lines, o.lines(i)...)
	}
	pods := 0
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		if backends[name] {
			pods++
			lines = append(lines, fmt.Sprintf("pods eu-1 %s 10.1.0.%d", name, pods))
		}
	}
	return lines
}

func to(backend string) string {
	if backend == "none" {
		return ""
	}
	return strings.TrimPrefix(backend, "shop/") + ":http"
}

func (o *ingressOf) lines(i int) []string {
	words := []string{"ingress", fmt.Sprintf("shop/i%d", i)}
	if o.bare != "" {
		words = append(words, "default="+o.bare)
	}
	if o.named && o.bare == "" && len(o.rules) == 0 {
		words = append(words, o.host) // a rule that is not valid
	}
	var lines []string
	if o.tls != "" {
		hosts, names := "@"+o.host, o.host
		if o.host == "*" {
			hosts, names = "", "any.example"
		}
		words = append(words, "tls="+o.tls+hosts)
		lines = append(lines, "secret shop/"+o.tls+" "+names)
	}
	return append(lines, strings.Join(append(words, o.rules...), " "))
}
