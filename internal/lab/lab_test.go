package lab

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

func TestSpecDefaults(t *testing.T) {
	s := DefaultSpec()
	s.Envoy = program(t)
	s.Images = map[string]string{"web": program(t) + " --port 80"}
	got, err := s.complete()
	if err != nil {
		t.Fatal(err)
	}
	if got.XDSPort != 18000 || got.DNSPort != 1053 || !filepath.IsAbs(got.Dir) || got.Edges[0].HTTPPort != 8080 || got.Edges[1].HTTPSPort != 8443 {
		t.Errorf("%+v", got)
	}
	if got.Images["web"] != program(t)+" --port 80" || got.Images[EchoImage] != got.Binary+" lab-echo" {
		t.Errorf("%v", got.Images)
	}
	if _, ok := s.Images[EchoImage]; ok || s.Edges[0].HTTPPort != 0 {
		t.Error("complete changed its receiver")
	}
	l := Lab{spec: got}
	if a := l.EdgeAddress("us").String(); a != "127.0.10.2" || l.AdminAddress("eu") != "127.0.10.1:9901" || l.EdgeAddress("none").IsValid() {
		t.Error(a, l.AdminAddress("eu"))
	}
}

func TestSpecErrors(t *testing.T) {
	for want, edit := range map[string]func(*Spec){
		"is taken":                     func(s *Spec) { s.Members[1].Name = "eu-1" },
		"use up to 32":                 func(s *Spec) { s.Members[0].Name = "EU" },
		"port 70000":                   func(s *Spec) { s.Edges[0].HTTPPort = 70000 },
		"port 18000 is not possible":   func(s *Spec) { s.Edges[0].HTTPSPort = 18000 },
		"two ports":                    func(s *Spec) { s.Edges[0].HTTPPort = 8443 },
		"has no hub":                   func(s *Spec) { s.Hub = false },
		`loopback "10.0"`:              func(s *Spec) { s.Loopback = "10.0" },
		`loopback "127.300"`:           func(s *Spec) { s.Loopback = "127.300" },
		"image web: ":                  func(s *Spec) { s.Images = map[string]string{"web": "/does/not/exist"} },
		"is not a program":             func(s *Spec) { s.Images = map[string]string{"web": "/"} },
		"give its path with --envoy":   func(s *Spec) { s.Envoy = "/does/not/exist" },
		"at most 99 members and 99":    func(s *Spec) { s.Members = append(s.Members, make([]MemberSpec, 100)...) },
		`"hub": the name is taken`:     func(s *Spec) { s.Edges[0].Place = "hub" },
		"member eu-1: at most 99 zone": func(s *Spec) { s.Members[0].Zones = make([]string, 100) },
		"with contour: true":           func(s *Spec) { s.Members[0].ContourName = "lb.test" },
		"no folder with the program":   func(s *Spec) { s.Members[0].Contour, s.Contour = true, "/does/not/exist" },
		`contourName "Lb"`:             func(s *Spec) { withContour(t, s); s.Members[0].ContourName = "Lb" },
		`contourGateway "web"`:         func(s *Spec) { withContour(t, s); s.Members[0].ContourGateway = "web" },
		"an API server of their own":   func(s *Spec) { withContour(t, s); s.Members[0].OnHub = true },
	} {
		s := DefaultSpec()
		s.Envoy = program(t)
		edit(&s)
		if _, err := s.complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// withContour has the first member run a Contour of which there is nothing but the name.
func withContour(t *testing.T, s *Spec) {
	t.Helper()
	s.Contour, s.Members[0].Contour = t.TempDir(), true
	if err := os.WriteFile(filepath.Join(s.Contour, contourProgram), nil, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestContourSpec(t *testing.T) {
	s := DefaultSpec()
	s.Envoy = program(t)
	withContour(t, &s)
	s.Members[2].Contour, s.Members[2].ContourName = true, "lb.test"
	s, err := s.complete()
	if err != nil {
		t.Fatal(err)
	}
	if s.Images[contourImage] != filepath.Join(s.Contour, contourProgram) || s.Images[envoyImage] != s.Envoy {
		t.Errorf("%v", s.Images)
	}
	for i, want := range []struct{ address, published, leaf string }{
		{"127.0.12.1", "127.0.12.1", "[127.0.12.1/32]"}, {"invalid IP", "invalid IP", "[]"}, {"127.0.12.3", "lb.test", "[lb.test]"},
	} {
		m := s.Members[i]
		if a, p, l := s.IngressAddress(m.Name).String(), s.published(m), fmt.Sprint(s.leafAddresses(m)); a != want.address || p != want.published || l != want.leaf {
			t.Errorf("%s: %s, %s, %s, want %+v", m.Name, a, p, l, want)
		}
	}
}

// Contour's objects are of kinds that the lab writes, and what differs between members is
// where it belongs.
func TestContourObjects(t *testing.T) {
	at := netip.MustParseAddrPort("10.7.0.2:6443")
	for gateway, number := range map[string]int{"": 8, "web/web": 9} {
		m := MemberSpec{ContourGateway: gateway}
		objects, err := contourObjects(contourValues{API: at, XDS: netip.AddrPortFrom(at.Addr(), gateXDS), Gateway: m.gateway()})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(objects)
		if err != nil {
			t.Fatal(err)
		}
		for text, there := range map[string]bool{
			"server: https://10.7.0.2:6443": true, "--xds-address=10.7.0.2": true, "--xds-port=8001": true,
			"gatewayRef: {namespace: web, name: web}": gateway != "",
		} {
			if strings.Contains(string(b), text) != there {
				t.Errorf("gateway %q: %q there: %v, want %v", gateway, text, !there, there)
			}
		}
		if len(objects) != number {
			t.Errorf("gateway %q: %d objects, want %d", gateway, len(objects), number)
		}
	}
	if _, err := parseObjects([]byte("kind: Job")); err == nil || !strings.Contains(err.Error(), `"Job"`) {
		t.Error(err)
	}
}

// Clients in places may use the usual ports, and those of the host the edge's own alone.
func TestDoors(t *testing.T) {
	usual := Spec{UsualPorts: true}
	for _, c := range []struct {
		spec  Spec
		edge  EdgeSpec
		place bool
		want  []door
	}{
		{usual, EdgeSpec{HTTPPort: 8080, HTTPSPort: 8443}, true, []door{{8080, 8080}, {8443, 8443}, {80, 8080}, {443, 8443}}},
		{usual, EdgeSpec{HTTPPort: 8080, HTTPSPort: 8443}, false, []door{{8080, 8080}, {8443, 8443}}},
		{usual, EdgeSpec{HTTPPort: 80, HTTPSPort: 8443}, true, []door{{80, 80}, {8443, 8443}, {443, 8443}}},
		{usual, EdgeSpec{HTTPPort: 443, HTTPSPort: 80}, true, []door{{443, 443}, {80, 80}}},
		{Spec{}, EdgeSpec{HTTPPort: 8080, HTTPSPort: 8443}, true, []door{{8080, 8080}, {8443, 8443}}},
	} {
		if got := c.spec.doors(c.edge, c.place); !slices.Equal(got, c.want) {
			t.Errorf("%+v in a place %v: %v, want %v", c.edge, c.place, got, c.want)
		}
	}
}

func TestPKI(t *testing.T) {
	p := PKI{Dir: filepath.Join(t.TempDir(), "pki")}
	if err := writePKI(p, []EdgeSpec{{Name: "eu"}}); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	ca, err := os.ReadFile(p.CA())
	if err != nil || !pool.AppendCertsFromPEM(ca) {
		t.Fatal(err)
	}
	serve := leaf(t, p.ServeCert(), p.ServeKey())
	for _, name := range []string{"localhost", "127.0.0.1"} {
		if _, err := serve.Verify(x509.VerifyOptions{Roots: pool, DNSName: name}); err != nil {
			t.Error(name, err)
		}
	}
	edge := leaf(t, p.EdgeCert("eu"), p.EdgeKey("eu"))
	if _, err := edge.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if len(edge.URIs) != 1 || edge.URIs[0].String() != "spiffe://spillway.lab/edge/eu" {
		t.Error(edge.URIs)
	}
}

func leaf(t *testing.T, cert, key string) *x509.Certificate {
	t.Helper()
	st, err := os.Stat(key)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Error(key, st.Mode(), err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

// The objects that the hub gets are ones of our types, without a field that
// those lack.
func TestHubObjects(t *testing.T) {
	s := DefaultSpec()
	s.Envoy = program(t)
	s, err := s.complete()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := writeObjects(path, hubObjects(s, map[string]string{"eu-1": "kubeconfig text"})); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, doc := range bytes.Split(b, []byte("---\n"))[1:] {
		var head struct{ Kind string }
		if err := yaml.Unmarshal(doc, &head); err != nil {
			t.Fatal(err)
		}
		kinds[head.Kind]++
		into := map[string]any{
			"MemberCluster": new(v1alpha1.MemberCluster), "Edge": new(v1alpha1.Edge),
			"GatewayClassConfig": new(v1alpha1.GatewayClassConfig), "DNSZone": new(v1alpha1.DNSZone),
		}[head.Kind]
		if into == nil {
			continue
		}
		if err := yaml.UnmarshalStrict(doc, into); err != nil {
			t.Errorf("%s: %v", head.Kind, err)
		}
	}
	for kind, n := range map[string]int{"Namespace": 1, "Secret": 3, "MemberCluster": 3, "Edge": 2, "GatewayClassConfig": 1, "IngressClass": 1, "DNSZone": 1} {
		if kinds[kind] != n || !user.Knows(kind) {
			t.Errorf("%d of %s, want %d", kinds[kind], kind, n)
		}
	}
}

func TestRedirectKubeconfig(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	c := clientcmdapi.NewConfig()
	c.Clusters["eu-1"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	c.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: "secret"}
	if err := clientcmd.WriteToFile(*c, from); err != nil {
		t.Fatal(err)
	}
	if err := redirectKubeconfig(from, to, "https://127.0.0.1:2"); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.LoadFromFile(to)
	if err != nil || got.Clusters["eu-1"].Server != "https://127.0.0.1:2" || got.AuthInfos["admin"].Token != "secret" {
		t.Error(got, err)
	}
	if st, _ := os.Stat(to); st.Mode().Perm() != 0o600 {
		t.Error(st.Mode())
	}
}

func TestWhyNot(t *testing.T) {
	refused := errors.New("operation not permitted")
	for want, settings := range map[string]map[string]string{
		"user.max_user_namespaces is 0":              {"user.max_user_namespaces": "0"},
		"kernel.unprivileged_userns_clone is 0":      {"kernel.unprivileged_userns_clone": "0"},
		"apparmor_restrict_unprivileged_userns is 1": {"kernel.apparmor_restrict_unprivileged_userns": "1"},
		"run the lab as root":                        {"user.max_user_namespaces": "100"},
	} {
		got := whyNot(false, func(name string) string { return settings[name] }, refused)
		if !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := whyNot(true, func(string) string { return "" }, refused); !strings.Contains(got, "privileged") {
		t.Error(got)
	}
	var coded interface{ ExitCode() int }
	if err := error(&Unsupported{Reason: "x"}); !errors.As(err, &coded) || coded.ExitCode() != 3 {
		t.Error("exit code")
	}
}

func TestPrintStatus(t *testing.T) {
	var out bytes.Buffer
	err := printStatus(&out, Status{
		Hub: &APIStatus{Server: "https://127.0.0.1:1"}, Members: []MemberStatus{{Name: "eu-1", API: APIStatus{Cut: ModeDrop, Process: ProcessStatus{Running: true}}, DataCut: ModeRefuse}},
		Edges: []EdgeStatus{{Name: "eu"}}, Places: []PlaceStatus{{Name: "fra", Edge: "eu", Client: true}, {Name: "eu", Edge: "eu"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hub ", "dead", "api=drop data=refuse", "edge eu", "lab exec fra"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if _, err := json.Marshal(Status{}); err != nil {
		t.Error(err)
	}
}

// TestExecOfNothing has the exit codes of a shell.
func TestExecOfNothing(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]int{"no-such-command-anywhere": 127, "/no/such/command": 127, plain: 126} {
		_, err := new(Lab).exec(t.Context(), "fra", nil, nil, nil, nil, []string{command})
		var coded interface{ ExitCode() int }
		if !errors.As(err, &coded) || coded.ExitCode() != want {
			t.Errorf("%s: %v, want exit code %d", command, err, want)
		}
	}
}

// TestTheDocumentedServe is what `lab up` says to run.
func TestTheDocumentedServe(t *testing.T) {
	spec := DefaultSpec()
	spec.XDSPort, spec.DNSPort, spec.Loopback = defaultXDSPort, defaultDNSPort, defaultLoopback
	page, err := os.ReadFile("../../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	_, command, found := strings.Cut(strings.ReplaceAll(string(page), "\\\n", ""), "\nspillway serve ")
	command, _, _ = strings.Cut("spillway serve "+command, "\n")
	if got, want := strings.Join(strings.Fields(command), " "), spec.invitation(defaultDir); !found || got != want {
		t.Errorf("docs/lab.md says\n%s\nlab up says\n%s", got, want)
	}
	if got := spec.placesText(); !strings.Contains(got, "127.0.20.2 eu eu-a 50.11 8.68 # fra\n127.0.20.4 us us-b 40.71 -74.01 # nyc\n") {
		t.Error(got)
	}
}
