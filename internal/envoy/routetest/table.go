package routetest

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/pki"
)

// Table is a file of what becomes of connections and datagrams, by port, name of the
// handshake and certificate of the client: what is served, "----", and what is asked.
//
//	clients AUTHORITY[,AUTHORITY][!]   of all HTTPS ports that say nothing else; "!": whoever comes
//	shows AUTHORITY                    pods over TLS are shown a certificate of it
//	backend NAME [tls [asks=AUTHORITY] [for=NAME]]   pods that speak TLS, for NAME.internal unless it is said; others need not be named
//	port NUMBER HTTPS [clients=…|-]    takes requests, or TLS of others, by name
//	port NUMBER TCP|UDP BACKEND[=WEIGHT],…   hands on all that comes; "none" is a backend that is none
//	host PORT HOST|* BACKEND           requests; "*.x" is for names of any depth
//	pass PORT HOST BACKEND|none        TLS ends at the backend
//	end PORT HOST BACKEND|none [bare]  TLS ends at the proxy; bare: its certificate is not there
//	----
//	PORT NAME|- [as AUTHORITY] -> BACKEND|STATUS|refused   a request, and the name of the handshake
//	PORT -> BACKEND[|BACKEND…][|refused]   of TCP
//	PORT/UDP from=PORT -> BACKEND|refused  a datagram, and the port of its client
type Table struct {
	Clients  Trust
	Shows    string
	Backends []Backend
	Ports    []*Port
	Asks     []Ask
}

// Trust is who is let in.
type Trust struct {
	Authorities []string
	Fallback    bool
}

// Port is one of a table.
type Port struct {
	Number    int
	Protocol  string
	Own       bool // its clients are not those of the table
	Clients   Trust
	Listeners []Listener
	To        []Share
}

// String is "443", or "53/UDP".
func (p *Port) String() string {
	if p.Protocol == "UDP" {
		return fmt.Sprintf("%d/UDP", p.Number)
	}
	return strconv.Itoa(p.Number)
}

// Listener is what is served on an HTTPS port for a name.
type Listener struct{ Kind, Host, Backend, Bare string }

// Share is a backend with its weight.
type Share struct {
	Backend string
	Weight  int
}

// Backend is a Service of a table.
type Backend struct {
	Name string
	TLS  bool
	Asks string // whose certificates its pods want to be shown
	For  string // the name in the certificate of its pods
	By   string // whose that is; empty: Pods
}

// Host is by which its pods are asked.
func (b Backend) Host() string { return b.Name + ".internal" }

// Ask is one question of a table.
type Ask struct {
	Line     string
	Port     *Port
	SNI      string
	As       string // the authority of the client's certificate
	From     int
	Expected []string
}

// ReadTable reads a file.
func ReadTable(file string) (*Table, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t, asking := &Table{}, false
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(line, "#"):
			continue
		case words[0] == "----":
			asking = true
			continue
		case asking:
			err = t.ask(words)
		default:
			err = t.serve(words)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, strings.TrimSpace(line), err)
		}
	}
	if len(t.Asks) == 0 {
		return nil, fmt.Errorf("%s asks nothing", file)
	}
	return t, nil
}

// StaticAlone reports whether a file of tables is only for certificates that come with
// listeners, by its name.
func StaticAlone(file string) bool { return strings.HasSuffix(file, "-static.txt") }

