package sim

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/envoy/routetest"
)

// connectionTables are those of internal/envoy, where Envoy itself is asked, too.
const connectionTables = "../envoy/testdata/connections/*.txt"

// TestConnectionTables asks the same when everything begins with objects.
func TestConnectionTables(t *testing.T) {
	files, err := filepath.Glob(connectionTables)
	if err != nil || len(files) < 2 {
		t.Fatal("no tables", err)
	}
	for _, file := range files {
		for _, delivery := range []string{"", " ondemand"} {
			if delivery != "" && routetest.StaticAlone(file) {
				continue
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+delivery, func(t *testing.T) {
				table, err := routetest.ReadTable(file)
				if err != nil {
					t.Fatal(err)
				}
				w, err := newWorld(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				for _, line := range append([]string{"edge fra region=eu", "config c" + delivery, "gatewayclass spillway config=c", "member eu-1 region=eu", "proxy fra/a"}, objectsFor(table)...) {
					if _, err := w.do(line); err != nil {
						t.Fatal(err)
					}
				}
				w.speak = table.Backends
				for _, a := range table.Asks {
					if got, err := w.becomes(w.proxies["fra/a"], a); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(a.Expected))) {
						t.Errorf("%s: got %v, %v", a.Line, got, err)
					}
				}
			})
		}
	}
}

// objectsFor are the commands that make what a table serves: one Gateway, a route for
// each of its listeners, and a pod for each backend.
func objectsFor(table *routetest.Table) (lines []string) {
	gateway := []string{"gateway shop/gw"}
	if table.Shows != "" {
		lines = append(lines, "identity shop/client "+table.Shows)
		gateway = append(gateway, "client=client")
	}
	var clients []string
	if len(table.Clients.Authorities) > 0 {
		clients = append(clients, trusted(table.Clients))
	}
	for _, p := range table.Ports {
		if p.Own {
			clients = append(clients, fmt.Sprintf("%d:%s", p.Number, trusted(p.Clients)))
		}
		for _, name := range slices.Concat(p.Clients.Authorities, table.Clients.Authorities) {
			lines = append(lines, "authorities shop/"+name+" "+name)
		}
	}
	if clients != nil {
		gateway = append(gateway, "clients="+strings.Join(clients, ","))
	}
	for i, p := range table.Ports {
		if p.Protocol != "HTTPS" {
			name := fmt.Sprintf("p%d", i)
			gateway = append(gateway, fmt.Sprintf("%s:%s:%d", name, p.Protocol, p.Number))
			number := map[string]string{"TCP": "80", "UDP": "53"}[p.Protocol]
			route := fmt.Sprintf("%sroute shop/%s to=gw/%s", strings.ToLower(p.Protocol), name, name)
			for _, s := range p.To {
				route += fmt.Sprintf(" %s:%s*%d", s.Backend, number, s.Weight)
			}
			lines = append(lines, route)
		}
		for j, l := range p.Listeners {
			name, host, secret := fmt.Sprintf("p%d-%d", i, j), ":"+strings.TrimPrefix(l.Host, "*"), ""
			if strings.HasPrefix(l.Host, "*.") {
				host = ":" + l.Host
			}
			if l.Kind != "pass" {
				secret = "@" + name
				if l.Bare == "" {
					lines = append(lines, "secret shop/"+name+" "+strings.Replace(l.Host, "*", "any", 1))
				}
			}
			protocol := map[string]string{"host": "HTTPS", "pass": "TLS", "end": "TLS"}[l.Kind]
			gateway = append(gateway, fmt.Sprintf("%s:%s:%d%s%s", name, protocol, p.Number, host, secret))
			if l.Kind == "host" {
				lines = append(lines, fmt.Sprintf("httproute shop/%s to=gw/%s /->%s:80", name, name, l.Backend))
			} else {
				lines = append(lines, fmt.Sprintf("tlsroute shop/%s to=gw/%s hosts=%s %s:80", name, name, strings.TrimSuffix(l.Host, "*"), l.Backend))
			}
		}
	}
	for i, b := range table.Backends {
		lines = append(lines, fmt.Sprintf("pods eu-1 shop/%s udp 10.1.0.%d", b.Name, i+1))
		if b.TLS {
			lines = append(lines, "authorities shop/"+routetest.Pods+" "+routetest.Pods, fmt.Sprintf("policy shop/%s %s host=%s ca=%s", b.Name, b.Name, b.Host(), routetest.Pods))
		}
	}
	return append(lines, strings.Join(gateway, " "))
}

func trusted(t routetest.Trust) string {
	if len(t.Authorities) == 0 {
		return "-"
	}
	return strings.Join(t.Authorities, "+") + map[bool]string{true: "!"}[t.Fallback]
}

// becomes is what a proxy does with the question of a table.
func (w *world) becomes(p *proxy, a routetest.Ask) ([]string, error) {
	out, lacks, err := p.route(a.Request(), w.greet)
	if err == nil && len(lacks) > 0 {
		err = fmt.Errorf("it lacks %v", lacks)
	}
	return out.Said(w.serviceAt), err
}

// serviceAt is the name of the Service whose pod has, or had, an endpoint.
func (w *world) serviceAt(endpoint string) string {
	ip, _, _ := net.SplitHostPort(endpoint)
	service, _, _ := strings.Cut(w.nameOf(ip), "@")
	return service[strings.LastIndexByte(service, '/')+1:]
}

// greet is what a pod does that a proxy connects to: one of a backend that speaks TLS.
func (w *world) greet(endpoint string, h routetest.Hello) bool {
	at := slices.IndexFunc(w.speak, func(b routetest.Backend) bool { return b.Name == w.serviceAt(endpoint) })
	return at < 0 || !h.TLS || w.speak[at].Takes(h)
}
