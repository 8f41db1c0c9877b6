package hds

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	health "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

const (
	benchEach    = 3   // canaries of a member
	benchProxies = 600 // what figures a second are for
	benchStreams = 20
	reporterEnv  = "SPILLWAY_HDS_REPORTER" // ADDRESS FOLDER REPORTS MEMBERS KIND
)

// benchReport is a report as Envoy 1.40 writes it: each endpoint twice, in the
// field of before as well.
func benchReport(status core.HealthStatus, members int) *health.EndpointHealthResponse {
	r := saw(status, addresses(members, benchEach)...)
	for _, c := range r.ClusterEndpointsHealth {
		r.EndpointsHealth = append(r.EndpointsHealth, c.LocalityEndpointsHealth[0].EndpointsHealth...) //nolint:staticcheck // Envoy fills it
	}
	return r
}

// BenchmarkReports is what a report costs the server, over TLS, by its processor
// time: proxies are another process. Where reports differ, all of them is read.
func BenchmarkReports(b *testing.B) {
	for _, members := range []int{3, 300} {
		for _, kind := range []string{"same", "different"} {
			b.Run(fmt.Sprintf("%d/%s", members, kind), func(b *testing.B) { benchReports(b, members, kind) })
		}
	}
}

func benchReports(b *testing.B, members int, kind string) {
	dir := b.TempDir()
	ca := envoytest.NewCA(b)
	cert, key := ca.Leaf(b, "server", envoytest.IP("127.0.0.1"))
	clientCert, clientKey := ca.Leaf(b, "proxy", envoytest.URI("spiffe://spillway.local/edge/fra"))
	for name, from := range map[string]string{"ca": ca.File, "cert": clientCert, "key": clientKey} {
		if err := os.Symlink(from, filepath.Join(dir, name)); err != nil {
			b.Fatal(err)
		}
	}
	var whole, same atomic.Int64
	s := New(Config{
		Canaries: func(string) []Canary { return addresses(members, benchEach) },
		Probing:  func(string) Probing { return Probing{Proxies: benchStreams} },
		Health: func(Report) func(time.Time) bool {
			whole.Add(1)
			return func(time.Time) bool { same.Add(1); return true }
		},
	})
	endpoint, err := xds.ListenTLS("127.0.0.1:0", cert, key, ca.File)
	if err != nil {
		b.Fatal(err)
	}
	server := xds.NewServer(xds.Config{Store: xds.NewStore(), ViewOf: func(e string) (string, bool) { return e, true }, TrustDomain: "spillway.local", Services: []xds.Service{s}})
	ctx, stop := context.WithCancel(b.Context())
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(ctx, endpoint) })
	defer serving.Wait()
	defer stop()

	reports := max(b.N/benchStreams, 1)
	proxies := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestReporter$")
	proxies.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %d %s", reporterEnv, endpoint.Addr(), dir, reports, members, kind))
	said := &strings.Builder{}
	proxies.Stdout, proxies.Stderr = said, said
	runtime.GC()
	before := cpu(b)
	b.ResetTimer()
	if err := proxies.Run(); err != nil {
		b.Fatal(err, said)
	}
	used := cpu(b) - before
	each := used / time.Duration(reports*benchStreams)
	b.ReportMetric(float64(each.Nanoseconds())/1e3, "cpu-us/report")
	every := interval(steps[0], benchProxies*weight(members*benchEach))
	b.ReportMetric(100*float64(each)*benchProxies/float64(every), "%core")
	b.ReportMetric(float64(whole.Load())/float64(whole.Load()+same.Load()), "read")
	b.ReportMetric(float64(proto.Size(reported(benchReport(core.HealthStatus_HEALTHY, members)))), "B/report")
}

func cpu(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestReporter is the proxies of BenchmarkReports.
func TestReporter(t *testing.T) {
	var address, dir, kind string
	var reports, members int
	if n, _ := fmt.Sscan(os.Getenv(reporterEnv), &address, &dir, &reports, &members, &kind); n != 5 {
		t.Skip("a part of BenchmarkReports")
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert"), filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(filepath.Join(dir, "ca"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	creds := credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	says := []*said{reported(benchReport(core.HealthStatus_HEALTHY, members)), reported(benchReport(core.HealthStatus_HEALTHY, members))}
	if kind == "different" {
		says[1] = reported(benchReport(core.HealthStatus_UNHEALTHY, members))
	}
	var all sync.WaitGroup
	for i := range benchStreams {
		all.Go(func() {
			if err := report(t, address, creds, fmt.Sprint("fra-", i), says, reports); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// report is one proxy. It returns when all that it says is taken.
func report(t *testing.T, address string, creds credentials.TransportCredentials, node string, says []*said, reports int) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	str, err := health.NewHealthDiscoveryServiceClient(conn).StreamHealthCheck(t.Context())
	if err != nil {
		return err
	}
	hello := &health.HealthCheckRequest{Node: &core.Node{Id: node, Cluster: "fra"}}
	if err := str.Send(&said{RequestType: &health.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{HealthCheckRequest: hello}}); err != nil {
		return err
	}
	if _, err := str.Recv(); err != nil {
		return err
	}
	for i := range reports {
		if err := str.Send(says[i%2]); err != nil {
			return err
		}
	}
	if err := str.CloseSend(); err != nil {
		return err
	}
	for err == nil {
		_, err = str.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
