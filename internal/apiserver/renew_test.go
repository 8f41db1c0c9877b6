package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/eventually"
)

// TestRenewal: as time goes on, each certificate is renewed at half of its life,
// with its key, and the kubeconfigs follow. A failure is made good at the next look.
func TestRenewal(t *testing.T) {
	t.Parallel()
	cfg, err := Config{DataDir: t.TempDir(), CRDs: true}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDataDir(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	in := access{cfg, d, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:6443"))}
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	f, _, err := in.refresh(begin)
	if err != nil {
		t.Fatal(err)
	}
	files := func() map[string]string {
		out := map[string]string{}
		for _, p := range []string{f.caCert, f.servingCert, f.servingKey, f.adminCert, f.adminKey, f.serveCert, f.serveKey, f.serviceAccountKey, cfg.KubeconfigPath, cfg.ServeKubeconfig()} {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			out[p] = string(b)
		}
		return out
	}
	ticks, looked := make(chan time.Time), make(chan struct{})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	full := true
	go keepFresh(ctx, ticks, func(now time.Time) error {
		defer func() { looked <- struct{}{} }()
		if now.Sub(begin) > leafLife/2 && full {
			full = false
			return errors.New("no space left on device")
		}
		_, _, err := in.refresh(now)
		return err
	}, slog.New(slog.DiscardHandler))
	look := func(after time.Duration) {
		ticks <- begin.Add(after)
		<-looked
	}

	first := files()
	look(leafLife/2 - 24*time.Hour)
	for p, was := range first {
		if files()[p] != was {
			t.Errorf("%s is new too early", p)
		}
	}
	look(leafLife/2 + 24*time.Hour) // fails
	look(leafLife/2 + 25*time.Hour)
	renewed := map[string]bool{f.servingCert: true, f.adminCert: true, f.serveCert: true, cfg.KubeconfigPath: true}
	for p, now := range files() {
		if (now != first[p]) != renewed[p] {
			t.Errorf("%s: is new %t, want %t", p, now != first[p], renewed[p])
		}
	}
	for _, p := range []string{f.servingCert, f.adminCert, f.serveCert} {
		c, err := readCert(p)
		if err != nil || c.NotAfter.Before(begin.Add(leafLife*3/2)) {
			t.Errorf("%s: until %v, %v", p, c.NotAfter, err)
		}
	}
}

// TestServerTakesNewCertificates: a running server presents a certificate that
// was renewed under it, and takes the new one of a client.
func TestServerTakesNewCertificates(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	dir := filepath.Dir(s.kubeconfig)
	pki := func(name string) string { return filepath.Join(dir, "pki", name) }
	ca, err := ensureCA(pki("ca.crt"), pki("ca.key"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	renew := func(name string) *x509.Certificate {
		have, err1 := readCert(pki(name + ".crt"))
		key, err2 := readKey(pki(name + ".key"))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if _, err := issue(ca, pki(name+".crt"), have, key, time.Now(), leafLife); err != nil {
			t.Fatal(err)
		}
		fresh, err := readCert(pki(name + ".crt"))
		if err != nil {
			t.Fatal(err)
		}
		return fresh
	}
	serving := renew("serving")
	renew("serve")
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	at, err := url.Parse(s.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "the new certificate is served", func(ctx context.Context) error {
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots}}
		c, err := dialer.DialContext(ctx, "tcp", at.Host)
		if err != nil {
			return err
		}
		defer c.Close()
		if got := c.(*tls.Conn).ConnectionState().PeerCertificates[0]; got.SerialNumber.Cmp(serving.SerialNumber) != 0 {
			return fmt.Errorf("serial %v, want %v", got.SerialNumber, serving.SerialNumber)
		}
		return nil
	})
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "serve.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(config).NetworkingV1().Ingresses("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("with the new certificate: %v", err)
	}
}

// TestServeKubeconfig: it may what serve needs, and no more.
func TestServeKubeconfig(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(filepath.Dir(s.kubeconfig), "serve.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if config.CertFile == "" || len(config.CertData) > 0 {
		t.Error("the certificate is inline: nobody reads it again")
	}
	client := kubernetes.NewForConfigOrDie(config)
	if _, err := client.NetworkingV1().Ingresses("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list Ingresses: %v", err)
	}
	if _, err := dynamic.NewForConfigOrDie(config).Resource(v1alpha1.GroupVersion.WithResource("edges")).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list Edges: %v", err)
	}
	_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named("x")}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("make a ConfigMap: %v", err)
	}
	if err := client.NetworkingV1().Ingresses("default").Delete(t.Context(), "x", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete an Ingress: %v", err)
	}
}
