package cluster

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A first list is taken in the order in which the server sent it, though the
// reflector gives it in none.
func TestListKeepsItsOrder(t *testing.T) {
	s := newStore(NewMailbox(), func(metav1.Object) []fact { return nil }, nil)
	var want, got []name
	s.changed = func(n name, _ metav1.Object) { got = append(got, n) }
	keep := s.all().Transformer()
	var list []any
	for i := range 100 {
		n := name{"shop", fmt.Sprintf("web-%d", i)}
		o, err := keep(&metav1.ObjectMeta{Namespace: n.namespace, Name: n.name})
		if err != nil {
			t.Fatal(err)
		}
		want, list = append(want, n), append(list, o)
	}
	slices.Reverse(list)
	if err := s.all().Replace(list, "1"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("taken as %v", got)
	}
}
