package envoy

import "github.com/spillway-dev/spillway/internal/envoy/routetest"

// sim is a model of how Envoy routes a request over the resources of the usual
// view. It fails the test on what it does not know, and on what is missing.
type sim struct{ *routetest.Proxy }

func newSim(t reporter, w *world) *sim {
	s := &sim{routetest.New(t.Fatalf, t.Fatalf)}
	s.Lend = CertificateNames
	for _, typ := range w.t.Types() {
		for _, key := range typ.Table.Keys() {
			if w.has(testView, key.Collection) {
				res, _ := typ.Table.Get(nil, key)
				s.AddBody(res.Bytes())
			}
		}
	}
	return s
}

// route follows a request through listener, chain, virtual host, route,
// cluster and priority.
func (s *sim) route(port int, q request) routetest.Outcome {
	return s.Route(routetest.Request{Port: port, TLS: q.tls, SNI: q.sni, Method: q.method, Host: q.host, Path: q.path, Header: q.header})
}

// parent removes the first label, and before it a "*.".
func parent(host string) string { return routetest.Parent(host) }

func normalize(uri string) string { return routetest.Normalize(uri) }
