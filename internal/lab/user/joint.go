package user

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// joint are an edge's connections of HTTP/2 that requests for several hosts are sent on,
// as browsers do where a certificate is for all of them (RFC 9113, 9.1.1).
type joint struct {
	mu  sync.Mutex
	all map[string]*http.ClientConn // by the host that each was opened for
}

// close closes them.
func (j *joint) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range j.all {
		_ = c.Close()
	}
	j.all = nil
}

// reserve returns the connection for a host with room for a request: another one than
// before where the edge takes no more on that.
func (e *Edge) reserve(ctx context.Context, host string) (*http.ClientConn, error) {
	j := &e.joint
	j.mu.Lock()
	defer j.mu.Unlock()
	if c := j.all[host]; c != nil && c.Reserve() == nil {
		return c, nil
	}
	c, err := e.open(ctx, host)
	if err != nil {
		return nil, err
	}
	if j.all == nil {
		j.all = map[string]*http.ClientConn{}
	}
	j.all[host] = c // what the one before carries is answered, then it closes
	return c, c.Reserve()
}

// open makes a connection for a host.
func (e *Edge) open(ctx context.Context, host string) (*http.ClientConn, error) {
	return e.keep.Transport.(*http.Transport).NewClientConn(ctx, "https", host+":443")
}

// jointly sends a request on a connection for another host, and once more if that ends
// without an answer, as the HTTP client does by itself.
func (r Request) jointly(req *http.Request, out *Reply) (*http.Response, error) {
	if r.Fresh {
		return r.alone(req)
	}
	for {
		c, err := r.Edge.reserve(req.Context(), r.On)
		if err != nil {
			return nil, err
		}
		resp, err := c.RoundTrip(req)
		if err == nil {
			return fitting(req, resp)
		}
		if c.Err() == nil || out.Again > 0 || r.Unsafe {
			return nil, err
		}
		out.Again++
	}
}

// alone sends a request on a connection that ends with its answer.
func (r Request) alone(req *http.Request) (*http.Response, error) {
	c, err := r.Edge.open(req.Context(), r.On)
	if err != nil {
		return nil, err
	}
	resp, err := c.RoundTrip(req)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	resp.Body = ends{resp.Body, c}
	return fitting(req, resp)
}

// ends is the body of the last answer of a connection.
type ends struct {
	io.ReadCloser
	conn *http.ClientConn
}

func (e ends) Close() error {
	err := e.ReadCloser.Close()
	_ = e.conn.Close()
	return err
}

// fitting is an error where no browser would have sent the request so.
func fitting(req *http.Request, resp *http.Response) (*http.Response, error) {
	err := resp.TLS.PeerCertificates[0].VerifyHostname(req.URL.Hostname())
	if err == nil && resp.ProtoMajor != 2 {
		err = fmt.Errorf("the connection is one of %s, not of HTTP/2", resp.Proto)
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}
