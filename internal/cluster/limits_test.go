package cluster

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
)

// bottomless is an answer that has no end.
type bottomless struct {
	io.Reader
	read *int
}

func (e bottomless) Read(p []byte) (int, error) {
	if n, err := e.Reader.Read(p); err == nil {
		*e.read += n
		return n, nil
	}
	for i := range p {
		p[i] = 'x'
	}
	*e.read += len(p)
	return len(p), nil
}

func (e bottomless) Close() error { return nil }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestEndlessAnswers: whatever a server sends, no more of it is read than the
// limit, and the limit is told.
func TestEndlessAnswers(t *testing.T) {
	for _, c := range []struct {
		name, begins string
		ends         func(*http.Request) bool // the one that has no end
		most         int
		says         string
	}{
		{"a page", `{"kind":"ServiceList","apiVersion":"v1","metadata":{"continue":"`,
			func(r *http.Request) bool { return r.URL.Query().Get("watch") == "" && r.URL.Path != "/readyz" }, pageLimit, "134217728 bytes in a page of a list"},
		{"an event", `{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"`,
			func(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }, eventLimit, "4194304 bytes in an event"},
		{"an event in protobuf", "\xff\xff\xff\xff",
			func(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }, eventLimit, "4194304 bytes in an event"},
		{"a probe", "ok", func(r *http.Request) bool { return r.URL.Path == "/readyz" }, eventLimit, "4194304 bytes in an event"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMember("eu-1", inputs(inc.New()), NewMailbox(), slog.New(slog.DiscardHandler), usual)
				l, err := linkOf(m)
				if err != nil {
					t.Fatal(err)
				}
				l.sources = l.sources[:1]
				server, read := newScript(), 0
				server.kind = "can't stream"
				if !strings.Contains(c.name, "page") {
					server.kind = "well"
				}
				var mu sync.Mutex
				first := true
				l.api.client.Transport = bounded{next: roundTrip(func(r *http.Request) (*http.Response, error) {
					resp, err := server.RoundTrip(r)
					mu.Lock()
					defer mu.Unlock()
					if c.ends(r) && first {
						first = r.URL.Path == "/readyz"
						resp.Body = bottomless{strings.NewReader(c.begins), &read}
						if c.name == "an event in protobuf" {
							resp.Header.Set("Content-Type", protobufType+";stream=watch")
						}
					}
					return resp, err
				})}
				ctx, end := context.WithCancel(t.Context())
				var all sync.WaitGroup
				all.Go(func() { l.run(ctx) })
				await(t, m, v1alpha1.ReasonTooManyObjects, 10*time.Second)
				if contact, _ := m.state(); !strings.Contains(contact.Message, c.says) {
					t.Errorf("it says %q", contact.Message)
				}
				if read > c.most+1 && c.name != "a probe" { // which is repeated
					t.Errorf("%d bytes were read, at most %d", read, c.most)
				}
				mu.Lock()
				first = false
				mu.Unlock()
				await(t, m, v1alpha1.ReasonConnected, 2*time.Minute)
				end()
				all.Wait()
			})
		})
	}
}

// TestShortPages: who asks a list for a few objects reads no more than these may
// have.
func TestShortPages(t *testing.T) {
	m := newMember("eu-1", inputs(inc.New()), NewMailbox(), slog.New(slog.DiscardHandler), usual)
	l, err := linkOf(m)
	if err != nil {
		t.Fatal(err)
	}
	for query, most := range map[string]int{
		"":                  pageLimit,
		"limit=500":         pageLimit,
		"limit=1":           eventLimit,
		"limit=3":           3 * eventLimit,
		"limit=1&watch=1":   eventLimit,
		"limit=-1":          pageLimit,
		"limit=a&continue=": pageLimit,
	} {
		read := 0
		server := bounded{next: roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: bottomless{strings.NewReader(""), &read}}, nil
		})}
		r, err := http.NewRequestWithContext(l.sources[0].counted(t.Context()), http.MethodGet, "https://eu-1.example:6443/api/v1/services?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); limitOf(err) == nil || limitOf(err).most != most {
			t.Errorf("%q: it ended with %v, not at %d bytes", query, err, most)
		}
		if read > most+1 {
			t.Errorf("%q: %d bytes were read, at most %d", query, read, most)
		}
	}
}

