package account

import (
	"context"
	"time"
)

// Uses are the recorded uses of an expired or reset password of one account. All servers of a
// store share them.
type Uses interface {
	// Record publishes a use. The time of this use differs from the times of all other uses.
	Record(ctx context.Context) error
	// Refresh reads all uses that any server has published.
	Refresh(ctx context.Context) error
	// Recorded returns the uses that this server has read.
	Recorded(ctx context.Context) ([]time.Time, error)
}

// Use records one use, and returns all uses that are recorded afterwards. If several servers
// record uses concurrently, the server whose use is published k-th gets at least k uses. A
// caller must refuse its use if Use returns more uses than the limit. Then the servers
// together allow no more uses than the limit.
func Use(ctx context.Context, u Uses) ([]time.Time, error) {
	if err := u.Record(ctx); err != nil {
		return nil, err
	}
	if err := u.Refresh(ctx); err != nil {
		return nil, err
	}
	return u.Recorded(ctx)
}
