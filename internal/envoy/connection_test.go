package envoy

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/envoy/routetest"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// connections is a table, with what is made of it here: a class for each port, and a pod
// for each backend, at an address for streams and one for datagrams.
type connections struct {
	*routetest.Table
	class   map[*routetest.Port]model.Class
	at      map[int]int // a port of this machine for a number of the table
	streams map[string]model.Endpoint
	datums  map[string]model.Endpoint
}

// TestConnectionTables asks the same of the tables, of the model of Envoy and of Envoy
// itself. internal/sim asks the same when everything begins with objects.
func TestConnectionTables(t *testing.T) {
	files, err := filepath.Glob("testdata/connections/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no tables", err)
	}
	for _, file := range files {
		for _, certificates := range []delivery{static, onDemand} {
			if certificates == onDemand && routetest.StaticAlone(file) {
				continue
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+", "+certificates.String(), func(t *testing.T) {
				table, err := routetest.ReadTable(file)
				if err != nil {
					t.Fatal(err)
				}
				askConnections(t, table, certificates)
			})
		}
	}
}

func askConnections(t *testing.T, table *routetest.Table, certificates delivery) {
	r := newRigWith(t, timingForTests, certificates, usual)
	c := &connections{table, map[*routetest.Port]model.Class{}, map[int]int{}, map[string]model.Endpoint{}, map[string]model.Endpoint{}}
	c.start(t)
	r.commit(func(tx *inc.Tx) { c.build(t, r, tx, certificates) })
	validateAll(t, r.world)
	r.settled(t)
	s := newSim(t, r.world)
	s.Greet = func(endpoint string, h routetest.Hello) bool {
		at := slices.IndexFunc(c.Backends, func(b routetest.Backend) bool { return b.Name == c.nameOf(endpoint) })
		return c.Backends[at].Takes(h) || !h.TLS // what is handed on is none of the proxy's TLS
	}
	for _, a := range c.Asks {
		slices.Sort(a.Expected)
		promised := c.Promised(a)
		slices.Sort(promised)
		if !slices.Equal(promised, a.Expected) {
			t.Errorf("%s: promised is %v", a.Line, promised)
		}
		if got := s.Route(c.request(a)).Said(c.nameOf); !slices.Equal(got, a.Expected) {
			t.Errorf("%s: the model of Envoy says %v", a.Line, got)
		}
		c.askEnvoy(t, a)
	}
	for line := range strings.Lines(r.proc.Log.String()) {
		if !strings.Contains(line, "UdpProxyConfig.matcher' is marked as work-in-progress") {
			t.Errorf("Envoy warns:\n%s", line)
		}
	}
}

// askEnvoy asks until every answer that may come came.
func (c *connections) askEnvoy(t *testing.T, a routetest.Ask) {
	t.Helper()
	missing := slices.Clone(a.Expected)
	for range 300 {
		got := c.visit(t, a)
		if !slices.Contains(a.Expected, got) {
			t.Errorf("%s: Envoy says %s", a.Line, got)
			return
		}
		if missing = slices.DeleteFunc(missing, func(e string) bool { return e == got }); len(missing) == 0 {
			return
		}
	}
	t.Errorf("%s: Envoy never says %v", a.Line, missing)
}

func (c *connections) nameOf(endpoint string) string {
	for _, all := range []map[string]model.Endpoint{c.streams, c.datums} {
		for name, e := range all {
			if netip.AddrPortFrom(e.Addr, e.Port).String() == endpoint {
				return name
			}
		}
	}
	return endpoint
}

// start starts the pods.
func (c *connections) start(t *testing.T) {
	for _, b := range c.Backends {
		c.datums[b.Name] = answerer(t, b.Name)
		if !b.TLS {
			c.streams[b.Name] = newPod(t, b.Name).endpoint()
			continue
		}
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Answered-By", b.Name) }))
		s.TLS, s.Config.ErrorLog = b.Server(), log.New(io.Discard, "", 0) // of handshakes that are to fail
		s.StartTLS()
		t.Cleanup(s.Close)
		at := netip.MustParseAddrPort(s.Listener.Addr().String())
		c.streams[b.Name] = model.Endpoint{Addr: at.Addr(), Port: at.Port()}
	}
}

