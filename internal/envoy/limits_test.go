package envoy

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// What is too much of a request, or is none that we serve, as docs/envoy.md says.
func TestLimitsOfARequest(t *testing.T) {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	headers := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "X-%d: 1\r\n", i)
		}
		return b.String()
	}
	get := func(path, more string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: shop.example\r\n" + more + "\r\n"
	}
	for name, c := range map[string]struct {
		sent   string
		status int
	}{
		"100 headers":    {strings.Replace(get("/", headers(99)), "shop", "nowhere", 1), 404},
		"100 of answers": {get("/", headers(95)), 502}, // the pod sends back what it got, and more
		"101 headers":    {get("/", headers(100)), 431},
		"60 KiB":         {get("/", "X: "+strings.Repeat("a", 60<<10-60)+"\r\n"), 200},
		"61 KiB":         {get("/", "X: "+strings.Repeat("a", 61<<10)+"\r\n"), 431},
		"60 KiB of path": {get("/"+strings.Repeat("a", 60<<10-60), ""), 200},
		"61 KiB of path": {get("/"+strings.Repeat("a", 61<<10), ""), 431},
		"70 KiB of path": {get("/"+strings.Repeat("a", 70<<10), ""), 431},
		"HTTP/1.0":       {"GET / HTTP/1.0\r\nHost: shop.example\r\n\r\n", 426},
		"CONNECT":        {"CONNECT shop.example:80 HTTP/1.1\r\nHost: shop.example:80\r\n\r\n", 404},
		"OPTIONS *":      {"OPTIONS * HTTP/1.1\r\nHost: shop.example\r\n\r\n", 404},
		"PROPFIND":       {"PROPFIND / HTTP/1.1\r\nHost: shop.example\r\n\r\n", 200},
		"QUERY":          {"QUERY / HTTP/1.1\r\nHost: shop.example\r\n\r\n", 400},
	} {
		c1 := r.dial(t)
		fmt.Fprint(c1, c.sent)
		resp, err := http.ReadResponse(bufio.NewReader(c1), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s: %s, want %d", name, resp.Status, c.status)
		}
	}
	for n, want := range map[int]int{80: 200, 120: 0} { // 0: the stream is reset
		q := shopRequest.overHTTP2(t)
		q.header = http.Header{}
		for i := range n {
			q.header.Set(fmt.Sprint("X-", i), "1")
		}
		if got := r.ask(t, q); got.status != want {
			t.Errorf("%d headers over HTTP/2: %d, %v", n, got.status, got.err)
		}
	}
	q := shopRequest.overHTTP2(t)
	q.header = http.Header{"X": {strings.Repeat("a", 61<<10)}}
	if got := r.ask(t, q); got.status != 0 || !strings.Contains(fmt.Sprint(got.err), "stream error") {
		t.Errorf("61 KiB over HTTP/2: %d, %v", got.status, got.err)
	}
}
