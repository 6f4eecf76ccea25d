package txn

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// TestDoubt checks a store of one process whose clock is in doubt: it can be read,
// commits nothing and loses no history. When the clock is right again, commits use its
// time.
func TestDoubt(t *testing.T) {
	ctx := context.Background()
	now, doubt := time.Now(), error(nil)
	db := open(t, tabletest.NewBatchMem(), Options{
		Now: func() time.Time { return now }, Doubt: func(time.Time) error { return doubt },
	})
	defer db.Close(ctx)
	first := write(t, db, "x", "p", "0")
	write(t, db, "x", "p", "1")

	right := now
	now, doubt = now.Add(1000*time.Hour), errors.New("the clock jumped")
	nothing := func(*Tx) error { return nil }
	if _, err := db.Update(ctx, nothing); !errors.Is(err, table.ErrUnavailable) || !errors.Is(err, doubt) {
		t.Errorf("an update: %v", err)
	}
	if err := db.Refusal(); !errors.Is(err, doubt) {
		t.Errorf("refusal: %v", err)
	}
	if _, err := db.Bulk(ctx, table.BulkOptions{}); !errors.Is(err, doubt) {
		t.Errorf("a load: %v", err)
	}
	if _, err := db.Collect(ctx, CollectOptions{Retention: time.Hour}); err != nil {
		t.Error(err)
	}
	if s, err := db.At(ctx, first); err != nil {
		t.Errorf("history: %v", err)
	} else {
		s.Close()
	}
	s, err := db.AtTime(ctx, now)
	if err != nil {
		t.Fatal("reading the present: ", err)
	}
	s.Close()

	now, doubt = right, nil
	if r := write(t, db, "x", "p", "2"); r.Time().After(right.Add(time.Second)) {
		t.Errorf("a commit at %v, by a clock of %v", r.Time(), right)
	}
}
