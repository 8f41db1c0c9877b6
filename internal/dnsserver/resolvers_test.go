package dnsserver

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
	"github.com/spillway-dev/spillway/internal/zone"
)

// resolver is a program that asks us, and nobody else, for all it is asked.
type resolver struct {
	name, binary string
	config       string   // of its file; DIR, PORT and AUTH are replaced, also in args
	args         []string // CONFIG is that file
}

// The Debian packages are unbound, bind9, knot-resolver and pdns-recursor.
var resolvers = []resolver{
	{"unbound", "unbound", `
server:
  interface: 127.0.0.1@PORT
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "DIR"
  pidfile: ""
  use-syslog: no
  do-ip6: no
  do-not-query-localhost: no
  module-config: "iterator"
  qname-minimisation: yes
  qname-minimisation-strict: yes
  num-threads: 1
remote-control:
  control-enable: no
stub-zone:
  name: "g.example"
  stub-addr: 127.0.0.1@AUTH
stub-zone:
  name: "many.example"
  stub-addr: 127.0.0.1@AUTH
stub-zone:
  name: "."
  stub-addr: 127.0.0.1@AUTH
`, []string{"-d", "-c", "CONFIG"}},
	{"BIND", "named", `
options {
  directory "DIR"; pid-file none; session-keyfile none; managed-keys-directory "DIR";
  listen-on port PORT { 127.0.0.1; }; listen-on-v6 { none; };
  dnssec-validation no; recursion yes; forward only; forwarders { 127.0.0.1 port AUTH; };
};
controls { };
`, []string{"-f", "-n", "1", "-c", "CONFIG"}},
	{"Knot Resolver", "kresd", `
for _, m in ipairs({'priming', 'ta_update', 'ta_signal_query', 'detect_time_skew', 'detect_time_jump'}) do pcall(modules.unload, m) end
net.ipv6 = false
net.listen('127.0.0.1', PORT, { kind = 'dns' })
cache.size = 10 * MB
trust_anchors.remove('.')
policy.add(policy.all(policy.STUB({'127.0.0.1@AUTH'})))
`, []string{"-n", "-c", "CONFIG", "DIR"}},
	{"PowerDNS Recursor", "pdns_recursor", ``, []string{
		"--config-dir=DIR", "--socket-dir=DIR", "--daemon=no", "--local-address=127.0.0.1", "--local-port=PORT", "--dnssec=off", "--security-poll-suffix=",
		"--forward-zones=g.example=127.0.0.1:AUTH,.=127.0.0.1:AUTH", "--dont-query=", "--threads=1", "--disable-syslog=yes",
	}},
}

// run starts a resolver that asks a server, until the test ends, and returns its address.
func (r resolver) run(t *testing.T, server string) string {
	t.Helper()
	binary := installed(t, r.binary)
	addr := envoytest.Loopback(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "resolver.conf")
	_, port, _ := net.SplitHostPort(addr)
	_, auth, _ := net.SplitHostPort(server)
	fill := strings.NewReplacer("DIR", dir, "PORT", port, "AUTH", auth, "CONFIG", config)
	if err := os.WriteFile(config, []byte(fill.Replace(r.config)), 0o600); err != nil {
		t.Fatal(err)
	}
	args := make([]string, len(r.args))
	for i, a := range r.args {
		args[i] = fill.Replace(a)
	}
	startProcess(t, exec.Command(binary, args...))
	c := dns.Client{Timeout: time.Second}
	for begin := time.Now(); ; { // an exchange fails at once while nobody listens, so ask for long
		if m, _, err := c.Exchange(question("g.example.", dns.TypeSOA), addr); err == nil && m.Rcode == dns.RcodeSuccess {
			return addr
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%s does not answer", r.name)
		}
	}
}

// installed is the path of a program of a Debian package, or the end of the test.
func installed(t testing.TB, binary string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		if path := filepath.Join(dir, binary); exec.Command("test", "-x", path).Run() == nil {
			return path
		}
	}
	t.Skipf("%s is not installed", binary)
	return ""
}

func startProcess(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s\n%s", cmd, said.String())
		}
	})
}

