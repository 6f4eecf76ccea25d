package accountlog

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/internal/wellknown"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newLedger returns the ledger of an entry.
func newLedger(t *testing.T) (*Book, *Ledger) {
	t.Helper()
	return newLedgerIn(t, tabletest.NewMem())
}

func newLedgerIn(t *testing.T, s table.Store) (*Book, *Ledger) {
	t.Helper()
	ctx := context.Background()
	p, err := partition.Open(ctx, s, partition.Options{Schema: schema.Core(), Create: true})
	must(t, err)
	t.Cleanup(func() { must(t, p.Close(ctx)) })
	name, err := dn.Parse("dc=example")
	must(t, err)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{"dc=example"}))
	var id entry.ID
	_, err = write.Update(ctx, p, partition.By{}, func(tx *partition.Tx) (err error) {
		id, err = tx.Add(ctx, name, []op.PartialAttribute{{Description: "objectClass", Values: [][]byte{[]byte("domain")}}}, false)
		return err
	})
	must(t, err)
	b := NewBook(p, slog.New(slog.DiscardHandler))
	t.Cleanup(b.Close)
	return b, b.Of(wellknown.New(p.Schema()), id)
}

// TestForgottenAtOnce checks that failures that are being deleted no longer count at this
// server. A right password makes the server delete the earlier failures. Until they are
// deleted, they must not lock out the next right password.
func TestForgottenAtOnce(t *testing.T) {
	ctx := context.Background()
	b, l := newLedger(t)
	policy := &account.Policy{Lockout: true, MaxFailure: 3}
	first, err := l.Fail(ctx, policy)
	must(t, err)
	later := make(chan struct{})
	for range backgroundAtOnce {
		b.background.start(func(context.Context) { <-later })
	}
	l.Forget([]time.Time{first})
	second, err := l.Fail(ctx, policy)
	must(t, err)
	want := func(when string) {
		t.Helper()
		got, err := l.Failures(ctx)
		must(t, err)
		if !slices.EqualFunc(got, []time.Time{second}, time.Time.Equal) {
			t.Errorf("%s: %v, want %v", when, got, second)
		}
	}
	want("before the deletion")
	close(later)
	b.Settle()
	want("after the deletion")
	if n := len(b.forgotten.all); n != 0 {
		t.Errorf("%d accounts are still remembered", n)
	}
}

// TestFailuresThatCannotBeWritten checks that this server counts a failure that it cannot
// write, and that Fail returns an error under a strict policy.
func TestFailuresThatCannotBeWritten(t *testing.T) {
	ctx := context.Background()
	s, faults := tabletest.WithFaults(tabletest.NewBatchMem(), 1)
	_, l := newLedgerIn(t, s)
	faults.SetRate(1)
	defer faults.SetRate(0)
	if _, err := l.Fail(ctx, &account.Policy{Lockout: true, MaxFailure: 3, LockoutStrict: true}); err == nil {
		t.Error("a strict policy: no error")
	}
	if n := len(l.book.unrecorded.of(l.id)); n != 0 {
		t.Errorf("a strict policy: %d failures are remembered", n)
	}
	if _, err := l.Fail(ctx, &account.Policy{Lockout: true, MaxFailure: 3}); err != nil {
		t.Error(err)
	}
	if n := len(l.book.unrecorded.of(l.id)); n != 1 {
		t.Errorf("%d failures are remembered", n)
	}
}
