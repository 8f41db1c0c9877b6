package apiserver

import (
	"context"
	"log/slog"
	"time"
)

// renewEvery is how often certificates are looked at while the server runs. It
// takes new ones by itself: kube-apiserver watches its files.
const renewEvery = time.Hour

// keepFresh renews what is near its end at each tick, until ctx ends. What fails
// is tried again at the next one: half of a certificate's life is left by then.
func keepFresh(ctx context.Context, ticks <-chan time.Time, renew func(time.Time) error, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks:
			if err := renew(now); err != nil {
				log.Warn("certificates not renewed, trying again", "in", renewEvery.String(), "error", err)
			}
		}
	}
}
