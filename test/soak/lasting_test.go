package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab/tied"
)

func TestAnswersThatAreLosses(t *testing.T) {
	wrong := fmt.Errorf("%w: []", errAddresses)
	for _, c := range []struct {
		what string
		err  error
		away bool
		want losses
		lost bool
	}{
		{"right", nil, false, losses{}, false},
		{"none while serve ran", errors.New("SERVFAIL"), false, losses{Unanswered: 1}, true},
		{"none while serve was dead", errors.New("connection refused"), true, losses{Away: 1}, false},
		{"no addresses", wrong, false, losses{Wrong: 1}, true},
		{"no addresses from one that just began", wrong, true, losses{Wrong: 1}, true},
	} {
		c.want.Asked, c.want.SilenceMS = 1, 7
		var sum losses
		lost := sum.answered(c.err, c.away, 7*time.Millisecond)
		if got := fmt.Sprintf("%+v", sum); lost != c.lost || got != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s: %s, lost %t; want %+v, %t", c.what, got, lost, c.want, c.lost)
		}
		if failed := sum.failed() != nil; failed != c.lost {
			t.Errorf("%s: failed is %t", c.what, failed)
		}
	}
}

func TestStatusOfAllEdges(t *testing.T) {
	l := &lasting{addresses: []string{"127.0.10.1", "127.0.10.2"}}
	for _, c := range []struct {
		addresses []any
		right     bool
	}{
		{[]any{"127.0.10.2", "127.0.10.1"}, true},
		{[]any{"127.0.10.1"}, false},
		{[]any{"127.0.10.1", "127.0.10.3"}, false},
		{nil, false},
	} {
		var list []any
		for _, a := range c.addresses {
			list = append(list, object{"ip": a})
		}
		o := &unstructured.Unstructured{Object: object{"status": object{"loadBalancer": object{"ingress": list}}}}
		if err := l.same(statusAddresses(o)); (err == nil) != c.right {
			t.Errorf("%v: %v", c.addresses, err)
		}
	}
}

// TestSecondVersion: each start of the control plane is of the version that did
// not run.
func TestSecondVersion(t *testing.T) {
	f := &fleet{serve: &tied.Program{Path: "before"}, next: "this"}
	for _, want := range []string{"this", "before", "this"} {
		if got := f.alternate(); got != want || f.serve.Path != want {
			t.Errorf("%s starts, want %s", got, want)
		}
	}
}
