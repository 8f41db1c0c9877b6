package cluster

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/inc"
)

// TestSurgeIsBulk: of a namespace that changes much at once, most waits until an
// edit in another namespace is done; in the next second its edits are edits again.
func TestSurgeIsBulk(t *testing.T) {
	table := inc.Input[text, text](inc.New(), "table")
	mail := NewMailbox()
	s := newStore(mail, func(o metav1.Object) []fact {
		return []fact{row[text, text]{table, text(o.GetNamespace() + "/" + o.GetName()), text(o.GetResourceVersion())}}
	}, nil)
	s.surge = &surge{}
	now := time.Unix(1_000, 0)
	s.now = func() time.Time { return now }
	add := func(namespace string, i int) {
		t.Helper()
		if err := s.all().Add(&metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i), ResourceVersion: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	const many = 500
	for i := range many {
		add("busy", i)
	}
	add("calm", 0)
	if n := len(mail.TakeUrgent()); n != manyChanges+1 {
		t.Errorf("%d changes go at once, want %d", n, manyChanges+1)
	}
	if n := len(mail.Take()); n != many-manyChanges {
		t.Errorf("%d changes went after them, want %d", n, many-manyChanges)
	}
	now = now.Add(surgeTime)
	add("busy", many)
	if n := len(mail.TakeUrgent()); n != 1 {
		t.Errorf("%d changes go at once a second later, want 1", n)
	}
	for i := range many {
		if err := s.all().Delete(&metav1.ObjectMeta{Namespace: "busy", Name: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(mail.TakeUrgent()); n != manyChanges-1 {
		t.Errorf("%d deletes go at once, want %d", n, manyChanges-1)
	}
}

// TestEndpointsAreNoSurge: however many EndpointSlices of a namespace change in a
// member, each is urgent.
func TestEndpointsAreNoSurge(t *testing.T) {
	mail := NewMailbox()
	m := newMember("eu-1", inputs(inc.New()), mail, slog.New(slog.DiscardHandler), usual)
	m.slices.listed = map[string]bool{"": true}
	const many = 10 * manyChanges
	for i := range many {
		o := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprint("web-", i), ResourceVersion: "1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
		}, AddressType: discoveryv1.AddressTypeIPv4}
		if err := m.slices.all().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(mail.TakeUrgent()); n < many {
		t.Errorf("%d of %d changes are urgent", n, many)
	}
}