// build writes the rows.
func (c *connections) build(t *testing.T, r *rig, tx *inc.Tx, certificates delivery) {
	var names []string
	var dial model.Dial
	var client model.SecretID
	if c.Shows != "" {
		pair := routetest.Signed(c.Shows)
		key, err := pair.KeyPEM()
		if err != nil {
			t.Fatal(err)
		}
		client = model.SecretID{Namespace: "shop", Name: "client"}
		dial = model.DialKey{Client: client}.Dial()
		r.p.In.Certificates.Set(tx, client, model.Certificate{Chain: pair.CertPEM(), Key: key})
	}
	for i, p := range c.Ports {
		name := fmt.Sprintf("port%d", i)
		names, c.class[p] = append(names, name), model.Class(name)
		if c.at[p.Number] == 0 {
			c.at[p.Number] = envoytest.FreePort(t)
		}
		r.specs.Set(tx, model.Class(name), c.classOf(p, int64(i)+2, certificates, client))
	}
	r.together(tx, names...)
	now := testView.Key()
	now.Classes = strings.Join(append([]string{now.Classes}, names...), ",")
	for _, b := range c.Backends {
		for kind, at := range map[string]model.Endpoint{"http": c.streams[b.Name], "tls:tls": c.streams[b.Name], "tcp:tcp": c.streams[b.Name], "udp:udp": c.datums[b.Name]} {
			name := "shop/" + b.Name + "/" + kind
			id := r.use(tx, now.View(), name, "")
			id.dial = dial
			r.needs.Set(tx, id, model.There{})
			r.group(tx, name, "eu-1", at)
			r.plan(tx, now.View(), name, share("eu-1", 0))
			if kind == "http" && b.TLS {
				r.p.Backends.Set(tx, backend(name), fleet.Backend{TLS: model.UpstreamTLSKey{Host: b.Host(), CA: string(routetest.Authority(routetest.Pods).CertPEM())}.UpstreamTLS()})
			}
		}
	}
	for _, p := range c.Ports {
		c.buildPort(t, r, tx, p, dial)
	}
}

func (c *connections) classOf(p *routetest.Port, created int64, certificates delivery, client model.SecretID) fleet.ClassInfo {
	out := fleet.ClassInfo{
		Spec: model.ClassSpec{Origin: model.Origin{Created: created, Object: model.Object{Kind: "Gateway", Name: "gw"}}}, Lines: true, Client: client,
		Config: model.ConfigSpec{Timing: timingForTests, OnDemand: bool(certificates)},
	}
	switch p.Protocol {
	case "HTTPS":
		out.Config.HTTPSPort, out.Deep = uint16(c.at[p.Number]), true
	case "TCP":
		out.Relay = model.Socket{Number: uint16(c.at[p.Number]), Traffic: model.Connections}
	case "UDP":
		out.Relay = model.Socket{Number: uint16(c.at[p.Number]), Traffic: model.Datagrams}
	}
	if in := c.TrustAt(p); len(in.Authorities) > 0 {
		k := model.ClientTrustKey{Fallback: in.Fallback}
		for _, name := range in.Authorities {
			k.CA += string(routetest.Authority(name).CertPEM())
		}
		out.Clients = k.ClientTrust()
	}
	return out
}

