package pki

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

func TestSignedByAnAuthority(t *testing.T) {
	ca, err := Self(Authority("ours", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	other, err := Self(Authority("ours", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	template := Leaf("shop", time.Hour, x509.ExtKeyUsageServerAuth)
	template.DNSNames = []string{"shop.example"}
	leaf, err := ca.Sign(template)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		by  *Pair
		use x509.ExtKeyUsage
		ok  bool
	}{
		{ca, x509.ExtKeyUsageServerAuth, true},
		{ca, x509.ExtKeyUsageClientAuth, false},
		{other, x509.ExtKeyUsageServerAuth, false},
	} {
		_, err := leaf.Cert.Verify(x509.VerifyOptions{DNSName: "shop.example", Roots: c.by.Pool(), KeyUsages: []x509.ExtKeyUsage{c.use}})
		if (err == nil) != c.ok {
			t.Errorf("as %v: %v", c.use, err)
		}
	}
	if ca.Cert.SerialNumber.Cmp(other.Cert.SerialNumber) == 0 {
		t.Error("two certificates have one serial number")
	}
	key, err := leaf.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(leaf.CertPEM(), key)
	if err != nil || !pair.Leaf.Equal(leaf.TLS().Leaf) {
		t.Error("in PEM it is another one", err)
	}
}
