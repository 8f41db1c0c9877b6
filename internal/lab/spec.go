package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Spec says what a lab consists of. DefaultSpec is the usual one; a zero field
// means its default where one is named.
type Spec struct {
	Dir      string            `json:"dir"`     // default .lab; one lab at a time
	Binary   string            `json:"binary"`  // spillway itself; default this executable
	Envoy    string            `json:"envoy"`   // default FindEnvoy; needed with Edges and with Contour
	Contour  string            `json:"contour"` // folder that hack/contour.sh made; default FindContour; needed with members that run it
	Members  []MemberSpec      `json:"members"` // at most 99
	Edges    []EdgeSpec        `json:"edges"`   // at most 99
	Images   map[string]string `json:"images"`  // image name -> local binary and first arguments, separated by spaces
	Hub      bool              `json:"hub"`     // run a hub
	HubArgs  []string          `json:"hubArgs"` // more flags of `spillway hub` for it
	Register bool              `json:"register"`
	// HubInPlaces has places reach the hub's API where its kubeconfig says.
	HubInPlaces bool `json:"hubInPlaces"`
	// UsualPorts has places reach edges' ports for HTTP and HTTPS as 80 and 443, too, as
	// through a load balancer: for clients that can't be told a port.
	UsualPorts bool `json:"usualPorts"`
	XDSPort    int  `json:"xdsPort"` // where edges find the control plane on the host; default 18000
	DNSPort    int  `json:"dnsPort"` // where places find our DNS server on the host; default 1053
	// Loopback is the part of the host's loopback that the lab uses, as its
	// first two bytes; default "127.0". Labs beside each other need their own.
	Loopback string `json:"loopback"`
}

// MemberSpec is one member cluster.
type MemberSpec struct {
	Name      string   `json:"name"`
	Region    string   `json:"region"`
	Zones     []string `json:"zones"` // one node each
	Latitude  float64  `json:"latitude"`
	Longitude float64  `json:"longitude"`
	OnHub     bool     `json:"onHub"` // it has no API server of its own: it is the hub, too
	// Contour: it runs Contour and an Envoy, which serve the Ingresses of class contour at
	// an address that is the member's own, Spec.IngressAddress.
	Contour        bool   `json:"contour"`
	ContourName    string `json:"contourName"`    // what their status says in place of that address, as of load balancers that have names
	ContourGateway string `json:"contourGateway"` // NAMESPACE/NAME of the Gateway that Contour serves, too; the member gets the kinds of the Gateway API
	// Apart: no packet goes between its pods and what is outside. Clients reach its ingress
	// controller by that address all the same.
	Apart bool `json:"apart"`
}

// EdgeSpec is one edge: an Envoy in a network namespace with the edge's name,
// and beside it a namespace with the place's name for clients.
type EdgeSpec struct {
	Name      string  `json:"name"`
	Place     string  `json:"place"` // such as fra; default NAME-client
	Region    string  `json:"region"`
	Zone      string  `json:"zone"`
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
	HTTPPort  int     `json:"httpPort"`  // default 8080
	HTTPSPort int     `json:"httpsPort"` // default 8443
	Pool      int     `json:"pool"`      // addresses for Gateways and classes of their own; default 2
	OnRequest int     `json:"onRequest"` // of these, the last ones: for Gateways that ask for them
}

// EchoImage is the built-in image: package echo.
const EchoImage = "spillway.dev/echo"

const (
	defaultDir      = ".lab"
	defaultXDSPort  = 18000
	defaultDNSPort  = 1053
	defaultHTTP     = 8080
	defaultHTTPS    = 8443
	defaultLoopback = "127.0"
	most            = 99
)

// DefaultSpec is the fleet of the demo: a hub, members eu-1, eu-2 and us-1,
// edges eu (in fra) and us (in nyc), all registered on the hub.
func DefaultSpec() Spec {
	return Spec{
		Hub: true, Register: true,
		Members: []MemberSpec{
			{Name: "eu-1", Region: "eu", Zones: []string{"eu-a"}, Latitude: 50.11, Longitude: 8.68},
			{Name: "eu-2", Region: "eu", Zones: []string{"eu-b"}, Latitude: 48.86, Longitude: 2.35},
			{Name: "us-1", Region: "us", Zones: []string{"us-a"}, Latitude: 39.04, Longitude: -77.49},
		},
		Edges: []EdgeSpec{
			{Name: "eu", Place: "fra", Region: "eu", Zone: "eu-a", Latitude: 50.11, Longitude: 8.68},
			{Name: "us", Place: "nyc", Region: "us", Zone: "us-b", Latitude: 40.71, Longitude: -74.01},
		},
	}
}

