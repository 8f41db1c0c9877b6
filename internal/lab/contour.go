package lab

import (
	"bytes"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"text/template"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/spillway-dev/spillway/internal/lab/user"
	"github.com/spillway-dev/spillway/internal/pki"
)

// ContourVersion is of the Contour that members run; hack/contour.sh builds it.
const ContourVersion = "v1.33.8"

const (
	contourNamespace = "projectcontour"
	contourService   = "contour" // its xDS, for Envoy
	envoyService     = "envoy"   // of type LoadBalancer: for clients
	contourImage     = "ghcr.io/projectcontour/contour"
	envoyImage       = "docker.io/envoyproxy/envoy"

	contourProgram   = "contour"        // in the folder that hack/contour.sh makes
	contourManifests = "manifests.yaml" // beside it: kinds, accounts and roles, as its module has them
)

// Where pods of a member find what is not in their network, at the member's gate.
const (
	gateAPI = 6443
	gateXDS = 8001
)

//go:embed contour.yaml
var contourText string

var contourTemplate = template.Must(template.New("contour.yaml").Option("missingkey=error").Parse(contourText))

// contourValues are what differs between members.
type contourValues struct {
	API, XDS netip.AddrPort
	Gateway  *types.NamespacedName // that Contour serves; nil: Ingresses alone
}

// contourObjects are what Contour consists of in a member, but for its kinds and roles.
func contourObjects(v contourValues) ([]object, error) {
	var text bytes.Buffer
	if err := contourTemplate.Execute(&text, v); err != nil {
		return nil, err
	}
	objects, err := parseObjects(text.Bytes())
	if err != nil {
		return nil, err
	}
	secrets, err := contourSecrets()
	return append(secrets, objects...), err
}

// parseObjects reads the documents of a YAML file.
func parseObjects(text []byte) (out []object, err error) {
	in := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := object{}
		err := in.Decode(&o)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if kind, _ := o["kind"].(string); len(o) > 0 {
			if !user.Knows(kind) {
				return nil, fmt.Errorf("the lab does not know the kind %q", kind)
			}
			out = append(out, o)
		}
	}
}

// contourSecrets are the certificates by which Contour and its Envoy know each other, of
// an authority of their own: as `contour certgen` makes them.
func contourSecrets() (out []object, err error) {
	ca, err := pki.Self(pki.Authority("contour", certLife)) // its key is never written
	if err != nil {
		return nil, fmt.Errorf("contour's CA: %w", err)
	}
	for _, c := range []struct {
		secret, name string
		use          x509.ExtKeyUsage
	}{{"contourcert", contourService, x509.ExtKeyUsageServerAuth}, {"envoycert", envoyService, x509.ExtKeyUsageClientAuth}} {
		leaf := pki.Leaf(c.name, certLife, c.use)
		leaf.DNSNames = []string{c.name}
		pair, err := ca.Sign(leaf)
		if err != nil {
			return nil, fmt.Errorf("certificate of %s: %w", c.name, err)
		}
		key, err := pair.KeyPEM()
		if err != nil {
			return nil, err
		}
		out = append(out, named("v1", "Secret", contourNamespace, c.secret, object{"type": "Opaque", "stringData": object{
			"ca.crt": string(ca.CertPEM()), "tls.crt": string(pair.CertPEM()), "tls.key": string(key),
		}}))
	}
	return out, nil
}

// FindContour returns the folder of Contour to use: the one given, $SPILLWAY_CONTOUR, or
// .tools/contour-VERSION beside this executable, beside its folder or in the working directory.
func FindContour(given string) (string, error) {
	if given == "" {
		given = os.Getenv("SPILLWAY_CONTOUR")
	}
	if given != "" {
		if !isProgram(filepath.Join(given, contourProgram)) {
			return "", fmt.Errorf("contour: %s is no folder with the program in it: run `make tools` in a clone, or give the folder with $SPILLWAY_CONTOUR", given)
		}
		return given, nil
	}
	folder := filepath.Join(".tools", "contour-"+ContourVersion)
	candidates := []string{folder}
	if self, err := os.Executable(); err == nil {
		dir := filepath.Dir(self)
		candidates = append(candidates, filepath.Join(dir, folder), filepath.Join(dir, "..", folder))
	}
	for _, c := range candidates {
		if isProgram(filepath.Join(c, contourProgram)) {
			return c, nil
		}
	}
	return "", errors.New("no Contour found: run `make tools` in a clone, or give its folder with $SPILLWAY_CONTOUR")
}

// IngressAddress is where clients reach the ingress controller of a member, on the host and
// in every place; invalid for a member that has none.
func (s Spec) IngressAddress(member string) netip.Addr {
	for i, m := range s.Members {
		if m.Name == member && m.Contour {
			return s.loopback(ingressNet, i+1)
		}
	}
	return netip.Addr{}
}

// published is what a member's load balancer says its address is.
func (s Spec) published(m MemberSpec) string {
	if m.ContourName != "" {
		return m.ContourName
	}
	return s.IngressAddress(m.Name).String()
}

// leafAddresses are what a member's controllers may call their addresses.
func (s Spec) leafAddresses(m MemberSpec) []any {
	switch {
	case !m.Contour:
		return nil
	case m.ContourName != "":
		return []any{m.ContourName}
	}
	a := s.IngressAddress(m.Name)
	return []any{netip.PrefixFrom(a, a.BitLen()).String()}
}