// TestResolvers asks us through the resolvers that others run.
func TestResolvers(t *testing.T) {
	below := zone.Spec{Apex: name("x.deep.g.example"), TTL: 30, ServerTTL: 600, NameServers: []zone.NameServer{{Host: name("ns.x.deep.g.example"), Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.54")}}}}
	snap := world(t, 60).WithZone(zone.NewZone(below))
	for _, r := range resolvers {
		t.Run(r.name, func(t *testing.T) {
			_, server := start(t, Config{}, snap)
			addr := r.run(t, server)
			for _, c := range []struct {
				name  string
				qtype uint16
				want  string // rcode and data
			}{
				{"shop.g.example.", dns.TypeA, "NOERROR 203.0.0.0"},
				{"shop.g.example.", dns.TypeAAAA, "NOERROR 2001:db8::"},
				{"sHoP.g.ExAmple.", dns.TypeA, "NOERROR 203.0.0.0"},
				{"any.wild.g.example.", dns.TypeA, "NOERROR 203.0.0.0"},
				{"shop.g.example.", dns.TypeTXT, "NOERROR"},
				{"wild.g.example.", dns.TypeA, "NOERROR"},
				{"none.g.example.", dns.TypeA, "NXDOMAIN"},
				{"below.none.g.example.", dns.TypeAAAA, "NXDOMAIN"},
				{"late.g.example.", dns.TypeA, "SERVFAIL"},
				{"deep.g.example.", dns.TypeA, "NOERROR"},
				{"ns.x.deep.g.example.", dns.TypeA, "NOERROR 192.0.2.54"},
				{"none.x.deep.g.example.", dns.TypeA, "NXDOMAIN"},
				{"a.many.example.", dns.TypeAAAA, "NOERROR +32"},
			} {
				m := ask(t, "tcp", addr, question(c.name, c.qtype))
				got := []string{dns.RcodeToString[m.Rcode]}
				for _, rr := range m.Answer {
					got = append(got, dns.Field(rr, 1))
				}
				if n := len(got) - 1; n > 1 {
					got = []string{got[0], fmt.Sprintf("+%d", n)}
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("%s %s: %s, want %s", c.name, dns.TypeToString[c.qtype], strings.Join(got, " "), c.want)
				}
			}
		})
		// Far over the limit every answer over UDP has TC or is lost: a cookie or
		// TCP gets resolvers theirs.
		t.Run(r.name+" over the limit", func(t *testing.T) {
			s, server := start(t, Config{RateLimit: 1, Unlimited: []netip.Prefix{}}, snap)
			addr := r.run(t, server)
			c := dns.Client{Net: "tcp", Timeout: 30 * time.Second}
			for i := range 30 {
				m, _, err := c.Exchange(question(fmt.Sprintf("h%d.g.example.", i), dns.TypeA), addr)
				for again := 0; again < 5 && err == nil && m.Rcode == dns.RcodeServerFailure; again++ { // it may give up for a while
					m, _, err = c.Exchange(question(fmt.Sprintf("h%d.g.example.", i+30), dns.TypeA), addr)
				}
				if err != nil || m.Rcode != dns.RcodeSuccess || len(m.Answer) != 1 {
					t.Fatalf("h%d: %v %v", i, err, m)
				}
			}
			t.Logf("%d answers cut, %d not sent", s.guard.truncated.Load(), s.metrics.drops[dropRate].Load())
		})
	}
}

// TestHonestClientsInAFlood: dnsperf asks as fast as it can from one network while
// slow clients hold all connections; whoever is of another network sees nothing
// of either.
func TestHonestClientsInAFlood(t *testing.T) {
	dnsperf := installed(t, "dnsperf")
	s, addr := start(t, Config{RateLimit: 100, Unlimited: []netip.Prefix{}, MaxConnections: 64}, world(t, 10))
	host, port, _ := net.SplitHostPort(addr)
	for i := range 64 {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 8, byte(i%4), byte(1+i/4))}}
		slow, err := d.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		slow.Write([]byte{0})
	}
	queries := filepath.Join(t.TempDir(), "queries")
	if err := os.WriteFile(queries, []byte("shop.g.example A\nnone.g.example A\ng.example NS\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	startProcess(t, exec.Command(dnsperf, "-s", host, "-p", port, "-a", "127.66.0.1", "-d", queries, "-c", "8", "-q", "20000", "-l", "60", "-t", "1"))
	for s.metrics.drops[dropRate].Load() == 0 {
		ask(t, "tcp", addr, question("shop.g.example.", dns.TypeA)) // until the flood is there
	}
	udp := dns.Client{Timeout: 10 * time.Second, Dialer: &net.Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(127, 67, 0, 1)}}}
	before := s.metrics.drops[dropRate].Load()
	for i := range 100 {
		if m, _, err := udp.Exchange(question("h1.g.example.", dns.TypeA), addr); err != nil || m.Truncated || len(m.Answer) != 1 {
			t.Fatalf("query %d over UDP: %v %v", i, err, m)
		}
		if m := ask(t, "tcp", addr, question("h2.g.example.", dns.TypeA)); len(m.Answer) != 1 {
			t.Fatalf("query %d over TCP: %v", i, m)
		}
	}
	t.Logf("%d of the flood were not answered meanwhile", s.metrics.drops[dropRate].Load()-before)
}
