package model

import (
	"slices"
	"testing"
)

// TestHostsHaveOneOrder: which kind a host is, how it is written, and where a
// request for it goes if the host is not there.
func TestHostsHaveOneOrder(t *testing.T) {
	for _, c := range []struct {
		host        Host
		written     string
		exact, deep bool
		above       Host
		wider       []Host
		described   string // if not as it is written
	}{
		{host: "", wider: nil, described: "every other host"},
		{host: "localhost", written: "localhost", exact: true, wider: []Host{""}},
		{host: "a.b.c", written: "a.b.c", exact: true, above: "*.b.c", wider: []Host{"*.b.c", "**.b.c", "**.c", ""}},
		{host: "*.b.c", written: "*.b.c", wider: []Host{"**.b.c", "**.c", ""}},
		{host: "**.b.c", written: "*.b.c", deep: true, wider: []Host{"**.c", ""}},
		{host: "**.c", written: "*.c", deep: true, wider: []Host{""}},
	} {
		if got := slices.Collect(c.host.Wider()); !slices.Equal(got, c.wider) {
			t.Errorf("above %q are %q, want %q", c.host, got, c.wider)
		}
		if c.host.Exact() != c.exact || c.host.Deep() != c.deep || c.host.Wildcard() != (!c.exact && c.host != "") {
			t.Errorf("%q: exact %v, deep %v, wildcard %v", c.host, c.host.Exact(), c.host.Deep(), c.host.Wildcard())
		}
		if c.host.Above() != c.above || c.host.Written() != c.written || string(c.host.TLSName()) != c.written {
			t.Errorf("%q: above it %q, written %q, as TLS name %q", c.host, c.host.Above(), c.host.Written(), c.host.TLSName())
		}
		want := c.described
		if want == "" {
			want = "host " + c.written
		}
		if got := c.host.Described(); got != want {
			t.Errorf("%q is described as %q, want %q", c.host, got, want)
		}
	}
}
