package demo

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stand is an edge that answers as told.
func stand(t *testing.T, h http.HandlerFunc) netip.AddrPort {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return netip.MustParseAddrPort(srv.Listener.Addr().String())
}

func member(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"member":%q,"pod":"web-%s","host":%q}`, name, name, r.Host)
	}
}

// runFor sends load until each edge has n outcomes.
func runFor(t *testing.T, n int, at map[string]netip.AddrPort) (map[string]tally, tally) {
	t.Helper()
	f := &fleet{tell: newTeller(io.Discard, true)}
	var to []*user.Edge
	for edge, a := range at {
		to = append(to, user.NewEdge(edge, a.Addr(), int(a.Port()), 0, nil))
	}
	l := startLoad("shop.example", to)
	err := f.more(t.Context(), l, n)
	sum := l.stop()
	if err != nil {
		t.Fatal(err)
	}
	each := map[string]tally{}
	for edge := range at {
		each[edge] = l.seen(edge)
	}
	return each, sum
}

func TestLoadCountsAnswers(t *testing.T) {
	each, sum := runFor(t, 40, map[string]netip.AddrPort{"eu": stand(t, member("eu-1")), "us": stand(t, member("us-1"))})
	for edge, want := range map[string]string{"eu": "eu-1", "us": "us-1"} {
		got := each[edge]
		if got.done < 40 || got.members[want] != got.done || got.pods["web-"+want] != got.done {
			t.Errorf("edge %s: %+v", edge, got)
		}
		if want := got.counts.Sent / unsafeEvery; got.unsafe.sent != want {
			t.Errorf("edge %s: %d POSTs of %d, want %d", edge, got.unsafe.sent, got.counts.Sent, want)
		}
	}
	if err := sum.unscathed(); err != nil {
		t.Error(err)
	}
	if sum.done != each["eu"].done+each["us"].done || sum.counts.Sent != sum.done || sum.safe.latency.n+sum.unsafe.latency.n != sum.done {
		t.Errorf("sum %+v", sum)
	}
}

func TestLoadCountsFailures(t *testing.T) {
	began := time.Now()
	each, sum := runFor(t, 40, map[string]netip.AddrPort{"eu": stand(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
			return
		}
		member("eu-1")(w, r)
	})})
	got := each["eu"]
	if got.safe.failed != 0 || got.unsafe.failed != got.unsafe.sent || got.unsafe.reasons["status 503: no healthy upstream"] != got.unsafe.failed {
		t.Errorf("got %+v", got)
	}
	if got.unsafe.first.Before(began) || got.unsafe.last.Before(got.unsafe.first) {
		t.Errorf("first %v, last %v", got.unsafe.first, got.unsafe.last)
	}
	if err := sum.unscathed(); err == nil || !strings.Contains(err.Error(), "unsafe requests failed") {
		t.Errorf("unscathed: %v", err)
	}
	if err := sum.safe.unscathed("safe"); err != nil {
		t.Error(err)
	}
}

func TestLoadNamesReasons(t *testing.T) {
	closed, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for want, at := range map[string]netip.AddrPort{
		"connection refused":        netip.MustParseAddrPort(closed.Addr().String()),
		"connection closed before":  stand(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		"not an answer of a pod":    stand(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }),
		"status 404: no such route": stand(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such route", http.StatusNotFound) }),
	} {
		each, _ := runFor(t, 5, map[string]netip.AddrPort{"eu": at})
		got := each["eu"]
		if len(got.safe.reasons) != 1 || !strings.Contains(got.safe.String(), want) || got.safe.failed != got.safe.sent {
			t.Errorf("want %q, got %v", want, got.safe.reasons)
		}
	}
}

func TestAnswersByPod(t *testing.T) {
	for text, want := range map[string]string{
		`{"member":"eu-1","pod":"web-1","extra":1}`: "eu-1",
		`{"pod":"web-1"}`:  "",
		`upstream timeout`: "",
	} {
		a, err := whoAnswered([]byte(text))
		if (err == nil) != (want != "") || (err == nil && a.Member != want) {
			t.Errorf("%s: %+v, %v", text, a, err)
		}
	}
}
