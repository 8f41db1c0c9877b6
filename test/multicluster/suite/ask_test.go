package suite

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	giveUp   = 10 * time.Second // with an answer
	inARow   = 10               // answers that must be as expected, one after another: an implementation may have several proxies
	mostBody = 1 << 20
)

// client makes a connection for each request, so that each may be sent elsewhere.
var client = &http.Client{
	Timeout:       giveUp,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, Proxy: nil},
}

// request is one for the test's host.
type request struct {
	address string // of the Gateway, with its port
	method  string // default GET
	path    string // default /
	headers string // NAME=VALUE, separated by spaces
}

func (r request) String() string {
	text := cmp.Or(r.method, http.MethodGet) + " " + cmp.Or(r.path, "/")
	if r.headers != "" {
		text += " with " + r.headers
	}
	return text + " at " + r.address
}

// answer is what came.
type answer struct {
	sent    time.Time
	err     error // there was none
	status  int
	backend string // name of the Service; empty: nobody that is known
	member  *cluster
	rule    string // that sent it there, as its header says
	body    string
}

func (a answer) String() string {
	switch {
	case a.err != nil:
		return "no answer: " + a.err.Error()
	case a.member == nil:
		return fmt.Sprintf("%d %.200q", a.status, a.body)
	case a.rule != "":
		return fmt.Sprintf("%d from %s in %s by rule %s", a.status, a.backend, a.member.name, a.rule)
	}
	return fmt.Sprintf("%d from %s in %s", a.status, a.backend, a.member.name)
}

// ruleHeader is a request header by which a rule tells the pod that it was the one.
const ruleHeader = "X-Suite-Rule"

// ask sends a request.
func (w *world) ask(ctx context.Context, r request) (a answer) {
	a.sent = time.Now()
	req, err := http.NewRequestWithContext(ctx, cmp.Or(r.method, http.MethodGet), "http://"+r.address+cmp.Or(r.path, "/"), nil)
	if err != nil {
		return answer{sent: a.sent, err: err}
	}
	req.Host = w.host()
	for _, h := range strings.Fields(r.headers) {
		name, value, _ := strings.Cut(h, "=")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{sent: a.sent, err: err}
	}
	defer resp.Body.Close()
	a.status = resp.StatusCode
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostBody))
	if err != nil {
		return answer{sent: a.sent, err: err}
	}
	a.body = string(body)
	if a.status == http.StatusOK {
		w.identify(&a)
	}
	return a
}

// echo is what is read of the answers of pods.
type echo struct {
	Pod     string              `json:"pod"`
	Headers map[string][]string `json:"headers"`
}

// identify tells by an answer whose it is. One member's name may begin with that of another.
func (w *world) identify(a *answer) {
	var e echo
	if json.Unmarshal([]byte(a.body), &e) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := 0
	for p := range w.pods {
		if prefix := p.prefix() + "-"; strings.HasPrefix(e.Pod, prefix) && len(prefix) > longest {
			longest, a.backend, a.member = len(prefix), p.name, p.member
		}
	}
	a.rule = strings.Join(http.Header(e.Headers)[ruleHeader], ",")
}

// want is what an answer must be.
type want struct {
	status  int        // default 200
	backend string     // name of the Service, with status 200
	members []*cluster // any of these, with status 200
	rule    string     // empty: any
}

// from is an answer of a Service by one of some members.
func from(backend string, members ...*cluster) want { return want{backend: backend, members: members} }

// code is an answer that is no pod's.
func code(status int) want { return want{status: status} }

func (w want) String() string {
	if w.status != 0 {
		return fmt.Sprint(w.status)
	}
	text := "200 from " + w.backend + " in " + names(w.members)
	if w.rule != "" {
		text += " by rule " + w.rule
	}
	return text
}

func names(members []*cluster) string {
	var out []string
	for _, m := range members {
		out = append(out, m.name)
	}
	return strings.Join(out, " or ")
}

// wrong is nil if an answer is as it must be.
func (w want) wrong(r request, a answer) error {
	ok := a.err == nil && a.status == cmp.Or(w.status, http.StatusOK)
	if w.status == 0 {
		ok = ok && a.backend == w.backend && slices.Contains(w.members, a.member) && (w.rule == "" || a.rule == w.rule)
	}
	if ok {
		return nil
	}
	return fmt.Errorf("asked %s, expected %s, and came %s", r, w, a)
}

// answers returns when so many answers in a row are as they must be. The last one is
// returned.
func (w *world) answers(r request, must want) (last answer) {
	w.Helper()
	w.await(fmt.Sprintf("%d answers in a row", inARow), func(ctx context.Context) error {
		for range inARow {
			last = w.ask(ctx, r)
			if err := must.wrong(r, last); err != nil {
				return err
			}
		}
		return nil
	})
	return last
}

// always asks so many times, and each answer must be as it must be.
func (w *world) always(r request, must want, times int) {
	w.Helper()
	for i := range times {
		if err := must.wrong(r, w.ask(w.Context(), r)); err != nil {
			w.Fatalf("answer %d of %d: %v", i+1, times, err)
		}
	}
}

// trickle is requests that are sent one after another until it is stopped.
type trickle struct {
	w       *world
	request request
	stop    context.CancelFunc
	done    chan struct{}
	all     []answer
}

const pace = 20 * time.Millisecond // between two of its requests

func (w *world) trickle(r request) *trickle {
	ctx, stop := context.WithCancel(w.Context())
	t := &trickle{w: w, request: r, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.all = append(t.all, w.ask(context.WithoutCancel(ctx), r))
			case <-ctx.Done():
				return
			}
		}
	}()
	w.Cleanup(func() { t.end() })
	return t
}

// end stops it, and returns all answers.
func (t *trickle) end() []answer {
	t.stop()
	<-t.done
	return t.all
}

// noneFailed demands that each answer was 200 of a Service in some members.
func (t *trickle) noneFailed(must want) {
	t.w.Helper()
	t.noneWrong(time.Time{}, time.Now(), must)
	if len(t.all) == 0 {
		t.w.Error("no request was sent")
	}
	t.w.Logf("%d requests, of which none may fail", len(t.all))
}

// noneWrong looks at requests that were sent in a time. It tells of the first that was
// wrong.
func (t *trickle) noneWrong(after, before time.Time, must want) {
	t.w.Helper()
	var first error
	wrong, looked := 0, 0
	for _, a := range t.end() {
		if a.sent.Before(after) || !a.sent.Before(before) {
			continue
		}
		looked++
		if err := must.wrong(t.request, a); err != nil {
			if wrong++; first == nil {
				first = err
			}
		}
	}
	if wrong > 0 {
		t.w.Errorf("%d of %d requests, the first: %v", wrong, looked, first)
	}
}
