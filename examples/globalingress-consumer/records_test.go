package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

func site(serving bool, except []string, addresses ...string) v1alpha1.GlobalSite {
	out := v1alpha1.GlobalSite{Serving: serving, ExceptHosts: except}
	for _, a := range addresses {
		out.Addresses = append(out.Addresses, v1alpha1.GlobalAddress{Value: a})
	}
	return out
}

// TestRecords: a host has the addresses of the sites that serve it, and an alias only
// where there are none.
func TestRecords(t *testing.T) {
	for _, c := range []struct {
		sites []v1alpha1.GlobalSite
		want  string
	}{
		{nil, "[]"},
		{[]v1alpha1.GlobalSite{site(false, nil, "192.0.2.1")}, "[]"},
		{[]v1alpha1.GlobalSite{site(true, nil, "192.0.2.1", "2001:db8::1"), site(false, nil, "192.0.2.2")}, "[{a.example A 192.0.2.1} {a.example AAAA 2001:db8::1} {b.example A 192.0.2.1} {b.example AAAA 2001:db8::1}]"},
		{[]v1alpha1.GlobalSite{site(true, []string{"b.example"}, "192.0.2.1"), site(true, nil, "lb.example")}, "[{a.example A 192.0.2.1} {b.example CNAME lb.example.}]"},
		{[]v1alpha1.GlobalSite{site(true, nil, "x.example"), site(true, nil, "y.example")}, "[{a.example CNAME x.example.} {b.example CNAME x.example.}]"},
	} {
		o := &v1alpha1.GlobalIngress{Spec: v1alpha1.GlobalIngressSpec{Hosts: []string{"a.example", "b.example"}, Sites: c.sites}}
		if got := fmt.Sprint(recordsOf(o)); got != c.want {
			t.Errorf("%+v: %s, not %s", c.sites, got, c.want)
		}
	}
}

// TestZoneFile: it is sorted, has each record once, and those of an object go with it.
func TestZoneFile(t *testing.T) {
	z := &zoneFile{path: filepath.Join(t.TempDir(), "records.zone"), ttl: 30}
	expect := func(key string, records []record, want string) {
		t.Helper()
		if err := z.set(key, records); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(z.path)
		if err != nil || string(got) != want {
			t.Errorf("%v: %q, not %q", err, got, want)
		}
	}
	a := record{"a.example", "A", "192.0.2.1"}
	expect("shop/a", []record{{"b.example", "A", "192.0.2.2"}, a}, "a.example.\t30\tIN\tA\t192.0.2.1\nb.example.\t30\tIN\tA\t192.0.2.2\n")
	expect("shop/b", []record{a}, "a.example.\t30\tIN\tA\t192.0.2.1\nb.example.\t30\tIN\tA\t192.0.2.2\n")
	expect("shop/a", nil, "a.example.\t30\tIN\tA\t192.0.2.1\n")
	expect("shop/b", nil, "")
}

// TestFileOfAnEarlierRun: what is there from before is not taken for what this run wrote.
func TestFileOfAnEarlierRun(t *testing.T) {
	z := &zoneFile{path: filepath.Join(t.TempDir(), "records.zone"), ttl: 30}
	if err := os.WriteFile(z.path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := z.write(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(z.path); err != nil || len(got) > 0 {
		t.Errorf("%v: %q is there yet", err, got)
	}
}
