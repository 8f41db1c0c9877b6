package xds

import (
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Local is a stream without a connection: whoever holds it carries the
// messages, and nothing happens in between. It takes the same steps as a
// stream over gRPC. It is for tests of the whole program in one goroutine.
type Local struct{ st *stream }

// Local opens a stream of a proxy that was identified.
func (s *Server) Local(p Proxy, node *core.Node) (*Local, error) {
	viewID, ok := s.viewOf(p)
	if !ok {
		return nil, s.refuseUnknown(p)
	}
	st, err := s.open(nil, p, nil, node, viewID)
	if err != nil {
		return nil, err
	}
	st.synced = true // it takes no place among the initial syncs
	return &Local{st}, nil
}

// Step takes a request, if there is one, and returns what the client is to be
// sent, and when the next step is due if nothing happens before; zero: not
// before. After an error the stream is closed.
func (l *Local) Step(req *Request) (out []Response, next time.Time, err error) {
	done, reason, err := l.st.step(l.st.server.cfg.Now(), req)
	if err != nil {
		l.st.server.close(l.st, reason)
	}
	return done.out, done.next, err
}

// Close ends the stream as the client would.
func (l *Local) Close() { l.st.server.close(l.st, reasonClient) }
