package ingest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// minRSA is the shortest RSA key, in bits, that Envoy takes.
const minRSA = 2048

// Secret reads a Secret of type kubernetes.io/tls. What is wrong with it is in
// the row: whether it matters to anybody depends on who refers to it.
func Secret(o *corev1.Secret) (model.SecretID, model.Certificate) {
	name := object("Secret", o)
	id := model.SecretID{Workspace: name.Workspace, Namespace: name.Namespace, Name: name.Name}
	c, err := certificate(o)
	if err != nil {
		return id, model.Certificate{Problem: err.Error()}
	}
	if c.To = allowed(o.Annotations[v1alpha1.AnnotationDistribute]); c.To != (model.Texts{}) {
		c.UID = string(o.UID)
	}
	return id, c
}

// allowed reads which members may have a key.
func allowed(text string) model.Texts {
	if strings.TrimSpace(text) == "true" {
		return model.TextsOf([]string{model.AnyMember})
	}
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); len(validation.IsDNS1123Label(name)) == 0 && name != "false" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return model.TextsOf(slices.Compact(names))
}

// certificate reads chain and key. Errors never quote what the Secret holds.
func certificate(o *corev1.Secret) (model.Certificate, error) {
	if o.Type != corev1.SecretTypeTLS {
		return model.Certificate{}, fmt.Errorf("the Secret has type %q: use %s", o.Type, corev1.SecretTypeTLS)
	}
	return keyPair(part{corev1.TLSCertKey, o.Data[corev1.TLSCertKey]}, part{corev1.TLSPrivateKeyKey, o.Data[corev1.TLSPrivateKeyKey]})
}

// part is a part of an object that holds PEM, and what it is called there.
type part struct {
	name string
	text []byte
}

// keyPair reads a chain and its key. Errors never quote what they hold.
func keyPair(of, by part) (model.Certificate, error) {
	none := model.Certificate{}
	chain, leaf, err := parseChain(of.text)
	if err != nil {
		return none, fmt.Errorf("%s: %w", of.name, err)
	}
	key, err := parseKey(by.text)
	if err != nil {
		return none, fmt.Errorf("%s: %w", by.name, err)
	}
	if _, err := tls.X509KeyPair(chain, key); err != nil {
		return none, fmt.Errorf("%s does not belong to %s, or can't be read", by.name, of.name)
	}
	if err := usable(leaf); err != nil {
		return none, err
	}
	out := model.Certificate{Chain: chain, Key: key, NotAfter: leaf.NotAfter.Unix()}
	for _, n := range leaf.DNSNames {
		out.Names = append(out.Names, strings.ToLower(n))
	}
	slices.Sort(out.Names)
	out.Names = slices.Compact(out.Names)
	return out, nil
}

// usable checks that Envoy will take the key: it refuses the whole resource otherwise.
func usable(leaf *x509.Certificate) error {
	switch k := leaf.PublicKey.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSA {
			return fmt.Errorf("the RSA key has %d bits: use at least %d", k.N.BitLen(), minRSA)
		}
		return nil
	case *ecdsa.PublicKey:
		if bits := k.Curve.Params().BitSize; bits < 256 {
			return fmt.Errorf("the elliptic curve has %d bits: use P-256, P-384 or P-521", bits)
		}
		return nil
	}
	return fmt.Errorf("keys of type %v are not supported: use RSA or ECDSA", leaf.PublicKeyAlgorithm)
}

// parseChain returns the certificates of a PEM text without anything else that
// is in it, and the first of them.
func parseChain(data []byte) ([]byte, *x509.Certificate, error) {
	var out bytes.Buffer
	var leaf *x509.Certificate
	for block := (*pem.Block)(nil); ; {
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, errors.New("a certificate can't be parsed: write PEM, the leaf first")
		}
		if leaf == nil {
			leaf = c
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}); err != nil {
			return nil, nil, err
		}
	}
	if leaf == nil {
		return nil, nil, errors.New("there is no certificate: write PEM, the leaf first")
	}
	return out.Bytes(), leaf, nil
}

// parseKey returns the first private key of a PEM text.
func parseKey(data []byte) ([]byte, error) {
	for block := (*pem.Block)(nil); ; {
		if block, data = pem.Decode(data); block == nil {
			return nil, errors.New("there is no private key: write PEM, not encrypted")
		}
		if x509.IsEncryptedPEMBlock(block) || block.Type == "ENCRYPTED PRIVATE KEY" { //nolint:staticcheck // only to refuse it
			return nil, errors.New("the private key is encrypted: write it in clear")
		}
		if block.Type == "PRIVATE KEY" || strings.HasSuffix(block.Type, " PRIVATE KEY") {
			return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}), nil
		}
	}
}
