package txn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// refusingStore refuses all commits while it is full.
type refusingStore struct {
	table.Store
	full error
}

func (s *refusingStore) Refuses() error { return s.full }

func (s *refusingStore) Commit(ctx context.Context, b table.Batch) (func() error, error) {
	if s.full != nil {
		return nil, s.full
	}
	return s.Store.(table.Batcher).Commit(ctx, b)
}

// TestRefusal checks that Refusal returns the reason why commits are refused. The log
// must record the beginning and the end of a refusal once, for every reason, even if
// several commits are refused.
func TestRefusal(t *testing.T) {
	ctx := context.Background()
	full := fmt.Errorf("%w: %w: the disk is full", table.ErrRefused, table.ErrUnavailable)
	jumped := errors.New("the clock jumped")
	s := &refusingStore{Store: tabletest.NewBatchMem()}
	var doubt error
	var log bytes.Buffer
	db := open(t, s, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Doubt: func(time.Time) error { return doubt }})
	defer db.Close(ctx)
	write(t, db, "x", "p", "0")
	for _, reason := range []error{full, jumped, full} {
		log.Reset()
		if reason == full {
			s.full = full
		} else {
			doubt = reason
		}
		for range 3 {
			_, err := db.Update(ctx, func(tx *Tx) error {
				tx.Write(db.Table("data"), put("x", "p", "2"))
				return nil
			})
			if !errors.Is(err, reason) {
				t.Fatalf("%v: %v", reason, err)
			}
			if _, err := db.Update(ctx, func(*Tx) error { return nil }); reason == full && err != nil {
				t.Error("nothing to write: ", err)
			}
		}
		if err := db.Refusal(); !errors.Is(err, reason) {
			t.Errorf("the refusal is %v, want %v", err, reason)
		}
		s.full, doubt = nil, nil
		for range 2 {
			write(t, db, "x", "p", "1")
		}
		if err := db.Refusal(); err != nil {
			t.Error(err)
		}
		text := log.String()
		if strings.Count(text, "served for reading only") != 1 || strings.Count(text, "takes changes again") != 1 || !strings.Contains(text, reason.Error()) {
			t.Errorf("the log has\n%s", text)
		}
	}
}

// TestRefusalAtTheStart checks that a store with a doubtful clock logs the refusal when
// it is opened, before any client writes. A store opened for reading must log nothing.
func TestRefusalAtTheStart(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		s := tabletest.NewBatchMem()
		open(t, s, Options{}).Close(context.Background())
		var log bytes.Buffer
		db := open(t, s, Options{ReadOnly: readOnly, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Doubt: func(time.Time) error { return errors.New("the clock jumped") }})
		if db.Refusal() == nil {
			t.Error("it takes changes")
		}
		db.Close(context.Background())
		if has := strings.Contains(log.String(), "the clock jumped"); has == readOnly {
			t.Errorf("for reading %v: the log has\n%s", readOnly, &log)
		}
	}
}
