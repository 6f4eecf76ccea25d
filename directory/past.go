package directory

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// state returns what a read is of: the newest state, or the one that the request
// names.
func (o *operation) state(ctx context.Context) (*partition.Snapshot, error) {
	if o.controls.at == nil {
		return o.now(), nil
	}
	s, err := o.server.part.AtMoment(ctx, *o.controls.at)
	if err != nil {
		return nil, o.noState(err)
	}
	return o.read(s), nil
}

// noState returns why the state of a moment cannot be read.
func (o *operation) noState(err error) error {
	for _, known := range []error{txn.ErrRevision, txn.ErrFuture, txn.ErrCheckpoint} {
		if errors.Is(err, known) && !errors.Is(err, table.ErrUnavailable) {
			return op.Errorf(op.UnwillingToPerform, "at %s: %v", o.controls.at, err)
		}
	}
	return err
}

// isPast reports whether the read is of a state that the request names: secrets
// have no history.
func (o *operation) isPast() bool { return o.controls.at != nil }
