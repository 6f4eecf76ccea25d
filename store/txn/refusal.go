package txn

import (
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A refusal is a period in which commits are refused. The beginning and the end of a refusal
// are each logged once.
type refusal struct{ under atomic.Bool }

// Refusal returns the reason why this server cannot commit now, or nil if it can.
// Possible reasons are that the server was opened for reading, that its clock is in
// doubt, that its disk is full, that a write failed, or that it has no slot.
func (db *DB) Refusal() error {
	if err := db.commits.writable(); err != nil {
		return err
	}
	if s, ok := db.store.(table.Refuser); ok {
		return s.Refuses()
	}
	return nil
}

// noteRefusal logs the beginning of a refusal, with its reason, if that has not been
// logged yet.
func (db *DB) noteRefusal() {
	if db.o.ReadOnly {
		return
	}
	if err := db.Refusal(); err != nil && !db.refused.under.Swap(true) {
		db.o.Log.Error("the store is served for reading only", "store", db.store.String(), "reason", err)
	}
}

// noteSuccess logs the end of a refusal.
func (db *DB) noteSuccess() {
	if db.refused.under.Load() && db.Refusal() == nil && db.refused.under.Swap(false) {
		db.o.Log.Info("the store takes changes again", "store", db.store.String())
	}
}

// isEmbedded reports whether no other process can commit.
func (db *DB) isEmbedded() bool {
	_, embedded := db.store.(table.Batcher)
	return embedded
}