func (t *Table) serve(words []string) error {
	options := append(slices.Clone(words), "", "", "")
	switch words[0] {
	case "clients":
		t.Clients = trustOf(words[1])
	case "shows":
		t.Shows = words[1]
	case "backend":
		b := t.backend(words[1])
		b.TLS = true
		for _, w := range words[3:] {
			if asks, is := strings.CutPrefix(w, "asks="); is {
				b.Asks = asks
			}
			if host, is := strings.CutPrefix(w, "for="); is {
				b.For = host
			}
		}
	case "port":
		n, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		p := &Port{Number: n, Protocol: words[2]}
		t.Ports = append(t.Ports, p)
		if says, own := strings.CutPrefix(options[3], "clients="); own {
			p.Own, p.Clients = true, trustOf(says)
		} else if options[3] != "" {
			for part := range strings.SplitSeq(options[3], ",") {
				name, weight, _ := strings.Cut(part, "=")
				n, err := strconv.Atoi(weight)
				if weight == "" {
					n, err = 1, nil
				}
				if err != nil {
					return err
				}
				t.backend(name)
				p.To = append(p.To, Share{name, n})
			}
		}
	case "host", "pass", "end":
		p, err := t.port(words[1])
		if err != nil {
			return err
		}
		t.backend(words[3])
		p.Listeners = append(p.Listeners, Listener{words[0], words[2], words[3], options[4]})
	default:
		return fmt.Errorf("what is %s", words[0])
	}
	return nil
}

// backend is one of the table, which it adds; "none" is no one.
func (t *Table) backend(name string) *Backend {
	if name == None {
		return &Backend{}
	}
	at := slices.IndexFunc(t.Backends, func(b Backend) bool { return b.Name == name })
	if at < 0 {
		at = len(t.Backends)
		t.Backends = append(t.Backends, Backend{Name: name, For: name + ".internal"})
	}
	return &t.Backends[at]
}

// None is a backend that is none, and Refused what becomes of its connections.
const (
	None    = "none"
	Refused = "refused"
)

func (t *Table) port(text string) (*Port, error) {
	for _, p := range t.Ports {
		if p.String() == text {
			return p, nil
		}
	}
	return nil, fmt.Errorf("there is no port %s", text)
}

func trustOf(text string) (out Trust) {
	if text == "-" {
		return out
	}
	text, out.Fallback = strings.CutSuffix(text, "!")
	out.Authorities = strings.Split(text, ",")
	return out
}

func (t *Table) ask(words []string) (err error) {
	a := Ask{Line: strings.Join(words, " ")}
	at := slices.Index(words, "->")
	if at < 1 || len(words) != at+2 {
		return fmt.Errorf("no answer is expected")
	}
	if a.Port, err = t.port(words[0]); err != nil {
		return err
	}
	a.Expected = strings.Split(words[at+1], "|")
	for i, w := range words[1:at] {
		from, is := strings.CutPrefix(w, "from=")
		switch {
		case is:
			a.From, err = strconv.Atoi(from)
		case i == 0:
			a.SNI = strings.TrimPrefix(w, "-")
		case w != "as":
			a.As = w
		}
	}
	t.Asks = append(t.Asks, a)
	return err
}

// TrustAt is who a port lets in.
func (t *Table) TrustAt(p *Port) Trust {
	if p.Own {
		return p.Clients
	}
	return t.Clients
}

// Promised is what becomes of a question, from the table itself in the plainest way:
// what a user was promised.
func (t *Table) Promised(a Ask) []string {
	switch a.Port.Protocol {
	case "TCP":
		var out []string
		for _, s := range a.Port.To {
			if s.Weight > 0 {
				out = append(out, given(s.Backend))
			}
		}
		return out
	case "UDP":
		all := 0
		for _, s := range a.Port.To {
			all += s.Weight
		}
		upTo := 0
		for _, s := range a.Port.To {
			if upTo += s.Weight; 100*upTo > all*(a.From%100) { // weights of tables are of a hundred
				return []string{given(s.Backend)}
			}
		}
	}
	l := a.Port.closest(strings.ToLower(a.SNI))
	switch {
	case l == nil || l.Bare != "":
		return []string{Refused}
	case l.Kind != "host":
		return []string{given(l.Backend)}
	}
	in := t.TrustAt(a.Port)
	if len(in.Authorities) > 0 && !in.Fallback && !slices.Contains(in.Authorities, a.As) {
		return []string{Refused}
	}
	b := t.backend(l.Backend)
	switch {
	case l.Backend == None:
		return []string{"500"}
	case b.TLS && (b.For != b.Host() || b.Asks != "" && b.Asks != t.Shows):
		return []string{"503"}
	}
	return []string{l.Backend}
}

