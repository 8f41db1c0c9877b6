package main

import (
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/user"
	"github.com/spillway-dev/spillway/internal/pki"
)

func TestRequestsOf(t *testing.T) {
	const stats = `cluster.users/cm-acme-http-solver-abc/8089.upstream_rq_total: 5
cluster.users/cm-acme-http-solver-abc/8089.upstream_rq_retry: 2
cluster.users/cm-acme-http-solver-def/8089.upstream_rq_total: 0
cluster.users/blue/80.upstream_rq_total: 700
http.cm-acme-http-solver-abc.upstream_rq_total: 9
cluster.users/cm-acme-http-solver-abc/8089.upstream_rq_total: No recorded values
`
	want := tally{"cluster.users/cm-acme-http-solver-abc/8089": 5, "cluster.users/cm-acme-http-solver-def/8089": 0}
	if got := requestsOf(stats, solverName); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A counter that is gone counts as it was last seen, one of before not at all.
func TestTally(t *testing.T) {
	sum, before := tally{}, tally{"old": 3}
	for _, look := range []tally{{"old": 3}, {"old": 3, "a": 2}, {"a": 5}, {"b": 1}, {}} {
		sum.add(look, before)
	}
	if got := sum.sum(); got != 6 {
		t.Errorf("%v: %d, want 6", sum, got)
	}
}

// An edge that no challenge came by fails the part.
func TestEachEdgeMustAnswerAChallenge(t *testing.T) {
	edges := []lab.EdgeSpec{{Name: euEdge}, {Name: usEdge}}
	for want, seen := range map[string]map[string]tally{
		"":        {euEdge: {"a": 3}, usEdge: {"a": 5}},
		"edge us": {euEdge: {"a": 3}, usEdge: {"a": 0}},
		"edge eu": {usEdge: {"a": 5}},
	} {
		err := (&challenges{stop: func() {}, seen: seen}).judge(&report{}, edges)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want+" ") {
			t.Errorf("%v: %v, want %q", seen, err, want)
		}
	}
}

func TestCameAndWent(t *testing.T) {
	route := func(labels object) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: object{"metadata": object{"labels": labels}}}
	}
	users, solvers := route(nil), route(object{solverLabel: "true"})
	if err := cameAndWent([]*unstructured.Unstructured{users, solvers}); err != nil {
		t.Error(err)
	}
	if err := cameAndWent([]*unstructured.Unstructured{users}); err == nil {
		t.Error("the user's own route is taken for a solver's")
	}
}

func TestSerials(t *testing.T) {
	for _, c := range []struct {
		shown []int64
		good  bool
	}{
		{nil, true},
		{[]int64{7, 7, -9}, true},
		{[]int64{7, 3, -9}, false}, // one that the host never had
	} {
		s := &secured{host: secureHost, issued: []int64{7, -9}}
		s.shown.saw(user.Reply{Serial: 4}) // no answer, no certificate
		for _, n := range c.shown {
			s.shown.saw(user.Reply{Status: 200, Serial: n})
		}
		if err := s.wrong(); (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestCertificateOf(t *testing.T) {
	ca, err := pki.Self(pki.Authority("users", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := certificateOf(append(ca.CertPEM(), "and more"...)); err != nil || got.SerialNumber.Cmp(ca.Cert.SerialNumber) != 0 {
		t.Error(got, err)
	}
	for _, text := range []string{"", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := certificateOf([]byte(text)); err == nil {
			t.Errorf("%q is taken for a certificate", text)
		}
	}
}

// What needs minutes to be built runs only if somebody asks for it.
func TestStages(t *testing.T) {
	for run, want := range map[string]string{"": "weights revoked controllers rest coalescing examples", "rest": "rest", "acme": "acme"} {
		o := options{}
		o.Run = run
		asked, err := o.asked()
		var got []string
		for _, s := range asked {
			for _, p := range s.parts {
				got = append(got, p.name)
			}
		}
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("-run %q: %q (%v), want %q", run, got, err, want)
		}
	}
	o := options{}
	o.Run = "none"
	if _, err := o.asked(); err == nil || !strings.Contains(err.Error(), "acme") {
		t.Errorf("%v, want the names that there are", err)
	}
}
