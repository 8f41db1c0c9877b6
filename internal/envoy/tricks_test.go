package envoy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	wire "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// pathsPage is where users read what becomes of a path.
const pathsPage = "../../docs/reference/paths.md"

// trick is a row of its table.
type trick struct{ path, is, gets string }

// tricks reads the rules and the table of the page.
func tricks(t *testing.T) (objects []string, rows []trick) {
	t.Helper()
	text, err := os.ReadFile(pathsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	rules, rest, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("the page has no rules")
	}
	for line := range strings.Lines(rest) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		cell := func(n int) string { return strings.Trim(strings.TrimSpace(cells[n]), "`") }
		rows = append(rows, trick{cell(1), cell(2), cell(3)})
	}
	if len(rows) < 50 {
		t.Fatalf("the table has %d rows: is it read at all?", len(rows))
	}
	return strings.Split(rules, "---\n"), rows
}

// newTrickRig is a real Envoy of a program that has the objects of the page, and where
// their hosts are served.
func newTrickRig(t *testing.T, objects []string) (ports map[string]int) {
	t.Helper()
	fw, w := newProgram()
	f := &feed{world: w, store: xds.NewStore(), reports: &xds.Reports{}, fra: testView, pending: map[model.Collection][]xds.Change{}}
	for _, typ := range w.t.Types() {
		typ.Table.Watch(func(changes []inc.Change[Key, Resource]) { f.collect(typ.URL, changes) })
	}
	r := &rig{feed: f, listening: map[string]string{}, http: envoytest.FreePort(t), https: envoytest.FreePort(t)}
	gateway := envoytest.FreePort(t)
	commands := []string{
		"member eu-1 region=eu", "edge fra region=eu zone=eu-a addresses=192.0.2.1",
		fmt.Sprintf("config ports http=%d https=%d", r.http, r.https), "class spillway config=ports",
		"gatewayclass spillway", fmt.Sprintf("gateway shop/web http:HTTP:%d", gateway),
	}
	for _, name := range []string{"admin", "web"} {
		at := newPod(t, name).addr
		commands = append(commands, fmt.Sprintf("service eu-1 shop/%s http:80", name), fmt.Sprintf("slice eu-1 shop/%s only http=%d %s", name, at.Port(), at.Addr()))
	}
	if _, err := fw.Do(append(commands, "commit")...); err != nil {
		t.Fatal(err)
	}
	ports = map[string]int{}
	r.commit(func(tx *inc.Tx) {
		for _, text := range objects {
			for _, host := range setObject(t, tx, fw, text) {
				ports[string(host)] = gateway
			}
		}
	})
	ports["ingress.example"] = r.http
	view, ok := w.p.Views.Get(nil, "fra")
	if !ok {
		t.Fatal("edge fra has no view")
	}
	f.view.Store(view.Key)
	r.start(t)
	r.settled(t)
	return ports
}

// setObject writes what a route object gives, and returns its hosts.
func setObject(t *testing.T, tx *inc.Tx, fw *fleettest.World, text string) []model.Host {
	t.Helper()
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
		t.Fatal(err)
	}
	var id model.Object
	var root model.Root
	var rules []ingest.HostRules
	var found model.Findings
	switch kind.Kind {
	case "Ingress":
		var o networkingv1.Ingress
		if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		id, root, rules, found = ingest.Ingress(&o)
	case "HTTPRoute":
		var o gatewayv1.HTTPRoute
		if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		id, root, rules, found = ingest.HTTPRoute(&o)
	}
	if len(rules) == 0 || len(found) > 0 {
		t.Fatalf("%s: %v in\n%s", kind.Kind, found, text)
	}
	byHost := map[model.Host]model.Rules{}
	var hosts []model.Host
	for _, of := range rules {
		byHost[of.Host] = of.Rules
		hosts = append(hosts, of.Host)
	}
	fleettest.SetRoot(tx, fw.Program.In, id, root, byHost)
	return hosts
}

// overHTTP1 is what becomes of a request: who answers with which path, or a status and
// where it leads.
func overHTTP1(t *testing.T, port int, host, target string) string {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target, host)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	defer func() { _ = resp.Body.Close() }()
	return came(resp.StatusCode, resp.Header.Get)
}

func came(status int, header func(string) string) string {
	switch status {
	case http.StatusOK:
		out := header("X-Answered-By") + " " + header("X-Path")
		if area := header("Got-X-Area"); area != "" {
			out += " area " + area
		}
		return out
	case http.StatusTemporaryRedirect, http.StatusFound:
		return fmt.Sprint(status, " ", header("Location"))
	}
	return fmt.Sprint(status)
}

// framedPath is the same over HTTP/2, where a path is any bytes.
func framedPath(port int, host, target string) (string, error) {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	var block bytes.Buffer
	to := hpack.NewEncoder(&block)
	for _, h := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", target}, {":authority", host}} {
		if err := to.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return "", err
		}
	}
	_, err1 := fmt.Fprint(c, wire.ClientPreface)
	f := wire.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	err2 := f.WriteSettings()
	err3 := f.WriteHeaders(wire.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", err
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return "reset", nil // the proxy ended the connection
		}
		switch frame := frame.(type) {
		case *wire.RSTStreamFrame, *wire.GoAwayFrame:
			return "reset", nil
		case *wire.MetaHeadersFrame:
			header := http.Header{}
			for _, h := range frame.RegularFields() {
				header.Add(h.Name, h.Value)
			}
			status, err := strconv.Atoi(frame.PseudoValue("status"))
			return came(status, header.Get), err
		}
	}
}