// TestMemberLimits: a member that has more than is read of one keeps the rows it
// had, says which limit it met, and is read again when it is below.
func TestMemberLimits(t *testing.T) {
	t.Parallel() // it waits most of the time
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf("10.1.1.%d", i+1)
	}
	for _, c := range []struct {
		name string
		set  func(*member)
		more func(*fakeAPI) // too much
		less func(*fakeAPI)
		says string
	}{
		{"services", func(m *member) { m.services.limits.objects = 3 },
			func(a *fakeAPI) { a.apply(service("b"), service("c")) },
			func(a *fakeAPI) { a.remove(service("c")) }, "more than 3 services"},
		{"slices", func(m *member) { m.slices.limits.objects = 2 },
			func(a *fakeAPI) { a.apply(slice("b"), slice("c")) },
			func(a *fakeAPI) { a.remove(slice("c")) }, "more than 2 endpointslices"},
		{"endpoints", func(m *member) { m.slices.limits.endpoints = 30 },
			func(a *fakeAPI) { a.apply(slice("b", many...)) },
			func(a *fakeAPI) { a.apply(slice("b", many[:10]...)) }, "more than 30 endpoints"},
		{"bytes", func(m *member) { m.slices.limits.size = 400 },
			func(a *fakeAPI) { a.apply(slice("b", many...)) },
			func(a *fakeAPI) { a.remove(slice("b")) }, "more than 400 bytes of endpointslices"},
	} {
		for _, when := range []string{"while it is watched", "while it is away", "from the start"} {
			t.Run(c.name+" "+when, func(t *testing.T) {
				api := newFakeAPI(t)
				kubernetes := service("kubernetes")
				kubernetes.Namespace = "default"
				api.apply(kubernetes, service("web"), slice("web", "10.1.0.1", "10.1.0.2"))
				if when == "from the start" {
					c.more(api)
				}
				r := newRig(t, nil).hasty()
				m := r.members.at("eu-1")
				c.set(m)
				r.members.want("eu-1", ingest.Connection{Secret: "eu-1", Key: "kubeconfig"})
				r.members.secret("eu-1", map[string][]byte{"kubeconfig": api.kubeconfig("t")})
				r.start()
				if when != "from the start" {
					r.await("connected", r.connected("eu-1"))
				}
				before := 0
				r.ask(func() { before = r.in.Slices.Len() })
				switch when {
				case "while it is watched":
					c.more(api)
				case "while it is away":
					api.do(func() { api.status = 500 })
					api.sever()
					r.await("away", r.reason("eu-1", v1alpha1.ReasonFailing))
					c.more(api)
					api.do(func() { api.status = 0 })
				}
				r.await("too many", r.reason("eu-1", v1alpha1.ReasonTooManyObjects))
				r.ask(func() {
					if says := get(r.in.Contacts, "eu-1").Message; !strings.Contains(says, c.says) || !strings.Contains(says, "stay in use") {
						t.Errorf("it says %q", says)
					}
					if when != "from the start" && (webSlice(r).Endpoints.Len() != 2 || get(r.in.Sources, "eu-1").StaleSince == 0) {
						t.Errorf("its rows: %+v, %+v", webSlice(r), get(r.in.Sources, "eu-1"))
					}
					if when == "while it is away" && r.in.Slices.Len() != before || r.in.Services.Len() > 3 || r.in.Slices.Len() > 2 {
						t.Errorf("%d slices, %d services", r.in.Slices.Len(), r.in.Services.Len())
					}
				})
				c.less(api)
				r.await("within the limits", r.connected("eu-1"))
			})
		}
	}
}

// TestFirstListHasAnEnd: what a server sends before it says that its list is
// complete is counted, however often it says the same.
func TestFirstListHasAnEnd(t *testing.T) {
	m := newMember("eu-1", &fleet.Inputs{}, NewMailbox(), slog.New(slog.DiscardHandler), usual)
	s := &source{store: m.services}
	if err := s.took(listLimit + 1); err != nil {
		t.Errorf("no list is under way: %v", err)
	}
	s.store.begin("")
	if err := s.took(listLimit); err != nil {
		t.Errorf("within the limit: %v", err)
	}
	if err := s.took(1); limitOf(err) == nil {
		t.Errorf("over the limit: %v", err)
	}
	m.services.limits.objects = 2
	for i := range 3 {
		if _, err := m.services.all().digest(service("same")); (limitOf(err) != nil) != (i == 2) {
			t.Errorf("object %d: %v", i, err)
		}
	}
	if err := m.services.all().Replace(nil, "1"); err != nil || m.services.complete("") {
		t.Errorf("a list that is over a limit was taken: %v", err)
	}
}

// TestMemberIsReadAtASpeed: one that sends without end, in whatever answers, is
// read no faster than a processor can bear, and that is told once.
func TestMemberIsReadAtASpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, read := 0, 0
		server := bounded{roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: bottomless{strings.NewReader(""), &read}}, nil
		}), newSpeed(func() { told++ })}
		const lasts = 20 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		for ctx.Err() == nil {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://eu-1.example:6443/api/v1/services", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := server.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); limitOf(err) == nil {
				break // it would have to wait for longer than the context lasts
			}
		}
		if want := burstBytes + int(lasts.Seconds())*bytesPerSecond; read < want*9/10 || read > want*11/10 || told != 1 {
			t.Errorf("%d bytes were read in %v, want about %d; told %d times", read, lasts, want, told)
		}
	})
}
