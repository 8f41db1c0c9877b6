package demo

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/examples"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// whole is nil when every part does what it should and nothing is under way.
func (f *fleet) whole(ctx context.Context) error {
	if err := f.admin.ready(ctx); err != nil {
		return err
	}
	if err := f.pathsUp(ctx); err != nil {
		return err
	}
	if err := f.inSync(ctx, edges...); err != nil {
		return err
	}
	for _, edge := range edges {
		a, err := f.request(ctx, edge, shopHost)
		if err != nil {
			return fmt.Errorf("edge %s: %w", edge, err)
		}
		if a.Member != nearest[edge] {
			return fmt.Errorf("edge %s is answered by %s", edge, a.Member)
		}
	}
	return nil
}

// inSync is nil when each of these edges has a stream and every stream has
// acknowledged all there is.
func (f *fleet) inSync(ctx context.Context, want ...string) error {
	streams, err := f.admin.Streams(ctx)
	if err != nil {
		return err
	}
	connected := map[string]bool{}
	for _, s := range streams {
		if !s.InSync {
			return fmt.Errorf("the stream of edge %s has not acknowledged everything", s.Edge)
		}
		connected[s.Edge] = true
	}
	for _, edge := range want {
		if !connected[edge] {
			return fmt.Errorf("edge %s has no stream", edge)
		}
	}
	return nil
}

// pathsUp is nil when every edge has evidence that it reaches every member.
func (f *fleet) pathsUp(ctx context.Context) error {
	for _, e := range edges {
		for _, m := range members {
			if err := f.pathIs(ctx, e, m, "True"); err != nil {
				return err
			}
		}
	}
	return nil
}

var healthText = regexp.MustCompile(`Health:(\w+)`)

// pathIs is nil when the control plane holds this of the path from an edge to a
// member: True, False, or Unknown for want of evidence.
func (f *fleet) pathIs(ctx context.Context, edge, member, want string) error {
	rows, err := f.admin.table(ctx, "paths")
	if err != nil {
		return err
	}
	got := "Unknown"
	for _, r := range rows {
		from, to, _ := strings.Cut(r.Key, " -> ")
		if to == member && strings.HasSuffix(from, "/"+places[edge]) {
			if m := healthText.FindStringSubmatch(r.Value); m != nil {
				got = m[1]
			}
		}
	}
	if got != want {
		return fmt.Errorf("the path from edge %s to %s is %s", edge, member, got)
	}
	return nil
}

// request asks an edge over HTTP on a connection of its own.
func (f *fleet) request(ctx context.Context, edge, host string) (answer, error) {
	return ask(ctx, f.lab.Edge(edge, nil), "http://"+host+"/")
}

// requestTLS asks an edge over HTTPS, with the host as SNI, and trusts nothing
// but the certificate of the example.
func (f *fleet) requestTLS(ctx context.Context, edge, host string) (answer, error) {
	roots, err := exampleRoots()
	if err != nil {
		return answer{}, err
	}
	return ask(ctx, f.lab.Edge(edge, roots), "https://"+host+"/")
}

func ask(ctx context.Context, at *user.Edge, url string) (answer, error) {
	r := user.Request{Edge: at, URL: url, Fresh: true}.Send(ctx)
	if r.Err != nil {
		return answer{}, r.Err
	}
	return judge(r)
}

// exampleRoots trusts the self-signed certificate of the example's Secret.
func exampleRoots() (*x509.CertPool, error) {
	objects, err := parse(examples.Shop)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		data, _ := o.Object["stringData"].(map[string]any)
		if cert, ok := data["tls.crt"].(string); ok {
			roots := x509.NewCertPool()
			if roots.AppendCertsFromPEM([]byte(cert)) {
				return roots, nil
			}
		}
	}
	return nil, errors.New("the example has no certificate")
}

// dnsSays is the answer for a client near an edge, nearest first.
func (f *fleet) dnsSays(ctx context.Context, edge string) ([]netip.Addr, error) {
	return resolve(ctx, f.opts.dns(), shopHost, clients[edge].subnet)
}

// dnsNear is nil when clients near each edge are sent to it first.
func (f *fleet) dnsNear(ctx context.Context) error {
	for _, edge := range edges {
		got, err := f.dnsSays(ctx, edge)
		if err != nil {
			return err
		}
		if want := f.lab.EdgeAddress(edge); len(got) == 0 || got[0] != want {
			return fmt.Errorf("DNS sends clients in %s to %v, the near edge is %v", edge, got, want)
		}
	}
	return nil
}

// ingressListsAll is nil when the Ingress's status lists all edges, in order.
func (f *fleet) ingressListsAll(ctx context.Context) error {
	o, err := f.hub.Get(ctx, "Ingress", namespace, ingress)
	if err != nil {
		return err
	}
	got := addresses(o)
	for i, edge := range edges {
		if len(got) != len(edges) || got[i] != f.lab.EdgeAddress(edge).String() {
			return fmt.Errorf("the Ingress's status lists %v", got)
		}
	}
	return nil
}

// memberIs is nil when a condition of a member's status is as wanted.
func (f *fleet) memberIs(ctx context.Context, member, typ, want string) error {
	o, err := f.hub.Get(ctx, "MemberCluster", "", member)
	if err != nil {
		return err
	}
	if got := condition(o, typ); got != want {
		return fmt.Errorf("%s of MemberCluster %s is %q", typ, member, got)
	}
	return nil
}

// pushed is how many bytes each stream was sent, by its number.
type pushed map[uint64]int64

func (f *fleet) pushed(ctx context.Context) (pushed, error) {
	streams, err := f.admin.Streams(ctx)
	if err != nil {
		return nil, err
	}
	out := pushed{}
	for _, s := range streams {
		out[s.Number] = s.BytesSent
	}
	return out, nil
}

// since is how many bytes were sent after the earlier look; a new stream counts
// from its beginning.
func (p pushed) since(earlier pushed) (sum int64) {
	for n, bytes := range p {
		sum += bytes - earlier[n]
	}
	return sum
}

// quietFor is how long nothing may be pushed before the fleet counts as quiet.
const quietFor = time.Second

// quiet waits until the fleet is whole and nothing is pushed any more.
func (f *fleet) quiet(ctx context.Context) error {
	last, since := pushed{}, time.Now()
	return f.await(ctx, "the fleet to be whole and quiet", func(ctx context.Context) error {
		now, err := f.pushed(ctx)
		if err == nil {
			err = f.whole(ctx)
		}
		if err == nil && now.since(last) != 0 {
			err = fmt.Errorf("%d bytes were pushed just now", now.since(last))
		}
		if err != nil {
			last, since = now, time.Now()
			return err
		}
		if still := time.Since(since); still < quietFor {
			return fmt.Errorf("quiet for %s", still.Round(time.Millisecond))
		}
		return nil
	})
}
