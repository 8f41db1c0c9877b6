package demo

import (
	"context"
	"time"

	"github.com/spillway-dev/spillway/internal/eventually"
)

// await asks until check is content, and tells what is waited for.
func (f *fleet) await(ctx context.Context, what string, check func(context.Context) error) error {
	return eventually.Patience{Most: 90 * time.Second, Poll: 25 * time.Millisecond, Waiting: f.tell.waiting}.Await(ctx, what, check)
}
