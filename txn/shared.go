package txn

import (
	"context"
	"errors"
)

func openShared(ctx context.Context, db *DB) error { return errors.New("store is not a Batcher") }
