package echo

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

const (
	bodyLimit = 64 << 10        // bytes of a request body that are echoed
	maxDelay  = 5 * time.Minute // of ?delay=
)

// ServeHTTP answers every path. /healthz is the readiness; ?status=N and
// ?delay=DURATION make it misbehave; an upgrade becomes an echoing WebSocket;
// gRPC goes to its server.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
		s.grpc.ServeHTTP(w, r)
	case r.URL.Path == "/healthz":
		s.health(w)
	case websocket.IsWebSocketUpgrade(r):
		s.webSocket(w, r)
	default:
		s.echo(w, r)
	}
}

func (s *Server) health(w http.ResponseWriter) {
	if s.leaving.Load() {
		http.Error(w, "terminating", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *Server) echo(w http.ResponseWriter, r *http.Request) {
	status, delay, err := wishes(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit))
	if err != nil {
		return // the client went away
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return
		}
	}
	a := s.saw(r)
	a.Received = string(body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a)
}

// wishes reads ?status= and ?delay=.
func wishes(r *http.Request) (status int, delay time.Duration, err error) {
	q := r.URL.Query()
	status = http.StatusOK
	if v := q.Get("status"); v != "" {
		if status, err = strconv.Atoi(v); err != nil || status < 200 || status > 599 {
			return 0, 0, fmt.Errorf("status=%q: use 200 to 599", v)
		}
	}
	if v := q.Get("delay"); v != "" {
		if delay, err = time.ParseDuration(v); err != nil || delay < 0 || delay > maxDelay {
			return 0, 0, fmt.Errorf("delay=%q: use a duration up to %s, such as 200ms", v, maxDelay)
		}
	}
	return status, delay, nil
}

func (s *Server) saw(r *http.Request) Answer {
	a := Answer{
		Identity: s.cfg.Identity, Protocol: r.Proto, Method: r.Method, Host: r.Host,
		Path: r.URL.Path, Query: r.URL.RawQuery, Headers: r.Header, Remote: r.RemoteAddr,
	}
	if r.TLS != nil {
		a.TLS = &TLS{ServerName: r.TLS.ServerName, Version: tls.VersionName(r.TLS.Version), ALPN: r.TLS.NegotiatedProtocol}
		if shown := r.TLS.PeerCertificates; len(shown) > 0 {
			a.TLS.Client = shown[0].Subject.CommonName
		}
	}
	return a
}

// webSocket sends one Answer as text, then every message back as it came.
func (s *Server) webSocket(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered
	}
	if !s.conns.add(c) {
		return
	}
	defer s.conns.remove(c)
	a := s.saw(r)
	a.Protocol = "WebSocket"
	if c.WriteJSON(a) != nil {
		return
	}
	c.SetReadLimit(1 << 20)
	for {
		kind, message, err := c.ReadMessage()
		if err != nil || c.WriteMessage(kind, message) != nil {
			return
		}
	}
}
