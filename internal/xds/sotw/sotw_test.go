package sotw

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/xds"
)

func ask(f xds.Face, r xds.Request) error {
	f.Put(r)
	_, err := f.Take(time.Time{}, 0)
	return err
}

func TestWorldRefusesWildcards(t *testing.T) {
	for _, names := range [][]string{nil, {"*"}, {"a", "*"}} {
		if err := ask(New(xds.Limits{}), xds.Request{Type: xds.Listener, Names: names}); !errors.Is(err, xds.ErrWildcard) {
			t.Errorf("%v: %v", names, err)
		}
	}
}

// TestClientNames: what a gRPC client may name.
func TestClientNames(t *testing.T) {
	names := make([]string, clientNames+1)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	w := New(xds.Limits{})
	if err := ask(w, xds.Request{Type: xds.Listener, Names: names[1:]}); err != nil {
		t.Error(err)
	}
	if err := ask(w, xds.Request{Type: xds.Listener, Names: names}); err == nil {
		t.Error("one more is taken")
	}
}

// TestVersion: equal content has an equal version in any order and on any
// stream, other content another one.
func TestVersion(t *testing.T) {
	a, b := &xds.Resource{Name: "a", Version: "1"}, &xds.Resource{Name: "b", Version: "1"}
	one, two := sumUp(xds.Cluster, "1", []*xds.Resource{a, b}), sumUp(xds.Cluster, "2", []*xds.Resource{b, a})
	if one.Version != two.Version || !slices.Equal(one.Resources, two.Resources) {
		t.Error("the order matters")
	}
	if other := sumUp(xds.Cluster, "1", []*xds.Resource{a}); other.Version == one.Version || other.Version == "" {
		t.Error("the content does not matter")
	}
}
