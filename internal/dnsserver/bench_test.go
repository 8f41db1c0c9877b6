package dnsserver

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	rtmetrics "runtime/metrics"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter/mmdbtype"
	"github.com/miekg/dns"
)

// benchServer makes the test binary a server, so that its CPU time is its own.
const benchServer = "SPILLWAY_DNS_BENCH_DB"

// serveForBench says where it listens, then for each line it reads how much CPU
// time it took so far and how many objects it allocated.
func serveForBench() {
	s, err := Listen(Config{Listen: []string{"127.0.0.1:0"}})
	if err != nil {
		panic(err)
	}
	s.Publish(world(new(testing.B), 10000).WithPlaces(nil))
	g, err := OpenGeo(GeoConfig{Path: os.Getenv(benchServer)})
	if err != nil {
		panic(err)
	}
	s.SetGeo(g)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go s.Serve(ctx)
	fmt.Println(s.Addrs()[0])
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var u syscall.Rusage
		if err = syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		objects := []rtmetrics.Sample{{Name: "/gc/heap/allocs:objects"}}
		rtmetrics.Read(objects)
		fmt.Println(u.Utime.Nano()+u.Stime.Nano(), objects[0].Value.Uint64())
	}
}

// BenchmarkUDP measures the server's CPU time for a query over loopback: 10,000
// hosts, a client subnet and a GeoIP database. The clients wait for the answers
// to 32 queries before they send the next, so nothing is lost.
func BenchmarkUDP(b *testing.B) {
	db := b.TempDir() + "/bench.mmdb"
	rows := map[string]mmdbtype.DataType{}
	for i := range 256 {
		rows[fmt.Sprintf("198.18.%d.0/24", i)] = city("DE", "EU", float64(i%140-70), float64(i))
	}
	writeDB(b, db, rows)
	for _, clients := range []int{1, 4} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) { benchUDP(b, db, clients) })
	}
}

func benchUDP(b *testing.B, db string, clients int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), benchServer+"="+db)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		b.Fatal("the server did not start")
	}
	addr := lines.Text()
	usage := func() (cpu, objects int) {
		fmt.Fprintln(in)
		lines.Scan()
		fmt.Sscan(lines.Text(), &cpu, &objects)
		return cpu, objects
	}
	flood(b, addr, clients, 10000)
	cpu, objects := usage()
	b.ResetTimer()
	flood(b, addr, clients, b.N)
	b.StopTimer()
	cpu2, objects2 := usage()
	b.ReportMetric(float64(cpu2-cpu)/float64(b.N), "server-cpu-ns/op")
	b.ReportMetric(float64(objects2-objects)/float64(b.N), "server-allocs/op")
}

