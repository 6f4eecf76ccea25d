// Package pause waits for a time or the end of a context.
package pause

import (
	"context"
	"time"
)

// For waits for d. If ctx ends first, For returns the cause.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
