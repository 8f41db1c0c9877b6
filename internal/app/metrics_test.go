package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// serving is all of serve, against a hub that is away.
func serving(t *testing.T) *server {
	t.Helper()
	ca := envoytest.NewCA(t)
	cert, key := ca.Leaf(t, "serve", envoytest.IP("127.0.0.1"))
	s := &server{
		cfg: Config{
			Namespace: "spillway-system", AdminAddress: "127.0.0.1:0", DNSAddresses: []string{"127.0.0.1:0"}, StateDir: t.TempDir(), EnvoyListenerPort: 80,
			XDSAddress: "127.0.0.1:0", XDSCert: cert, XDSKey: key, XDSClientCA: ca.File, AdminCert: cert, AdminKey: key,
		},
		log: slog.New(slog.DiscardHandler), metrics: prometheus.NewRegistry(), now: (&steady{real: time.Now}).now, opened: make(chan struct{}), eased: func() {},
	}
	hub := &rest.Config{Host: "https://127.0.0.1:1"}
	ctx, stop := context.WithCancel(t.Context())
	group, ctx := errgroup.WithContext(ctx)
	t.Cleanup(func() {
		stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		s.sockets.close()
	})
	if err := s.listen(ctx, hub); err != nil {
		t.Fatal(err)
	}
	if err := s.build(ctx, hub); err != nil {
		t.Fatal(err)
	}
	s.restore(func() { group.Go(func() error { s.source.Run(ctx); return nil }) })
	s.awaitLists()
	s.start(ctx, group)
	return s
}

// TestEveryMetricIsDocumented: with its labels; and what is documented is there.
func TestEveryMetricIsDocumented(t *testing.T) {
	s := serving(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var documented, there []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(spillway_[a-z_]+)` \\|([^|]*)\\| .+ \\|$").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, row[1]+" "+strings.NewReplacer("`", "", " ", "").Replace(row[2]))
	}
	descs := make(chan *prometheus.Desc)
	go func() { s.metrics.Describe(descs); close(descs) }()
	text := regexp.MustCompile(`fqName: "(spillway_[^"]*)".*variableLabels: \{([^}]*)\}`)
	for d := range descs {
		if found := text.FindStringSubmatch(d.String()); found != nil {
			there = append(there, found[1]+" "+strings.ReplaceAll(found[2], " ", ""))
		}
	}
	slices.Sort(documented)
	slices.Sort(there)
	for _, name := range there {
		if !slices.Contains(documented, name) {
			t.Errorf("docs/reference/metrics.md has no line for %s", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(there, name) {
			t.Errorf("docs/reference/metrics.md has %s, and there is no such metric", name)
		}
	}
	if len(there) < 20 {
		t.Errorf("only %d metrics", len(there))
	}
}

// TestMetricsAreThere: of a program that runs, they say what is so.
func TestMetricsAreThere(t *testing.T) {
	s := serving(t)
	s.put("test", func(tx *inc.Tx) {
		s.prog.In.Contacts.Set(tx, "eu-1", model.Contact{Reason: "Connected", Expiry: 2_000_000_000})
		s.prog.In.Contacts.Set(tx, "eu-2", model.Contact{Reason: "Unreachable"})
		s.prog.In.Contacts.Set(tx, "eu-3", model.Contact{Reason: "Unreachable"})
	})
	for there := 0; there < 3; {
		if err := s.loop.look(t.Context(), func() { there = s.prog.In.Contacts.Len() }); err != nil {
			t.Fatal(err)
		}
	}
	if health := scrape(t, s, "/healthz"); health != "ok\n" {
		t.Errorf("health: %q", health)
	}
	got := scrape(t, s, "/metrics")
	for _, want := range []string{
		`spillway_members{reason="Connected"} 1`, `spillway_members{reason="Unreachable"} 2`,
		`spillway_member_credential_expiry_timestamp_seconds{member="eu-1"} 2e+09`,
		`spillway_certificate_expiry_timestamp_seconds{type="xds"} `, `spillway_certificate_expiry_timestamp_seconds{type="admin"} `,
		"spillway_loop_turn_seconds_count ", "spillway_loop_publish_seconds_bucket", "spillway_loop_mailbox_letters ", "spillway_loop_standing_seconds 0",
		"spillway_checkpoint_bytes 0", "spillway_checkpoint_refused 0", "spillway_hub_waiting ", "spillway_dns_stale_seconds ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// scrape gets a page of the admin listener.
func scrape(t *testing.T, s *server, path string) string {
	t.Helper()
	pem, err := os.ReadFile(s.cfg.XDSClientCA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.sockets.admin.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
