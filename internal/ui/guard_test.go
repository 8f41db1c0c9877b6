package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestGuard(t *testing.T) {
	access := func(r *http.Request) (int, error) {
		switch {
		case r.Header.Get("Authorization") != "Bearer good":
			return http.StatusUnauthorized, errors.New("who?")
		case r.URL.Path != "/v1/tables":
			return http.StatusForbidden, errors.New("the hub says no")
		}
		return http.StatusOK, nil
	}
	h := guarded(Handler(source(nil)), access)
	for _, c := range []struct {
		path, auth string
		code       int
	}{
		{"/healthz", "", 200},
		{"/readyz", "", 200},
		{"/v1/tables", "", 401},
		{"/v1/tables", "Bearer bad", 401},
		{"/v1/tables", "Bearer good", 200},
		{"/v1/findings", "Bearer good", 403},
		{"/metrics", "", 401},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Header.Set("Authorization", c.auth)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.code {
			t.Errorf("%s with %q: %d, want %d", c.path, c.auth, w.Code, c.code)
		}
	}
}

// TestAPeerDoesNotKeepTheHubBusy: a flood of tokens from one network is turned
// away where the requests of others are still judged.
func TestAPeerDoesNotKeepTheHubBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		judged := 0
		var places = guarded(Handler(source(nil)), func(*http.Request) (int, error) {
			mu.Lock()
			judged++
			mu.Unlock()
			time.Sleep(time.Second) // the hub's answer
			return http.StatusOK, nil
		})
		codes := map[int]int{}
		ask := func(from string) {
			r := httptest.NewRequest(http.MethodGet, "/v1/tables", nil)
			r.RemoteAddr = from
			w := httptest.NewRecorder()
			places.ServeHTTP(w, r)
			mu.Lock()
			codes[w.Code]++
			mu.Unlock()
		}
		for i := range 100 {
			go ask(fmt.Sprintf("[2001:db8::%x]:1", i))
		}
		synctest.Wait()
		if judged != perPeer || codes[http.StatusTooManyRequests] != 100-perPeer {
			t.Errorf("judged %d, answered %v", judged, codes)
		}
		for _, other := range []string{"192.0.2.1:1", "192.0.2.2:1", "[2001:db8:0:1::]:1"} {
			go ask(other)
		}
		synctest.Wait()
		if judged != perPeer+3 {
			t.Errorf("judged %d: others wait", judged)
		}
		time.Sleep(2 * time.Second)
		ask("[2001:db8::1]:1")
		if codes[http.StatusOK] != perPeer+4 {
			t.Errorf("answered %v", codes)
		}
	})
}

// TestNamesOfLoopback: a browser that was led here by a name of a stranger's gets
// nothing to read.
func TestNamesOfLoopback(t *testing.T) {
	h := local(Handler(source(nil)))
	for host, want := range map[string]int{
		"localhost:18080": 200, "LOCALHOST": 200, "localhost.": 200, "spillway.localhost:1": 200, "127.0.0.1:18080": 200, "127.3.4.5": 200, "[::1]:18080": 200, "::1": 200, "": 200,
		"[::ffff:127.0.0.1]:1": 200,
		"evil.example":         421, "evil.example:18080": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "notlocalhost": 421, "192.0.2.1": 421, "[2001:db8::1]:80": 421,
		"0.0.0.0:18080": 421, "a b": 421,
	} {
		for _, path := range []string{"/v1/tables", "/healthz", "/metrics"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s of %q: %d, want %d", path, host, w.Code, want)
			}
		}
	}
}
