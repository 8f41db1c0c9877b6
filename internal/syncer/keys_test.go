package syncer

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/syncer/syncertest"
	"github.com/spillway-dev/spillway/internal/work"
)

// secretAPI is a member that has Secrets.
type secretAPI struct {
	mu     sync.Mutex
	has    map[string]*unstructured.Unstructured // by namespace and name
	asked  []string
	answer int // to all; 0: as it should be
}

func (f *secretAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/") // NS/secrets[/NAME]
	f.asked = append(f.asked, r.Method+" "+path)
	if f.answer != 0 {
		return syncertest.Failure(apierrors.NewGenericServerResponse(f.answer, r.Method, secrets.GroupResource(), "", "", 0, true)), nil
	}
	namespace, name, one := strings.Cut(path, "/secrets/")
	switch {
	case r.Method == http.MethodPost:
		data, err := io.ReadAll(r.Body)
		o := &unstructured.Unstructured{}
		if err != nil || o.UnmarshalJSON(data) != nil {
			return syncertest.Failure(apierrors.NewBadRequest("it can't be read")), nil
		}
		id := strings.TrimSuffix(path, "/secrets") + "/" + o.GetName()
		if f.has[id] != nil {
			return syncertest.Failure(apierrors.NewAlreadyExists(secrets.GroupResource(), id)), nil
		}
		f.has[id] = o
		return syncertest.Reply(http.StatusCreated, o.Object), nil
	case one:
		delete(f.has, namespace+"/"+name)
		return syncertest.Reply(http.StatusOK, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}), nil
	}
	sel, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return syncertest.Failure(apierrors.NewBadRequest(err.Error())), nil
	}
	for id, o := range f.has {
		if strings.HasPrefix(id, strings.TrimSuffix(path, "/secrets")+"/") && sel.Matches(labels.Set(o.GetLabels())) {
			delete(f.has, id)
		}
	}
	return syncertest.Reply(http.StatusOK, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}), nil
}

func (f *secretAPI) CloseIdleConnections() {}

// since are the requests since the last call.
func (f *secretAPI) since() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.asked
	f.asked = nil
	return out
}

// keysOn begins to keep copies, until the test ends.
func keysOn(t *testing.T, f *secretAPI, report func(KeyName, Reason, string)) (*Keys, func()) {
	t.Helper()
	client, err := work.NewClient(&rest.Config{Host: "http://member.example", Transport: f})
	if err != nil {
		t.Fatal(err)
	}
	k := NewKeys(KeysOptions{Hub: "h", Client: client, Report: report})
	ctx, cancel := context.WithCancel(t.Context())
	var over sync.WaitGroup
	over.Go(func() { k.Run(ctx) })
	return k, func() { cancel(); over.Wait() }
}

// TestALostCopy: a copy that a member lost is made again within twenty minutes. What is
// there is asked for seldom, and nothing is told of it, whatever the member answers.
func TestALostCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &secretAPI{has: map[string]*unstructured.Unstructured{}}
		var mu sync.Mutex
		var told []Reason
		k, end := keysOn(t, f, func(_ KeyName, became Reason, _ string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, became)
		})
		defer end()
		name := KeyName{"shop", "cert-1"}
		c := &Copy{RootUID: "u", Label: "1", Chain: []byte("chain"), Key: []byte("key")}
		k.Want(name, c)
		time.Sleep(time.Second)
		if got := f.since(); !slices.Equal(got, []string{"POST shop/secrets"}) {
			t.Fatal(got)
		}
		time.Sleep(relist - 2*time.Second)
		if got := f.since(); len(got) > 0 {
			t.Errorf("at rest: %v", got)
		}
		time.Sleep(relist/4 + 2*time.Second)
		if got := f.since(); !slices.Equal(got, []string{"POST shop/secrets"}) {
			t.Errorf("it is there: %v", got)
		}
		f.mu.Lock()
		clear(f.has)
		f.mu.Unlock()
		time.Sleep(relist + relist/4 + time.Second)
		if f.mu.Lock(); f.has["shop/cert-1"] == nil {
			t.Error("it was not made again")
		}
		f.answer = http.StatusForbidden
		f.mu.Unlock()
		f.since()
		time.Sleep(4 * relist)
		if got := f.since(); len(got) < 2 || len(got) > 4 {
			t.Errorf("refused: %v", got)
		}
		mu.Lock()
		if !slices.Equal(told, []Reason{Applied}) {
			t.Errorf("told %v", told)
		}
		mu.Unlock()
		f.mu.Lock()
		f.answer = 0
		f.mu.Unlock()
		k.Want(name, nil)
		time.Sleep(time.Second)
		f.since()
		time.Sleep(4 * relist)
		if got := f.since(); len(got) > 0 {
			t.Errorf("it is not wanted any more: %v", got)
		}
	})
}

// TestSweepKeys: all copies of one hub go, in the namespaces that are named, and what could
// not be deleted is counted.
func TestSweepKeys(t *testing.T) {
	f := &secretAPI{has: map[string]*unstructured.Unstructured{}}
	client, err := work.NewClient(&rest.Config{Host: "http://member.example", Transport: f})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"shop/h", "certs/h", "shop/g", "other/h"} {
		namespace, hub, _ := strings.Cut(id, "/")
		k := &Keys{KeysOptions: KeysOptions{Hub: hub}}
		f.has[id] = k.object(KeyName{namespace, hub}, &Copy{Label: "1"})
	}
	if left, why := SweepKeys(t.Context(), client, "h", []string{"certs", "shop"}); left != 0 || why != "" {
		t.Error(left, why)
	}
	if len(f.has) != 2 || f.has["shop/g"] == nil || f.has["other/h"] == nil {
		t.Errorf("left are %v", f.has)
	}
	f.answer = http.StatusForbidden
	if left, why := SweepKeys(t.Context(), client, "h", []string{"certs", "shop"}); left != 2 || why != "Forbidden" {
		t.Error(left, why)
	}
}
