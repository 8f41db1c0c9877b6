package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/spillway-dev/spillway/internal/pki"
)

// Ports of the authority, in its place.
const (
	directoryPort  = 14000
	managementPort = 15000
)

// authority is pebble in a place of the lab, as an authority on the internet is: it finds
// hosts by our DNS, and asks for challenges at port 80.
type authority struct {
	at netip.Addr // of its place, which other places reach
	ca string     // file of who has signed the certificate of the authority itself
	guest
}

// newAuthority writes what it needs, and returns what is to run.
func (w *world) newAuthority(ctx context.Context, place string, p programs) (*authority, error) {
	at, err := w.addressOf(ctx, place)
	if err != nil {
		return nil, err
	}
	template := pki.Leaf("pebble", 24*time.Hour, x509.ExtKeyUsageServerAuth)
	template.IPAddresses = []net.IP{at.AsSlice()}
	pair, err := w.ca.Sign(template)
	if err != nil {
		return nil, err
	}
	key, err := pair.KeyPEM()
	if err != nil {
		return nil, err
	}
	ca, err1 := w.keep("pebble-ca.pem", w.ca.CertPEM())
	cert, err2 := w.keep("pebble.pem", pair.CertPEM())
	secret, err3 := w.keep("pebble-key.pem", key)
	text, err4 := json.Marshal(object{"pebble": object{
		"listenAddress": netip.AddrPortFrom(at, directoryPort).String(), "managementListenAddress": netip.AddrPortFrom(at, managementPort).String(),
		"certificate": cert, "privateKey": secret, "httpPort": 80, "tlsPort": 443, "keyAlgorithm": "ecdsa",
	}})
	config, err5 := w.keep("pebble.json", text)
	// Every certificate has its hosts asked for: none is taken for proven by the one before.
	argv := []string{"env", "PEBBLE_AUTHZREUSE=0", p.pebble, "-config", config, "-dnsserver", "127.0.0.1:53"}
	return &authority{at, ca, guest{"pebble", place, argv}}, errors.Join(err1, err2, err3, err4, err5)
}

func (a *authority) url(port uint16, path string) string {
	return "https://" + netip.AddrPortFrom(a.at, port).String() + path
}

// directory is where clients begin.
func (a *authority) directory() string { return a.url(directoryPort, "/dir") }

// root is the certificate that the certificates of hosts go back to: made anew at each
// start. It waits for the authority.
func (w *world) root(ctx context.Context, a *authority) (out *x509.Certificate, err error) {
	return out, patience.Await(ctx, "the authority's root", func(ctx context.Context) error {
		text, err := w.fetch(ctx, a.place, a.ca, a.url(managementPort, "/roots/0"))
		if err != nil {
			return err
		}
		out, err = certificateOf(text)
		return err
	})
}

// certificateOf is the first certificate of a text, a host's own in that of a Secret.
func certificateOf(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%.80q does not begin with a certificate", text)
	}
	return x509.ParseCertificate(block.Bytes)
}

// addressOf is that of a place in the network of the fleet.
func (w *world) addressOf(ctx context.Context, place string) (netip.Addr, error) {
	st, err := w.Lab.Status(ctx)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, p := range st.Places {
		if p.Name == place {
			return netip.ParseAddr(p.Address)
		}
	}
	return netip.Addr{}, fmt.Errorf("the lab has no place %s", place)
}