func (c *connections) buildPort(t *testing.T, r *rig, tx *inc.Tx, p *routetest.Port, dial model.Dial) {
	class := c.class[p]
	set := func(name model.Host, what model.Traffic, pass bool, kind string, to ...routetest.Share) {
		root := model.Object{Kind: "HTTPRoute", Namespace: "shop", Name: "route"}
		of := fleet.Target{Root: root}
		for _, s := range to {
			b := model.WeightedBackend{Weight: uint32(s.Weight)}
			if s.Backend == routetest.None && what == model.Requests {
				continue // as fleet resolves it
			}
			if s.Backend != routetest.None {
				b.Backend = backend("shop/" + s.Backend + "/" + kind)
			}
			of.Backends = append(of.Backends, b)
		}
		r.p.Hosts.Set(tx, model.HostKey{Class: class, Host: name}, fleet.Host{
			Traffic: what, Pass: pass, Dial: dial, Roots: []model.Object{root}, Routes: []fleet.Route{{Match: model.Everything, Target: of}},
		})
	}
	switch p.Protocol {
	case "TCP":
		set("", model.Connections, false, "tcp:tcp", p.To...)
	case "UDP":
		set("", model.Datagrams, false, "udp:udp", p.To...)
	}
	var hosts []model.Host
	for i, l := range p.Listeners {
		name := model.Host(l.Host)
		if l.Host == "*" {
			name = ""
		} else if strings.HasPrefix(l.Host, "*.") {
			name = "*" + name
		}
		hosts = append(hosts, name)
		to := routetest.Share{Backend: l.Backend, Weight: 1}
		switch l.Kind {
		case "host":
			set(name, model.Requests, false, "http", to)
		case "pass":
			set(name, model.Connections, true, "tls:tls", to)
			continue
		case "end":
			set(name, model.Connections, false, "tcp:tcp", to)
		}
		if l.Bare == "" {
			secret := model.SecretID{Namespace: "shop", Name: fmt.Sprintf("%s-%d", class, i)}
			r.p.In.Certificates.Set(tx, secret, selfSigned(t, l.Host))
			r.p.Chains.Set(tx, model.HostKey{Class: class, Host: name.TLSName()}, fleet.Chain{Secrets: []model.SecretID{secret}})
		}
	}
	slices.Sort(hosts)
	r.p.ListenerHosts.Set(tx, class, hosts)
}

// request is a question as the model of Envoy is asked it.
func (c *connections) request(a routetest.Ask) routetest.Request {
	q := a.Request()
	q.Port = c.at[a.Port.Number]
	return q
}

// visit asks Envoy once.
func (c *connections) visit(t *testing.T, a routetest.Ask) string {
	t.Helper()
	q := c.request(a)
	if q.Datagram {
		return datagram(t, q.Port, q.From)
	}
	config := &tls.Config{ServerName: q.SNI, InsecureSkipVerify: true} //nolint:gosec // a test
	if a.As != "" {
		own := routetest.Signed(a.As).TLS() // whichever authorities the port names
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: 20 * time.Second}
	scheme := map[bool]string{true: "https", false: "http"}[q.TLS]
	req, err := http.NewRequestWithContext(t.Context(), q.Method, fmt.Sprintf("%s://127.0.0.1:%d%s", scheme, q.Port, q.Path), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = q.Host
	resp, err := client.Do(req)
	if err != nil {
		return routetest.Refused
	}
	defer func() { _ = resp.Body.Close() }()
	if by := resp.Header.Get("X-Answered-By"); by != "" {
		return by
	}
	return fmt.Sprint(resp.StatusCode)
}

// datagram sends one from a port that ends as one does, and gives the answer.
func datagram(t *testing.T, port, from int) string {
	t.Helper()
	var conn *net.UDPConn
	for n := 20000 + from%100; conn == nil && n < 60000; n += 100 {
		conn, _ = net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n}, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	}
	if conn == nil {
		t.Fatal("no port of this machine is free")
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("hello")); err != nil {
		return routetest.Refused
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	buf := make([]byte, 64)
	n, err := conn.Read(buf)
	if err != nil {
		return routetest.Refused
	}
	return string(buf[:n])
}
