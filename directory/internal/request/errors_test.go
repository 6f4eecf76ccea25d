package request

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

func TestToResult(t *testing.T) {
	d := &Server{Log: slog.New(slog.DiscardHandler)}
	d.current.Store(&settings.Settings{})
	for _, c := range []struct {
		err  error
		code op.Code
	}{
		{op.Errorf(op.SizeLimitExceeded, "x"), op.SizeLimitExceeded},
		{fmt.Errorf("add: %w", &partition.Error{Problem: partition.EntryExists}), op.EntryAlreadyExists},
		{fmt.Errorf("commit: %w", txn.ErrConflict), op.Busy},
		{txn.ErrReadOnly, op.UnwillingToPerform},
		{txn.ErrRevision, op.UnwillingToPerform},
		{txn.ErrUnknown, op.Other},
		{fmt.Errorf("%w: %w", txn.ErrUnknown, txn.ErrConflict), op.Other},
		{fmt.Errorf("get: %w", table.ErrUnavailable), op.Unavailable},
		{table.ErrClosed, op.Unavailable},
		{table.ErrTooLarge, op.AdminLimitExceeded},
		{table.ErrCorrupt, op.Other},
		// The client's context has not ended, so these are errors of other contexts.
		{context.DeadlineExceeded, op.Other},
		{fmt.Errorf("get: %w", context.Canceled), op.Other},
		// The deadline of a store's call is not the client's time limit.
		{fmt.Errorf("%w: %w", table.ErrUnavailable, context.DeadlineExceeded), op.Unavailable},
		{errors.New("disk on fire at /secret/path"), op.Other},
	} {
		if r := d.ToResult(t.Context(), c.err); r.Code != c.code {
			t.Errorf("%v: %d, want %d", c.err, r.Code, c.code)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if r := d.ToResult(canceled, fmt.Errorf("get: %w", context.Canceled)); r.Code != op.Canceled {
		t.Errorf("canceled: %+v", r)
	}
	standby := &settings.Settings{}
	standby.Primary = []string{"ldap://primary"}
	d.current.Store(standby)
	if r := d.ToResult(t.Context(), txn.ErrReadOnly); r.Code != op.Referral || len(r.Referrals) != 1 {
		t.Errorf("a standby: %+v", r)
	}
	if r := d.ToResult(t.Context(), errors.New("/secret/path")); r.Diagnostic != "internal error: see the server's log" {
		t.Errorf("a client is told %q", r.Diagnostic)
	}
}

// TestEveryProblemHasACode checks that every problem has a code, and that the
// result for a missing entry contains the matched name of the error.
func TestEveryProblemHasACode(t *testing.T) {
	for p := partition.NoSuchEntry; p <= partition.Busy; p++ {
		if _, ok := problemCodes[p]; !ok {
			t.Errorf("problem %d has no result code", p)
		}
	}
	r := (&Server{}).ToResult(t.Context(), &partition.Error{Problem: partition.NoSuchEntry, Matched: "dc=a", Text: "x"})
	if r.MatchedDN != "dc=a" || r.Code != op.NoSuchObject || r.Diagnostic != "x" {
		t.Errorf("%+v", r)
	}
}
