package envoytest

import (
	"testing"
)

func TestFreePortIsNobodyElses(t *testing.T) {
	t.Parallel()
	port := FreePort(t)
	if reserve(t, port) {
		t.Errorf("port %d was given twice", port)
	}
	t.Run("until the test ends", func(t *testing.T) { port = FreePort(t) })
	if !reserve(t, port) {
		t.Errorf("port %d is held after its test", port)
	}
}
