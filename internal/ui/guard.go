package ui

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

// open tells whether a path is for everybody: kubelets ask for health without a token.
func open(r *http.Request) bool { return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" }

// local answers requests for this machine by its own names only. A browser here
// may be led to a name of a stranger's that resolves to loopback (DNS rebinding),
// and what comes back is the stranger's to read.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownName(r.Host) {
			http.Error(w, "this listener is on loopback and answers to localhost and loopback addresses only, not to "+strings.ToValidUTF8(r.Host, "?"), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownName reports whether a Host header names loopback. What sends none is no browser.
func ownName(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	ip, err := netip.ParseAddr(host)
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.Unmap().IsLoopback()
}

// perPeer is how many requests of one client are judged at a time: whoever sends
// tokens that nobody has keeps the hub busy for no one else.
const perPeer = 8

// guarded lets those in that the hub allows.
func guarded(next http.Handler, access Access) http.Handler {
	places := &places{taken: map[netip.Prefix]int{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open(r) {
			next.ServeHTTP(w, r)
			return
		}
		peer := peerOf(r)
		if !places.take(peer) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests of yours wait for the hub", http.StatusTooManyRequests)
			return
		}
		code, err := access(r)
		places.give(peer)
		if err != nil {
			http.Error(w, err.Error(), code)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// peerOf is the network that counts as one client: an IPv6 host has all of a /64.
func peerOf(r *http.Request) netip.Prefix {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	ip := at.Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// places counts the requests of each client that are judged.
type places struct {
	mu    sync.Mutex
	taken map[netip.Prefix]int
}

func (p *places) take(peer netip.Prefix) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[peer] == perPeer {
		return false
	}
	p.taken[peer]++
	return true
}

func (p *places) give(peer netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[peer]--; p.taken[peer] == 0 {
		delete(p.taken, peer)
	}
}
