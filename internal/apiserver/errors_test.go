package apiserver

import (
	"crypto/x509"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a user gets wrong is told in one line that says what to do.
func TestMistakes(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	taken := netip.MustParseAddrPort(busy.Addr().String())
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	locked, err := openDataDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer locked.close()
	kept := t.TempDir()
	if err := os.WriteFile(filepath.Join(kept, "port"), []byte(taken.String()[len("127.0.0.1:"):]), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := t.TempDir()
	if err := os.MkdirAll(filepath.Join(broken, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "pki", "ca.crt"), []byte("no"), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"no directory", Config{}, "give --data-dir"},
		{"a directory below a file", Config{DataDir: filepath.Join(file, "data")}, "can't be written (not a directory): change its owner or mode, or give another --data-dir"},
		{"a directory in use", Config{DataDir: locked.path}, "is in use by another process: stop that one, or give another --data-dir"},
		{"a port in use", Config{DataDir: t.TempDir(), Address: taken}, "is in use by another process: give another --port"},
		{"the kept port in use", Config{DataDir: kept}, "stop that process, or give another --port"},
		{"not loopback", Config{DataDir: t.TempDir(), Address: netip.MustParseAddrPort("0.0.0.0:0")}, "is not on loopback"},
		{"not a prefix", Config{DataDir: t.TempDir(), ServiceCIDR: "10.0.0.1"}, "give a prefix such as 10.96.0.0/16"},
		{"a kubeconfig nowhere", Config{DataDir: t.TempDir(), KubeconfigPath: filepath.Join(file, "k")}, "give another --kubeconfig"},
		{"a broken CA", Config{DataDir: broken}, "restore it from a backup, or start with an empty --data-dir"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Run(t.Context(), c.cfg, func(string) { t.Error("ready") })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q in it", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
		})
	}
}

func TestCertificatesAreRenewed(t *testing.T) {
	d, err := openDataDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	now := time.Now()
	loopback, service := netip.MustParseAddr("127.0.0.1"), net.ParseIP("10.96.0.1")
	read := func(now time.Time, addr netip.Addr) (all [3]string) {
		t.Helper()
		f, err := d.ensurePKI(addr, service, now)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range []string{f.caCert, f.servingCert, f.adminCert} {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			all[i] = string(b)
		}
		ca, err := readCert(f.caCert)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AddCert(ca)
		serving, err := readCert(f.servingCert)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := serving.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, DNSName: addr.String()}); err != nil {
			t.Fatal(err)
		}
		return all
	}

	first := read(now, loopback)
	if got := read(now.Add(leafLife/2-time.Hour), loopback); got != first {
		t.Error("something was renewed though more than half of its life is left")
	}
	other := read(now, netip.MustParseAddr("127.0.0.2"))
	if other[0] != first[0] || other[1] == first[1] || other[2] != first[2] {
		t.Error("another address wants another serving certificate, and only that")
	}
	late := read(now.Add(leafLife/2+time.Hour), loopback)
	if late[0] != first[0] || late[1] == other[1] || late[2] == first[2] {
		t.Error("after half of their life, serving and admin certificate are renewed and the CA is not")
	}
}
