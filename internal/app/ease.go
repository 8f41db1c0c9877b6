package app

import (
	"context"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// easy is the GC percent until the first publish: nearly all that is made by
	// then stays, so that collections find little.
	easy = 400
	// tidyAfter is when what gathered is given back to the system: proxies that
	// were there before are in sync by then.
	tidyAfter = 10 * time.Second
)

// ease has garbage gather until end is called, unless who started the process
// said how much may. A memory limit holds all the same.
func ease() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	was := debug.SetGCPercent(easy)
	return sync.OnceFunc(func() { debug.SetGCPercent(was) })
}

// tidy gives back what the start took and no longer needs, once. Left to itself
// that stays until the heap is as large again.
func tidy(ctx context.Context, opened <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-opened:
	}
	timer := time.NewTimer(tidyAfter)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		debug.FreeOSMemory()
	}
}
