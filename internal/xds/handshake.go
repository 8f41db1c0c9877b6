package xds

import (
	"container/list"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// handshakes bound the connections of clients that prove who they are by TLS. Of
// those that have not said it yet the oldest makes room: one that says nothing
// keeps nobody out. Afterwards each identity has so many.
type handshakes struct {
	credentials.TransportCredentials
	most   int
	open   *quota // connections
	unread *unread

	mu      sync.Mutex
	pending *list.List // of net.Conn, the oldest first
}

// maxHandshakes is how many connections may be without a proof at a time. gRPC
// gives each 20 s.
const maxHandshakes = 1000

func newHandshakes(c credentials.TransportCredentials, open *quota, u *unread) *handshakes {
	return &handshakes{TransportCredentials: c, most: maxHandshakes, open: open, unread: u, pending: list.New()}
}

// ServerHandshake is for gRPC.
func (h *handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	at := h.begin(raw)
	c, auth, err := h.TransportCredentials.ServerHandshake(raw)
	h.mu.Lock()
	h.pending.Remove(at)
	h.mu.Unlock()
	if err != nil {
		return c, auth, err
	}
	who := connected(auth)
	if _, refusal := h.open.enter(who); refusal != "" {
		_ = c.Close()
		return nil, nil, fmt.Errorf("xds: %s", refusal)
	}
	out := &connection{Conn: c, raw: raw, who: who, unread: h.unread, gone: func() { h.open.leave(who) }}
	h.unread.add(out)
	return out, auth, nil
}

// begin notes a connection, and closes the oldest if there are too many.
func (h *handshakes) begin(raw net.Conn) *list.Element {
	h.mu.Lock()
	defer h.mu.Unlock()
	if oldest := h.pending.Front(); h.pending.Len() >= h.most {
		_ = oldest.Value.(net.Conn).Close()
		h.pending.Remove(oldest)
	}
	return h.pending.PushBack(raw)
}

// connected is who a connection is of: what its certificate calls itself, as far as
// that is one name. Whether that may speak for an Edge each stream is asked.
func connected(auth credentials.AuthInfo) (who speaker) {
	if info, ok := auth.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
		if id, err := spiffeID(info.State.PeerCertificates[0]); err == nil {
			who.identity = id.String()
		}
	}
	return who
}