// anyBytes asks over HTTP/2 for what no path is, all at once: Envoy takes its time to
// close the connection of such a client.
func anyBytes(t *testing.T, ports map[string]int) {
	t.Helper()
	var all sync.WaitGroup
	for _, path := range []string{"", "*", "admin", `\admin`, "%2Fadmin", "%5cadmin", "/admin\x00", "/\x00admin", "/\tadmin", "/ad min", "/admin\x7f", "http://other.example/admin", "/admin\xc0\xafx"} {
		for host, port := range ports {
			all.Go(func() {
				got, err := framedPath(port, host, path)
				escaped := got == "web /admin%C0%AFx" && strings.Contains(path, "\xc0\xaf") // an overlong slash is none
				if err != nil || got != "reset" && got != "400" && got != "404" && !escaped {
					t.Errorf("%q of %s over HTTP/2: %s, %v", path, host, got, err)
				}
			})
		}
	}
	all.Wait()
}

// TestPathTricks: a real Envoy answers as the page says, row by row, whoever asked for
// the host, with each filter, over HTTP/1.1 in both forms of a target and over HTTP/2.
func TestPathTricks(t *testing.T) {
	objects, rows := tricks(t)
	ports := newTrickRig(t, objects)
	if len(ports) != 4 {
		t.Fatalf("the page has hosts %v", ports)
	}
	for _, row := range rows {
		for host, port := range ports {
			framed, err := framedPath(port, host, row.path)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{
				"HTTP/1.1": overHTTP1(t, port, host, row.path), "HTTP/1.1 with a whole URL": overHTTP1(t, port, host, "http://"+host+row.path), "HTTP/2": framed,
			}
			for how, got := range got {
				want := row.want(host)
				if strings.HasPrefix(how, "HTTP/1.1") && !ascii(row.path) {
					want = "400"
				}
				if refused := want == "400" && got == "reset"; got != want && !refused {
					t.Errorf("%s of %s, %s: %q, the page says %q", row.path, host, how, got, want)
				}
			}
		}
	}
	anyBytes(t, ports)
	for _, path := range disguises() {
		for host, port := range ports {
			if got := overHTTP1(t, port, host, path); strings.HasPrefix(got, "web ") {
				t.Errorf("%s of %s gets past the rule for /admin: %s", path, host, got)
			}
		}
	}
}

func ascii(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r > 0x7f }) }

// want is what came of a request, as overHTTP1 says it.
func (r trick) want(host string) string {
	switch {
	case r.is == "307":
		return "307 " + r.gets
	case r.is == "admin" && host == "moved.example":
		return "302 http://admin.example" + r.gets
	case r.is == "admin" && host != "ingress.example":
		return "admin " + r.gets + " area admin"
	case r.gets == "":
		return r.is
	}
	return r.is + " " + r.gets
}

// disguises are paths that some server takes for one below /admin: by decoding escapes
// once, by taking "\" for "/", by merging slashes and by resolving dots.
func disguises() []string {
	var out []string
	before := []string{"/", "//", "///", "/./", "/.//", "/x/../", "/x/..//", "/%2e/", "/x/%2e%2E/", "/%2F", "/%2f/", `/\`, "/%5C", "/x%2f..%2f", `/x\..\`, "/x/..;a/", "/.;a/", "/x/..%2f"}
	names := []string{"admin", "%61dmin", "adm%69n"}
	after := []string{"", "/", "/x", "//x", "%2Fx", "%2f", `\x`, "%5cx", "/./x", "/x/..", "/%2e", "?x", "/..;/admin"}
	for _, b := range before {
		for _, n := range names {
			for _, a := range after {
				out = append(out, b+n+a)
			}
		}
	}
	return out
}

// TestTricksAreNormal: the model says what the page says, and what a pod gets is the same
// for one that brings it into normal form once more.
func TestTricksAreNormal(t *testing.T) {
	_, rows := tricks(t)
	for _, row := range rows {
		path, _, _ := strings.Cut(row.path, "?")
		gets, _, _ := strings.Cut(row.gets, "?")
		normal, ok := model.NormalPath(path)
		if ascii(path) && (ok != (row.is != "400") || ok && normal != gets) {
			t.Errorf("%s: the model says %s %v, the page %s", row.path, normal, ok, gets)
		}
		if again, _ := model.NormalPath(gets); gets != "" && again != gets {
			t.Errorf("%s: %s is not normal, but %s", row.path, gets, again)
		}
		if model.EscapesSlash(path) != (row.is == "307") {
			t.Errorf("%s is redirected: %v, the page says %s", row.path, model.EscapesSlash(path), row.is)
		}
	}
}