// BenchmarkKnot is BenchmarkUDP with Knot DNS and its geoip module (Debian: knot,
// knot-module-geoip) in our place: the same hosts, database, clients and queries.
// Its time is counted in hundredths of a second, so it wants a second at least.
func BenchmarkKnot(b *testing.B) {
	knotd := installed(b, "knotd")
	dir := b.TempDir()
	rows := map[string]mmdbtype.DataType{}
	for i := range 256 {
		rows[fmt.Sprintf("198.18.%d.0/24", i)] = city("DE", "EU", float64(i%140-70), float64(i))
	}
	writeDB(b, dir+"/bench.mmdb", rows)
	hosts, geo := "$ORIGIN g.example.\n$TTL 30\n@ SOA ns1 hostmaster 1 1 1 1 1\n@ NS ns1\nns1 A 192.0.2.53\n", ""
	for i := range 10000 {
		hosts += fmt.Sprintf("h%d A 203.0.0.0\n", i)
		geo += fmt.Sprintf("h%d.g.example:\n  - geo: DE\n    A: 203.0.1.0\n", i)
	}
	free, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	addr := free.LocalAddr().(*net.UDPAddr)
	free.Close()
	for file, text := range map[string]string{"zone": hosts, "geo.conf": geo, "knot.conf": fmt.Sprintf(`
server:
  rundir: %[1]s
  listen: 127.0.0.1@%[2]d
  edns-client-subnet: on
database:
  storage: %[1]s/db
mod-geoip:
  - id: geo
    config-file: %[1]s/geo.conf
    ttl: 30
    mode: geodb
    geodb-file: %[1]s/bench.mmdb
    geodb-key: country/iso_code
zone:
  - domain: g.example
    file: %[1]s/zone
    module: mod-geoip/geo
`, dir, addr.Port)} {
		if err := os.WriteFile(dir+"/"+file, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	cmd := exec.Command(knotd, "-c", dir+"/knot.conf")
	startProcess(b, cmd)
	c := dns.Client{Timeout: time.Second}
	for begin := time.Now(); ; {
		m, _, err := c.Exchange(withSubnet(question("h7.g.example.", dns.TypeA), "198.18.7.0/24"), addr.String())
		if err == nil && len(m.Answer) == 1 && strings.Contains(m.Answer[0].String(), "203.0.1.0") {
			break
		}
		if time.Since(begin) > time.Minute {
			b.Fatalf("knotd does not answer: %v %v", err, m)
		}
	}
	usage := func() (ticks int) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			b.Fatal(err)
		}
		f := strings.Fields(string(text[strings.LastIndex(string(text), ")"):])) // proc(5): utime and stime are 14 and 15
		var user, system int
		fmt.Sscan(f[12]+" "+f[13], &user, &system)
		return user + system
	}
	for _, clients := range []int{1, 4} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			flood(b, addr.String(), clients, 10000)
			before := usage()
			b.ResetTimer()
			flood(b, addr.String(), clients, b.N)
			b.StopTimer()
			b.ReportMetric(float64(usage()-before)*1e7/float64(b.N), "server-cpu-ns/op") // 100 ticks a second, on every Linux
		})
	}
}

// flood asks n queries from so many clients.
func flood(b *testing.B, addr string, clients, n int) {
	const window = 32
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			conn, err := net.Dial("udp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			packets := make([][]byte, 256)
			for i := range packets {
				m := withSubnet(question(fmt.Sprintf("h%d.g.example.", i*39%10000), dns.TypeA), netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i), 0}), 24).String())
				packets[i], _ = m.Pack()
			}
			answer := make([]byte, maxUDP)
			for sent := c * window; sent < n; sent += clients * window {
				conn.SetDeadline(time.Now().Add(10 * time.Second))
				for i := range window {
					conn.Write(packets[(sent+i)%256])
				}
				for range window {
					if _, err = conn.Read(answer); err != nil || binary.BigEndian.Uint16(answer[6:]) != 1 {
						b.Error("no answer", err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkRespond is everything but the sockets.
func BenchmarkRespond(b *testing.B) {
	snap := world(b, 10000)
	packet, err := withSubnet(question("h77.g.example.", dns.TypeA), "198.51.100.0/24").Pack()
	if err != nil {
		b.Fatal(err)
	}
	p := responder{guard: &newServer(Config{RateLimit: 1e9}).guard, now: time.Now()}
	out := make([]byte, 0, maxUDP+slack)
	from := netip.MustParseAddr("192.0.2.1")
	b.ReportAllocs()
	for b.Loop() {
		p.respond(out, snap, packet, from, false)
	}
}

func TestUDPAllocatesNothing(t *testing.T) {
	s, err := Listen(Config{Listen: []string{"127.0.0.1:0"}, Sockets: 1, Unlimited: []netip.Prefix{}})
	if err != nil {
		t.Fatal(err)
	}
	s.Publish(world(t, 10))
	done := make(chan struct{})
	go func() { defer close(done); s.serveUDP(t.Context(), s.udp[0]) }()
	conn, err := net.Dial("udp", s.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	asked := withSubnet(question("h7.g.example.", dns.TypeA), "198.51.100.0/24")
	asked.IsEdns0().Option = append(asked.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef"})
	packet, err := asked.Pack()
	if err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, maxUDP)
	n := testing.AllocsPerRun(200, func() {
		conn.Write(packet)
		conn.Read(answer)
	})
	if n >= 1 {
		t.Errorf("%v allocations a query", n)
	}
	conn.Close()
	s.close()
	<-done
}