// complete fills the defaults and makes paths absolute.
func (s Spec) complete() (Spec, error) {
	var err error
	if s.Binary == "" {
		if s.Binary, err = os.Executable(); err != nil {
			return s, fmt.Errorf("find own executable: %w", err)
		}
	}
	orDefault(&s.Dir, defaultDir)
	orDefault(&s.Loopback, defaultLoopback)
	orDefault(&s.XDSPort, defaultXDSPort)
	orDefault(&s.DNSPort, defaultDNSPort)
	contour := slices.ContainsFunc(s.Members, func(m MemberSpec) bool { return m.Contour })
	if len(s.Edges) > 0 || contour {
		if s.Envoy, err = FindEnvoy(s.Envoy); err != nil {
			return s, err
		}
	}
	if contour {
		if s.Contour, err = FindContour(s.Contour); err != nil {
			return s, err
		}
	}
	for _, path := range []*string{&s.Dir, &s.Binary, &s.Envoy, &s.Contour} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return s, err
		}
	}
	s.Members, s.Edges = append([]MemberSpec(nil), s.Members...), append([]EdgeSpec(nil), s.Edges...)
	for i := range s.Members {
		if len(s.Members[i].Zones) == 0 {
			s.Members[i].Zones = []string{s.Members[i].Name + "-a"}
		}
	}
	for i := range s.Edges {
		orDefault(&s.Edges[i].Place, s.Edges[i].Name+"-client")
		orDefault(&s.Edges[i].HTTPPort, defaultHTTP)
		orDefault(&s.Edges[i].HTTPSPort, defaultHTTPS)
		orDefault(&s.Edges[i].Pool, defaultPool)
	}
	images, err := absoluteImages(s.Images)
	if err != nil {
		return s, err
	}
	s.Images = images
	s.Images[EchoImage] = s.Binary + " lab-echo"
	if contour {
		s.Images[contourImage], s.Images[envoyImage] = filepath.Join(s.Contour, contourProgram), s.Envoy
	}
	return s, s.validate()
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// absoluteImages resolves the binaries, which pods run from elsewhere.
func absoluteImages(images map[string]string) (map[string]string, error) {
	out := map[string]string{}
	for name, command := range images {
		path, args, _ := strings.Cut(command, " ")
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		if st, err := os.Stat(abs); err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		} else if st.IsDir() || st.Mode()&0o111 == 0 {
			return nil, fmt.Errorf("image %s: %s is not a program", name, abs)
		}
		out[name] = strings.TrimSpace(abs + " " + args)
	}
	return out, nil
}

var (
	nameRule     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)
	loopbackRule = regexp.MustCompile(`^127\.(0|[1-9][0-9]{0,2})$`)
)

func (s Spec) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	seen := map[string]bool{"hub": true, "router": true, "host": true}
	name := func(what, n string) {
		switch {
		case !nameRule.MatchString(n):
			fail("%s %q: use up to 32 of a-z, 0-9 and -", what, n)
		case seen[n]:
			fail("%s %q: the name is taken; members, edges and places share one set of names", what, n)
		}
		seen[n] = true
	}
	for _, m := range s.Members {
		name("member", m.Name)
		if len(m.Zones) > most {
			fail("member %s: at most %d zones", m.Name, most)
		}
	}
	for _, e := range s.Edges {
		name("edge", e.Name)
		name("place", e.Place)
		for _, p := range []int{e.HTTPPort, e.HTTPSPort} {
			if p < 1 || p > 65535 || p == adminPort || p == s.XDSPort {
				fail("edge %s: port %d is not possible", e.Name, p)
			}
		}
		if e.HTTPPort == e.HTTPSPort {
			fail("edge %s: HTTP and HTTPS need two ports", e.Name)
		}
	}
	if n := s.poolBefore(len(s.Edges)); n > mostPool {
		fail("%d addresses in the pools of edges: at most %d", n, mostPool)
	}
	for _, m := range s.Members {
		if m.OnHub && !s.Hub {
			fail("member %s: the spec has no hub", m.Name)
		}
		if err := m.validateContour(); err != nil {
			fail("member %s: %w", m.Name, err)
		}
	}
	if len(s.Members) > most || len(s.Edges) > most {
		fail("at most %d members and %d edges", most, most)
	}
	if s.Register && !s.Hub {
		fail("nothing to register on: the spec has no hub")
	}
	if !loopbackRule.MatchString(s.Loopback) || !s.loopback(0, 1).IsValid() {
		fail("loopback %q: use two bytes such as 127.0", s.Loopback)
	}
	return errors.Join(errs...)
}

