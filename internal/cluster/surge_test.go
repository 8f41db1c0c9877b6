package cluster

import (
	"fmt"
	"testing"
	"time"

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
	now := time.Unix(1_000, 0)
	s.now = func() time.Time { return now }
	add := func(namespace string, i int) {
		t.Helper()
		if err := s.Add(&metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i), ResourceVersion: "1"}); err != nil {
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
		if err := s.Delete(&metav1.ObjectMeta{Namespace: "busy", Name: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(mail.TakeUrgent()); n != manyChanges-1 {
		t.Errorf("%d deletes go at once, want %d", n, manyChanges-1)
	}
}
