package envoy

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// shops serves the host "shop.example" from one pod, and any TLS names.
func shops(t testing.TB, certificates delivery) *rig {
	t.Helper()
	r := newRigWith(t, timingForTests, certificates, usual)
	p := newPod(t, "web@eu-1/0")
	r.commit(func(tx *inc.Tx) {
		r.shop(tx, p.endpoint(), "")
		r.present(t, tx, "shop.example", "cert", "first")
	})
	r.settled(t)
	return r
}

// present gives a TLS name the Secret shop/secret, with a certificate of a common name.
func (w *world) present(t testing.TB, tx *inc.Tx, host model.Host, secret, name string) {
	id := model.SecretID{Namespace: "shop", Name: secret}
	w.p.In.Certificates.Set(tx, id, selfSigned(t, name))
	w.p.Chains.Set(tx, model.HostKey{Class: testClass, Host: host}, fleet.Chain{Secrets: []model.SecretID{id}})
}

// shake makes one handshake and returns the common name that was presented.
func (r *rig) shake(config *tls.Config) (name string, state tls.ConnectionState, err error) {
	config = config.Clone()
	config.InsecureSkipVerify = true
	c, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.https), config)
	if err != nil {
		return "", state, err
	}
	defer func() { _ = c.Close() }()
	// The tickets of TLS 1.3 come with the first bytes.
	if _, err := fmt.Fprint(c, "GET / HTTP/1.0\r\nHost: shop.example\r\n\r\n"); err != nil {
		return "", state, err
	}
	_, _ = c.Read(make([]byte, 1024))
	state = c.ConnectionState()
	return state.PeerCertificates[0].Subject.CommonName, state, nil
}

func (r *rig) presents(t testing.TB, sni, want string) {
	t.Helper()
	name, _, err := r.shake(&tls.Config{ServerName: sni})
	if err != nil && want != "refused" || err == nil && name != want {
		t.Errorf("%q is presented with %q (%v), want %q", sni, name, err, want)
	}
}

// The first client of a name gets what there is for it, or is refused at once;
// whatever changes later reaches the names that were asked for before.
func TestNamesOnDemand(t *testing.T) {
	r := shops(t, onDemand)
	listener := r.get(t, r.t.Listeners, fmt.Sprintf("https-%d", r.https))
	becomes := func(sni, want string) {
		t.Helper()
		envoytest.Until(t, sni+" to be presented with "+want, func() bool {
			name, _, err := r.shake(&tls.Config{ServerName: sni})
			return name == want || err != nil && want == "refused"
		})
	}
	r.presents(t, "shop.example", "first")
	r.presents(t, "a.wild.example", "refused")
	r.presents(t, "", "refused")

	r.commit(func(tx *inc.Tx) {
		r.present(t, tx, "*.wild.example", "wild", "wildcard")
		r.present(t, tx, "", "any", "any")
	})
	for i := range 50 { // no first one is lost
		r.presents(t, fmt.Sprintf("n%d.wild.example", i), "wildcard")
	}
	becomes("a.wild.example", "wildcard")
	becomes("", "any")

	r.commit(func(tx *inc.Tx) { r.present(t, tx, "*.wild.example", "wild", "rotated") })
	for i := range 50 {
		becomes(fmt.Sprintf("n%d.wild.example", i), "rotated")
	}
	r.commit(func(tx *inc.Tx) { r.present(t, tx, "n7.wild.example", "own", "own") })
	becomes("n7.wild.example", "own")
	r.presents(t, "n8.wild.example", "rotated")
	r.commit(func(tx *inc.Tx) {
		r.p.Chains.Delete(tx, model.HostKey{Class: testClass, Host: "n7.wild.example"})
		r.p.Chains.Delete(tx, model.HostKey{Class: testClass, Host: ""})
	})
	becomes("n7.wild.example", "rotated")
	becomes("", "refused")
	if !r.get(t, r.t.Listeners, listener.Name).Equal(listener) {
		t.Error("the listener changed with the certificates")
	}
}

// However many names are asked for under a wildcard, each is served, and the
// proxy keeps as many as it may. Those that are unknown take no room.
func TestFloodOfNames(t *testing.T) {
	r := shops(t, onDemand)
	r.commit(func(tx *inc.Tx) { r.present(t, tx, "*.wild.example", "wild", "wildcard") })
	for i := range 3 * aliasLimit {
		r.presents(t, fmt.Sprintf("n%d.wild.example", i), "wildcard")
		r.presents(t, fmt.Sprintf("n%d.unknown.example", i), "refused")
	}
	kept := func() int { // each is there by its own name and by that of its secret
		return strings.Count(r.proc.Get(t, "/config_dump?resource=dynamic_active_secrets"), `.wild.example"`) / 2
	}
	envoytest.Until(t, "the oldest names to leave", func() bool { return kept() == aliasLimit })
	r.presents(t, "n0.wild.example", "wildcard")
	if dump := r.proc.Get(t, "/config_dump?include_eds"); strings.Contains(dump, "unknown.example") {
		t.Error("unknown names are kept")
	}
}