// validateContour finds what does not fit together.
func (m MemberSpec) validateContour() error {
	if !m.Contour {
		if m.ContourName != "" || m.ContourGateway != "" {
			return errors.New("contourName and contourGateway are of members with contour: true")
		}
		return nil
	}
	if m.OnHub {
		return errors.New("contour runs in members with an API server of their own")
	}
	if wrong := validation.IsDNS1123Subdomain(m.ContourName); m.ContourName != "" && len(wrong) > 0 {
		return fmt.Errorf("contourName %q: %s", m.ContourName, wrong[0])
	}
	if g := m.gateway(); m.ContourGateway != "" && (g == nil || strings.Contains(g.Name, "/")) {
		return fmt.Errorf("contourGateway %q: use NAMESPACE/NAME", m.ContourGateway)
	}
	return nil
}

// gateway is the one that Contour serves; nil: none.
func (m MemberSpec) gateway() *types.NamespacedName {
	namespace, name, _ := strings.Cut(m.ContourGateway, "/")
	if namespace == "" || name == "" {
		return nil
	}
	return &types.NamespacedName{Namespace: namespace, Name: name}
}

// Third bytes of the lab's part of the host's loopback.
const (
	edgeNet    = 10 // .10.N: the public address of edge N
	poolNet    = 11 // .11.N: addresses of the pools of edges, EdgeSpec.Pool of each
	ingressNet = 12 // .12.N: that of the ingress controller of member N
	sourceNet  = 20 // .20.N: what the host sees as the source of place N
)

// How many addresses an edge has for Gateways of their own, and all edges may have.
const (
	defaultPool = 2
	mostPool    = 254
)

// PoolOf are the addresses that the n-th edge has for them.
func (s Spec) PoolOf(n int) []netip.Addr {
	out := make([]netip.Addr, s.Edges[n].Pool)
	for i := range out {
		out[i] = s.loopback(poolNet, s.poolBefore(n)+i+1)
	}
	return out
}

// door is a port of an edge as clients reach it, and the edge's own that it leads to.
type door struct{ at, to uint16 }

// doors are those of an edge, in places or on the host.
func (s Spec) doors(e EdgeSpec, place bool) []door {
	http, https := uint16(e.HTTPPort), uint16(e.HTTPSPort)
	out := []door{{http, http}, {https, https}}
	if !place || !s.UsualPorts {
		return out
	}
	for _, d := range []door{{80, http}, {443, https}} {
		if d.at != http && d.at != https {
			out = append(out, d)
		}
	}
	return out
}

// poolBefore counts the addresses of the edges before the n-th.
func (s Spec) poolBefore(n int) (count int) {
	for _, e := range s.Edges[:n] {
		count += e.Pool
	}
	return count
}

// loopback is an address in the lab's part of the host's loopback.
func (s Spec) loopback(third, fourth int) netip.Addr {
	a, _ := netip.ParseAddr(fmt.Sprintf("%s.%d.%d", s.Loopback, third, fourth))
	return a
}

// FindEnvoy returns the Envoy to use: the one given, $SPILLWAY_ENVOY,
// .tools/envoy beside this executable, beside its folder or in the working
// directory, or envoy in PATH.
func FindEnvoy(given string) (string, error) {
	if given == "" {
		given = os.Getenv("SPILLWAY_ENVOY")
	}
	if given != "" {
		if !isProgram(given) {
			return "", fmt.Errorf("envoy: %s is not a program: give its path with --envoy", given)
		}
		return given, nil
	}
	candidates := []string{filepath.Join(".tools", "envoy")}
	if self, err := os.Executable(); err == nil {
		dir := filepath.Dir(self)
		candidates = append(candidates, filepath.Join(dir, ".tools", "envoy"), filepath.Join(dir, "..", ".tools", "envoy"))
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		candidates = append(candidates, filepath.Join(dir, "envoy"))
	}
	for _, c := range candidates {
		if isProgram(c) {
			return c, nil
		}
	}
	return "", errors.New("no Envoy found: run `make tools` in a clone, put envoy in PATH, or give its path with --envoy or $SPILLWAY_ENVOY")
}

func isProgram(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}

// adminPort is Envoy's admin port, inside the edge's namespace and at its
// public address on the host.
const adminPort = 9901

func adminAddress(edge netip.Addr) string { return netip.AddrPortFrom(edge, adminPort).String() }
