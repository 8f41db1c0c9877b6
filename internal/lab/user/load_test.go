package user

import (
	"context"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLoadIsBounded(t *testing.T) {
	l, room := &Load{}, make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	if !l.admit(ctx, room) {
		t.Fatal("the first has room")
	}
	cancel()
	if l.admit(ctx, room) {
		t.Error("the second has no room and the load has ended")
	}
	<-room
	if got, want := l.admit(t.Context(), room), (Counts{Sent: 2}); !got || l.Counts() != want {
		t.Errorf("after an answer there is room: %+v", l.Counts())
	}
}