// A proxy that lost its control plane serves the names it was asked for before.
func TestNamesWithoutControlPlane(t *testing.T) {
	r := shops(t, onDemand)
	r.presents(t, "shop.example", "first")
	r.stop()
	for range 10 {
		r.presents(t, "shop.example", "first")
	}
}

// What no host can be called is never asked of us, and takes nothing down.
func TestHostileNames(t *testing.T) {
	r := shops(t, onDemand)
	r.presents(t, "shop.example", "first")
	for _, sni := range []string{"*", "*.", "shop/cert", "\xff\xfe", "a\nb", strings.Repeat("a.", 120) + "example", "shop.example:443", "%s", ".", "..", "-"} {
		r.presents(t, sni, "refused")
	}
	r.commit(func(tx *inc.Tx) { r.present(t, tx, "later.example", "later", "later") })
	r.presents(t, "later.example", "later")
	if log := r.proc.Log.String(); log != "" {
		t.Errorf("Envoy warns:\n%s", log)
	}
}

// A session is resumed with static certificates, in TLS 1.2 and 1.3, and not
// with those on demand: that is their price.
func TestResumption(t *testing.T) {
	for _, certificates := range []delivery{static, onDemand} {
		r := shops(t, certificates)
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			config := &tls.Config{ServerName: "shop.example", MinVersion: version, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
			for i := range 3 {
				_, state, err := r.shake(config)
				if err != nil {
					t.Fatal(err)
				}
				if want := certificates == static && i > 0; state.DidResume != want {
					t.Errorf("%s, %s, connection %d: resumed %t", certificates, tls.VersionName(version), i, state.DidResume)
				}
			}
		}
	}
}

// handshakes makes new connections to known names until change is done, and
// returns how many were made and what failed.
func (r *rig) handshakes(t testing.TB, names []string, change func()) (made int64, failed []error) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var count atomic.Int64
	done := make(chan struct{})
	for worker := range 4 {
		wg.Go(func() {
			for i := worker; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				_, _, err := r.shake(&tls.Config{ServerName: names[i%len(names)]})
				count.Add(1)
				if err != nil {
					mu.Lock()
					failed = append(failed, fmt.Errorf("%s: %w", names[i%len(names)], err))
					mu.Unlock()
				}
			}
		})
	}
	more := func() {
		at := count.Load() + 50
		envoytest.Until(t, "handshakes", func() bool { return count.Load() >= at })
	}
	more()
	change()
	more()
	close(done)
	wg.Wait()
	return count.Load(), failed
}

func TestRotationUnderLoad(t *testing.T) {
	for _, certificates := range []delivery{static, onDemand} {
		t.Run(certificates.String(), func(t *testing.T) {
			r := shops(t, certificates)
			r.commit(func(tx *inc.Tx) { r.present(t, tx, "*.wild.example", "wild", "0") })
			r.settled(t)
			names := []string{"shop.example", "a.wild.example", "b.wild.example"}
			_, failed := r.handshakes(t, names, func() {
				for i := range 10 {
					now := fmt.Sprint(i + 1)
					r.commit(func(tx *inc.Tx) {
						r.present(t, tx, "shop.example", "cert", now)
						r.present(t, tx, "*.wild.example", "wild", now)
					})
					for _, name := range names {
						envoytest.Until(t, "the new certificate", func() bool {
							got, _, err := r.shake(&tls.Config{ServerName: name})
							return err != nil || got == now
						})
					}
				}
			})
			if len(failed) > 0 {
				t.Errorf("%d handshakes failed, first %v", len(failed), failed[0])
			}
		})
	}
}

// The option can be changed while clients come: those of names that were asked
// for before see nothing of it.
func TestDeliveryChangesUnderLoad(t *testing.T) {
	r := shops(t, static)
	r.commit(func(tx *inc.Tx) { r.present(t, tx, "*.wild.example", "wild", "wildcard") })
	r.settled(t)
	chains := func() int {
		l := decode(t, r.get(t, r.t.Listeners, fmt.Sprintf("https-%d", r.https))).(*listenerv3.Listener)
		return len(l.FilterChains)
	}
	m := &twoMembers{rig: r}
	overTLS := request{host: "shop.example", path: "/", tls: true, sni: "shop.example"}
	_, failed := r.handshakes(t, []string{"shop.example", "a.wild.example"}, func() {
		noneFailed(t, m.load(t, 200, 4, overTLS, 50, func() {
			for _, certificates := range []delivery{onDemand, static, onDemand} {
				r.commit(func(tx *inc.Tx) { r.deliver(tx, certificates) })
				r.settled(t)
				if chains() != 2 {
					t.Fatalf("%d chains", chains())
				}
				r.presents(t, "shop.example", "first")
				r.presents(t, "a.wild.example", "wildcard") // it was asked for before the next change
			}
		}))
	})
	if len(failed) > 0 {
		t.Errorf("%d handshakes failed, first %v", len(failed), failed[0])
	}
}

