package envoy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestNormalPaths: what Envoy makes of a path is what the model says, for each
// character, each escape, and dots in all spellings.
func TestNormalPaths(t *testing.T) {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	var paths []string
	for c := '!'; c <= 0x7f; c++ {
		if c != '?' && c != '%' { // one ends the path, the other is refused by the pod
			paths = append(paths, fmt.Sprintf("/x%cy", c))
		}
	}
	for c := range 256 {
		paths = append(paths, fmt.Sprintf("/x%%%02xy", c), fmt.Sprintf("/x%%%02Xy", c))
	}
	dots := []string{".", "..", "%2e", "%2E%2e", ".%2e", "..;", ".;a", "%2e%2e;", ".%2e;x", "%2e;", "...", ".a", "..a", "", "a", "%5c..", `\..`, "%2F", "..%2f"}
	for _, a := range dots {
		for _, b := range dots {
			paths = append(paths, "/x/"+a+"/"+b, "/"+a+"/y"+b, "/"+a+b)
		}
	}
	paths = append(paths, "/", "/%25zz", "/xü", "/x%c3%bc")
	for _, path := range paths {
		want, ok := model.NormalPath(path)
		switch {
		case !ok:
			want = "400"
		case model.EscapesSlash(path):
			want = "307 " + want
		}
		if got := arrivesAs(t, r, path); got != want {
			t.Errorf("%s arrives as %s, the model says %s", path, got, want)
		}
	}
	// What no pod of ours would take, Envoy answers itself.
	bad := []string{"/x%", "/x%4", "/x%zz", "/x%%41"}
	r.commit(func(tx *inc.Tx) {
		var routes []fleet.Route
		for _, path := range bad {
			want, ok := model.NormalPath(path)
			if !ok {
				t.Errorf("the model refuses %s", path)
			}
			to := target("web")
			to.Reply = &model.Reply{Status: http.StatusTeapot}
			routes = append(routes, fleet.Route{Match: exact(want), Target: to})
		}
		r.host(tx, testClass, "shop.example", nil, routes...)
	})
	r.settled(t)
	for _, path := range bad {
		if got := arrivesAs(t, r, path); got != "418" {
			t.Errorf("%s is answered %s", path, got)
		}
	}
}

// arrivesAs is the path that a pod sees, or Envoy's answer.
func arrivesAs(t *testing.T, r *rig, path string) string {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.http))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Location")))
	}
	return resp.Header.Get("X-Path")
}
