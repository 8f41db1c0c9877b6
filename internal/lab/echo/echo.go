// Package echo is the lab's built-in image spillway.dev/echo: a server that
// answers which pod it is and what it saw, over HTTP/1.1, HTTP/2 with and
// without TLS, gRPC, WebSocket, plain TCP and UDP.
//
// Every answer is one Answer in JSON. Readiness fails from the moment Run's
// context ends; the server then goes on for Config.Grace, so that whoever
// routes to it can notice, and drains the requests it still has.
package echo

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// Identity says who answers. The lab's kubelet puts it into the environment of
// every container.
type Identity struct {
	Pod       string `json:"pod,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Node      string `json:"node,omitempty"`
	Member    string `json:"member,omitempty"`
	Zone      string `json:"zone,omitempty"`
}

// The environment variables of an Identity.
const (
	EnvPod       = "SPILLWAY_POD"
	EnvNamespace = "SPILLWAY_NAMESPACE"
	EnvNode      = "SPILLWAY_NODE"
	EnvMember    = "SPILLWAY_MEMBER"
	EnvZone      = "SPILLWAY_ZONE"
)

// FromEnvironment reads the Identity the kubelet gave.
func FromEnvironment() Identity {
	return Identity{
		Pod: os.Getenv(EnvPod), Namespace: os.Getenv(EnvNamespace), Node: os.Getenv(EnvNode),
		Member: os.Getenv(EnvMember), Zone: os.Getenv(EnvZone),
	}
}

// Answer is what the server says about itself and one request.
type Answer struct {
	Identity
	Protocol string              `json:"protocol"` // HTTP/1.1, HTTP/2.0, WebSocket, TCP, UDP
	Method   string              `json:"method,omitempty"`
	Host     string              `json:"host,omitempty"`
	Path     string              `json:"path,omitempty"`
	Query    string              `json:"query,omitempty"`
	Headers  map[string][]string `json:"headers,omitempty"`
	Remote   string              `json:"remote"` // address and port of the peer
	Received string              `json:"received,omitempty"`
	TLS      *TLS                `json:"tls,omitempty"`
}

// TLS is what a handshake told.
type TLS struct {
	ServerName string `json:"serverName,omitempty"`
	Version    string `json:"version"`
	ALPN       string `json:"alpn,omitempty"`
	Client     string `json:"client,omitempty"` // common name of the certificate that was shown, by whomever it is signed
}

// Config says where to listen. An empty address is not served.
type Config struct {
	HTTP, HTTPS, TCP, UDP string        // addresses such as ":8080"
	CertFile, KeyFile     string        // for HTTPS; left out, a certificate is made
	Identity              Identity      // who answers
	Grace                 time.Duration // how long to go on after the context ends
	Drain                 time.Duration // how long the last requests may take after that
}

// Server answers. Make it with Listen, then Run it once.
type Server struct {
	cfg   Config
	grpc  *grpc.Server
	http  *http.Server
	https *http.Server
	tcp   net.Listener
	udp   net.PacketConn
	lns   map[*http.Server]net.Listener

	leaving atomic.Bool
	conns   connSet
}

// Listen opens all addresses of cfg.
func Listen(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, lns: map[*http.Server]net.Listener{}}
	s.grpc = s.grpcServer()
	if err := s.listen(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *Server) listen() (err error) {
	if s.cfg.HTTP != "" {
		if s.http, err = s.httpServer(s.cfg.HTTP, nil); err != nil {
			return err
		}
	}
	if s.cfg.HTTPS != "" {
		cert, err := s.certificate()
		if err != nil {
			return err
		}
		conf := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}, ClientAuth: tls.RequestClientCert}
		if s.https, err = s.httpServer(s.cfg.HTTPS, conf); err != nil {
			return err
		}
	}
	if s.cfg.TCP != "" {
		if s.tcp, err = new(net.ListenConfig).Listen(context.Background(), "tcp", s.cfg.TCP); err != nil {
			return fmt.Errorf("echo: %w", err)
		}
	}
	if s.cfg.UDP != "" {
		if s.udp, err = new(net.ListenConfig).ListenPacket(context.Background(), "udp", s.cfg.UDP); err != nil {
			return fmt.Errorf("echo: %w", err)
		}
	}
	return nil
}

func (s *Server) httpServer(at string, conf *tls.Config) (*http.Server, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("echo: %w", err)
	}
	srv := &http.Server{Handler: s, TLSConfig: conf, ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(conf != nil)
	srv.Protocols.SetUnencryptedHTTP2(conf == nil)
	s.lns[srv] = l
	return srv, nil
}

// Addr returns where a protocol is served: "http", "https", "tcp" or "udp";
// nil when it is not.
func (s *Server) Addr(protocol string) net.Addr {
	switch {
	case protocol == "http" && s.http != nil:
		return s.lns[s.http].Addr()
	case protocol == "https" && s.https != nil:
		return s.lns[s.https].Addr()
	case protocol == "tcp" && s.tcp != nil:
		return s.tcp.Addr()
	case protocol == "udp" && s.udp != nil:
		return s.udp.LocalAddr()
	}
	return nil
}

// Run serves until ctx ends and everything is drained.
func (s *Server) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	failed := make(chan error, 4)
	for srv, l := range s.lns {
		wg.Go(func() {
			serve := srv.Serve
			if srv.TLSConfig != nil {
				serve = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
			}
			if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	if s.tcp != nil {
		wg.Go(s.serveTCP)
	}
	if s.udp != nil {
		wg.Go(s.serveUDP)
	}
	var err error
	select {
	case <-ctx.Done():
		s.leave()
	case err = <-failed:
	}
	s.close()
	wg.Wait()
	return err
}

// leave fails readiness, waits the grace and drains.
func (s *Server) leave() {
	s.leaving.Store(true)
	time.Sleep(s.cfg.Grace)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Drain)
	defer cancel()
	var wg sync.WaitGroup
	for srv := range s.lns {
		wg.Go(func() { _ = srv.Shutdown(ctx) })
	}
	wg.Wait()
}

func (s *Server) close() {
	for srv, l := range s.lns {
		srv.Close()
		l.Close()
	}
	if s.tcp != nil {
		s.tcp.Close()
	}
	if s.udp != nil {
		s.udp.Close()
	}
	s.conns.close()
	s.grpc.Stop()
}