// A rotation sends one secret, however many there are.
func TestRotationIsSmall(t *testing.T) {
	for certificates, name := range map[delivery]string{static: "shop/cert7", onDemand: "h7.example"} {
		w := newWorld()
		var sent []string
		w.g.Commit(func(tx *inc.Tx) {
			w.plain(tx)
			for i := range 200 {
				w.present(t, tx, model.Host(fmt.Sprintf("h%d.example", i)), fmt.Sprintf("cert%d", i), "first")
			}
		})
		w.g.Commit(func(tx *inc.Tx) { w.deliver(tx, certificates) })
		for _, typ := range w.t.Types() {
			typ.Table.Watch(func(changes []inc.Change[Key, Resource]) {
				for _, c := range changes {
					sent = append(sent, c.Key.Name)
					if c.New.Size() > 1024 {
						t.Errorf("%s: %d bytes", certificates, c.New.Size())
					}
				}
			})
		}
		stats := w.g.Commit(func(tx *inc.Tx) { w.present(t, tx, "h7.example", "cert7", "second") })
		if !slices.Equal(sent, []string{name}) {
			t.Errorf("%s: sent %v", certificates, sent)
		}
		if stats.Evaluated > 4 {
			t.Errorf("%s: %+v", certificates, stats)
		}
	}
}

// A certificate that comes costs itself on demand: no list of all is made anew.
func TestNewCertificateOnDemandIsSmall(t *testing.T) {
	for _, n := range []int{1, 200} {
		w := newWorld()
		w.g.Commit(func(tx *inc.Tx) {
			w.plain(tx)
			w.deliver(tx, onDemand)
			for i := range n {
				w.present(t, tx, model.Host(fmt.Sprintf("h%d.example", i)), fmt.Sprintf("cert%d", i), "first")
			}
		})
		stats := w.g.Commit(func(tx *inc.Tx) { w.present(t, tx, "new.example", "new", "new") })
		if stats.Evaluated > 6 {
			t.Errorf("%d certificates: %+v", n, stats)
		}
	}
}

// A class whose static certificates are many is told of the other way.
func TestManyCertificates(t *testing.T) {
	const crowdFrom = 300 // see fleet
	w := newWorld()
	set := func(n int, certificates delivery) {
		w.g.Commit(func(tx *inc.Tx) {
			w.classWith(tx, testClass, 1, httpPort, httpsPort, certificates, false)
			w.edge(tx, "fra", testView)
			for i := range n {
				id := model.SecretID{Namespace: "shop", Name: fmt.Sprint("cert", i)}
				w.p.In.Certificates.Set(tx, id, model.Certificate{Chain: []byte("c"), Key: []byte("k")})
				w.p.Chains.Set(tx, model.HostKey{Class: testClass, Host: model.Host(fmt.Sprintf("h%d.example", i))}, fleet.Chain{Secrets: []model.SecretID{id}})
			}
		})
	}
	warned := func() bool { return strings.Contains(w.findings(), string(model.ReasonManyCertificates)) }
	set(crowdFrom, static)
	if warned() {
		t.Errorf("warned too early: %s", w.findings())
	}
	set(crowdFrom+1, static)
	if !warned() || !strings.HasPrefix(w.findings(), "IngressClass spillway: ") {
		t.Errorf("not warned: %s", w.findings())
	}
	if l := decode(t, w.get(t, w.t.Listeners, fmt.Sprintf("https-%d", httpsPort))).(*listenerv3.Listener); len(l.FilterChains) != crowdFrom+1 {
		t.Errorf("%d are served", len(l.FilterChains))
	}
	set(crowdFrom+1, onDemand)
	if warned() {
		t.Errorf("warned on demand: %s", w.findings())
	}
}

func TestCertificateNames(t *testing.T) {
	for name, want := range map[string]string{
		"shop.example":     "*.example *.",
		"a.b.example":      "*.b.example *.example *.",
		"A.B.example":      "a.b.example *.b.example *.example *.",
		"*.b.example":      "*.example *.",
		"localhost":        "*.",
		"shop.example.":    "*.example. *.",
		nameless:           "",
		"shop/cert":        "", // a Secret's, which nobody has
		"kcp:a:b/shop.tls": "",
	} {
		if got := strings.Join(slices.Collect(CertificateNames(name)), " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestCertificateCovers: it says the same as CertificateNames, of any two names.
func TestCertificateCovers(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "A", "b", "*", ".", ".", ".", "/", "ab"})
	name := rapid.Map(rapid.SliceOfN(part, 0, 7), func(parts []string) string { return strings.Join(parts, "") })
	rapid.Check(t, func(t *rapid.T) {
		published, asked := name.Draw(t, "published"), name.Draw(t, "asked")
		if rapid.Bool().Draw(t, "long") {
			asked = strings.Repeat("x", longestHost-3) + asked
		}
		want := slices.Contains(slices.Collect(CertificateNames(asked)), published)
		if got := CertificateCovers(published, asked); got != want {
			t.Fatalf("%q covers %q: %v, want %v", published, asked, got, want)
		}
	})
}
