package app

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestAwaited: a start without a checkpoint, on a hub whose statuses say nothing, awaits
// every member of the first list that is not read with it. One that is added later is new.
func TestAwaited(t *testing.T) {
	o := NewOffline(OfflineOptions{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	member := func(name string) metav1.Object {
		m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
		m.Spec.Connection.KubeconfigSecretRef = &v1alpha1.SecretKeyRef{Name: name}
		return m
	}
	for _, kind := range o.Feed.Kinds() {
		var all []metav1.Object
		if kind == "memberclusters" {
			all = []metav1.Object{member("eu-1"), member("read"), member("us-1")}
		}
		if err := o.Feed.List(kind, all); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(o.Feed.ListServices("read", nil), o.Feed.ListSlices("read", nil)); err != nil {
		t.Fatal(err)
	}
	o.Feed.Tell("read", model.Contact{Reason: v1alpha1.ReasonConnected})
	want := []model.Member{"eu-1", "us-1"}
	for _, what := range []string{"the first list", "a member more"} {
		o.Turn()
		in := o.Tables().Program.In
		if awaited := in.Awaited.Keys(); !slices.Equal(awaited, want) || in.Members.Len() < len(want) {
			t.Errorf("%s: of %v awaited %v, want %v", what, in.Members.Keys(), awaited, want)
		}
		if err := o.Feed.Put("memberclusters", member("ap-1")); err != nil {
			t.Fatal(err)
		}
	}
}