func given(backend string) string {
	if backend == None {
		return Refused
	}
	return backend
}

// closest is the listener of a name: its own, that of the longest wildcard, or that of
// all names.
func (p *Port) closest(name string) (best *Listener) {
	for i, l := range p.Listeners {
		switch {
		case l.Host == name:
			return &p.Listeners[i]
		case l.Host == "*" && best == nil, strings.HasPrefix(l.Host, "*.") && strings.HasSuffix(name, l.Host[1:]) && (best == nil || len(l.Host) > len(best.Host)):
			best = &p.Listeners[i]
		}
	}
	return best
}

var pairs sync.Map

// made makes a pair once for a name.
func made(name string, how func() (*pki.Pair, error)) *pki.Pair {
	pair, _ := pairs.LoadOrStore(name, sync.OnceValue(func() *pki.Pair {
		p, err := how()
		if err != nil {
			panic(err) // no randomness
		}
		return p
	}))
	return pair.(func() *pki.Pair)()
}

// Authority is one that signs, by its name.
func Authority(name string) *pki.Pair {
	return made("authority "+name, func() (*pki.Pair, error) { return pki.Self(pki.Authority(name, 24*time.Hour)) })
}

// Signed is a certificate of an authority, for clients.
func Signed(by string) *pki.Pair {
	return made("client "+by, func() (*pki.Pair, error) {
		return Authority(by).Sign(pki.Leaf("client of "+by, 24*time.Hour, x509.ExtKeyUsageClientAuth))
	})
}

// Pods is the authority of pods that speak TLS.
const Pods = "pods"

// Certificate is that of a backend's pods.
func (b Backend) Certificate() *pki.Pair {
	by := cmp.Or(b.By, Pods)
	return made("pod "+b.For+" by "+by, func() (*pki.Pair, error) {
		leaf := pki.Leaf(b.Name, 24*time.Hour, x509.ExtKeyUsageServerAuth)
		leaf.DNSNames = []string{b.For}
		return Authority(by).Sign(leaf)
	})
}

// Server is how its pods speak TLS.
func (b Backend) Server() *tls.Config {
	out := &tls.Config{Certificates: []tls.Certificate{b.Certificate().TLS()}, MinVersion: tls.VersionTLS12}
	if b.Asks != "" {
		out.ClientAuth, out.ClientCAs = tls.RequireAndVerifyClientCert, Authority(b.Asks).Pool()
	}
	return out
}

// Takes reports whether a pod of the backend and who connects take each other.
func (b Backend) Takes(h Hello) bool {
	if !b.TLS || !h.TLS {
		return b.TLS == h.TLS
	}
	if b.Asks == "" {
		return h.fits(b.Certificate().Cert)
	}
	if h.Shows == nil {
		return false
	}
	_, err := h.Shows.Verify(x509.VerifyOptions{Roots: Authority(b.Asks).Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil && h.fits(b.Certificate().Cert)
}

// Said is an outcome in the words of a table. nameOf says whose an endpoint is.
func (o Outcome) Said(nameOf func(string) string) []string {
	var out []string
	for _, e := range o.Endpoints {
		out = append(out, nameOf(e))
	}
	switch {
	case o.Refused, o.Closed:
		out = append(out, Refused)
	case len(out) == 0:
		out = append(out, fmt.Sprint(o.Status))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Request is the question as the model of Envoy is asked it. A client that names nobody
// in its handshake asks for a name that is nobody's.
func (a Ask) Request() Request {
	q := Request{Port: a.Port.Number, Method: "GET", Host: strings.ToLower(a.SNI), Path: "/", SNI: a.SNI, TLS: a.Port.Protocol == "HTTPS", Datagram: a.Port.Protocol == "UDP", From: a.From}
	if q.Host == "" {
		q.Host = "nameless.else"
	}
	if a.As != "" {
		q.Client = Signed(a.As).Cert
	}
	return q
}
