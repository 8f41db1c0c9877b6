package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

// judge is a hub that knows the tokens alice and bob; alice may get /metrics.
type judge struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int // by path
	away  bool
}

func newJudge(t *testing.T) *judge {
	j := &judge{asked: map[string]int{}}
	j.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.asked[r.URL.Path]++
		if j.away {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		var out any
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			var in authenticationv1.TokenReview
			decode(t, r, &in)
			if name := in.Spec.Token; name == "alice" || name == "bob" {
				in.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: name, Groups: []string{"people"}}}
			}
			out = in
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			var in authorizationv1.SubjectAccessReview
			decode(t, r, &in)
			a := in.Spec.NonResourceAttributes
			in.Status.Allowed = in.Spec.User == "alice" && a.Verb == "get" && a.Path == "/metrics" && strings.Contains(strings.Join(in.Spec.Groups, " "), "people")
			out = in
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(j.Close)
	return j
}

func decode(t *testing.T, r *http.Request, into any) {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		t.Error(err)
	}
}

// TestHubAccess: the hub decides, and is not asked the same twice in a row.
func TestHubAccess(t *testing.T) {
	hub := newJudge(t)
	access, err := hubAccess(&rest.Config{Host: hub.URL})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(token, path string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		code, err := access(r)
		if err != nil {
			return code, err.Error()
		}
		return code, ""
	}
	for range 3 {
		for _, c := range []struct {
			token, path string
			code        int
			want        string
		}{
			{"alice", "/metrics", 200, ""},
			{"alice", "/v1/hosts", 403, `alice may not get /v1/hosts: bind a ClusterRole with nonResourceURLs ["/v1/hosts"]`},
			{"bob", "/metrics", 403, "bob may not"},
			{"mallory", "/metrics", 401, "does not say whose token"},
			{"", "/metrics", 401, "Authorization: Bearer"},
		} {
			if code, text := ask(c.token, c.path); code != c.code || !strings.Contains(text, c.want) {
				t.Errorf("%s %s: %d %s, want %d %s", c.token, c.path, code, text, c.code, c.want)
			}
		}
	}
	hub.mu.Lock()
	if a, b := hub.asked["/apis/authentication.k8s.io/v1/tokenreviews"], hub.asked["/apis/authorization.k8s.io/v1/subjectaccessreviews"]; a != 3 || b != 3 {
		t.Errorf("asked about %d tokens and %d rights, there are three of each", a, b)
	}
	hub.away = true
	hub.mu.Unlock()
	if code, text := ask("carol", "/metrics"); code != 401 || !strings.Contains(text, "unable to handle") {
		t.Errorf("hub away: %d %s", code, text)
	}
	if code, _ := ask("alice", "/metrics"); code != 200 {
		t.Errorf("hub away, and it said yes a moment ago: %d", code)
	}
}
