package evolve

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// A change of the schema that entries could be against, on a store that several
// servers write, goes in two commits. The first one writes the schema to come into
// the subschema, beside the one in force: who sees it keeps to both in all that he
// changes. When every server works by it (txn.DB.AwaitStep), no entry can become
// one that the schema to come forbids, and those that there are can be judged. The
// second commit puts it into force, or takes it away. Changes that only allow more
// are one commit.
//
// Who announced a schema to come and ended before the second commit is found out
// by its slot, and any server takes the announcement away.

// errSteps ends an attempt that must become steps.
var errSteps = errors.New("the change takes steps")

// Attempt makes the change by a function if it may be made now.
func Attempt(ctx context.Context, st *write.SchemaSteps, fn func(*write.Tx) error) (table.Revision, error) {
	return write.UpdateLocked(ctx, st.Keeper, st.By, func(tx *write.Tx) error {
		tx.Steps, st.Wanted = st, nil
		return fn(tx)
	})
}

// run makes the change, by steps if need be.
func run(ctx context.Context, st *write.SchemaSteps, fn func(*write.Tx) error) (table.Revision, error) {
	r, err := Attempt(ctx, st, fn)
	if st.Wanted == nil {
		return r, err
	}
	announced, err := Announce(ctx, st, st.Wanted)
	if err != nil {
		return 0, err
	}
	if err = judgeAnnounced(ctx, st, announced); err == nil {
		st.Announced = announced
		if r, err = Attempt(ctx, st, fn); st.Wanted != nil {
			err = catalog.Errorf(catalog.Unwilling, "changes of the schema that entries may violate must be made one after the other")
		}
	}
	if err == nil {
		return r, nil
	}
	return 0, errors.Join(err, withdraw(context.WithoutCancel(ctx), st.Keeper, announced))
}

// Announce commits a schema to come.
func Announce(ctx context.Context, st *write.SchemaSteps, next *catalog.Subschema) (table.Revision, error) {
	return write.UpdateLocked(ctx, st.Keeper, st.By, func(tx *write.Tx) error {
		tx.Steps = st
		if err := noOtherChange(tx); err != nil {
			return err
		}
		now := *tx.Catalog.Subschema
		now.Pending = &catalog.Pending{By: st.Keeper.DB.Holder(), Own: next}
		return writeSubschema(ctx, tx, &now)
	})
}

// judgeAnnounced waits until every server keeps to the schema to come, and then looks for
// entries against it.
func judgeAnnounced(ctx context.Context, st *write.SchemaSteps, announced table.Revision) error {
	if err := awaitStep(ctx, st.Keeper, announced); err != nil {
		return err
	}
	s := state.Newest(st.Keeper)
	defer s.Close()
	if err := s.Catalog.Announced(announced); err != nil {
		return err
	}
	return judge(ctx, s.Catalog.ToCome, s)
}

// awaitStep is AwaitStep with an error for the client.
func awaitStep(ctx context.Context, p *catalog.Keeper, r table.Revision) error {
	err := p.DB.AwaitStep(ctx, r)
	if errors.Is(err, txn.ErrConflict) {
		return catalog.Errorf(catalog.Busy, "the change waits for all servers of the directory: %v: try again", err)
	}
	return err
}

// noOtherChange refuses to go on while somebody else announces a schema.
func noOtherChange(tx *write.Tx) error {
	c := tx.Catalog.Subschema
	if c.Pending == nil || c.Since == tx.Steps.Announced || tx.Keeper.DB.Over(c.Pending.By) {
		return nil
	}
	return catalog.Errorf(catalog.Busy, "another change of the schema is under way: try again")
}

// become reports whether the schema may become another one in this transaction.
func become(ctx context.Context, tx *write.Tx, next *catalog.Catalog) error {
	concern := catalog.NewConcern(tx.Catalog.Types, next.Types)
	if tx.Steps == nil { // nobody else writes
		return judge(ctx, concern, &tx.Snapshot)
	}
	if err := noOtherChange(tx); err != nil {
		return err
	}
	own := tx.Catalog.Subschema
	switch {
	case concern.Empty():
		return nil
	case tx.Rules.Trial:
		return judge(ctx, concern, &tx.Snapshot)
	case tx.Steps.Announced == 0:
		tx.Steps.Wanted = next.Subschema
		return errSteps
	}
	if err := tx.Catalog.Announced(tx.Steps.Announced); err != nil {
		return err
	}
	if !own.Pending.Own.SameAs(next.Subschema) {
		tx.Steps.Wanted = next.Subschema
		return errSteps
	}
	return nil
}

// withdraw takes the schema to come of a commit away.
func withdraw(ctx context.Context, p *catalog.Keeper, announced table.Revision) error {
	_, err := write.UpdateLocked(ctx, p, write.By{}, func(tx *write.Tx) error {
		if tx.Catalog.Announced(announced) != nil {
			return errWithdrawn
		}
		now := *tx.Catalog.Subschema
		now.Pending = nil
		return writeSubschema(ctx, tx, &now)
	})
	if errors.Is(err, errWithdrawn) {
		return nil
	}
	return err
}

// errWithdrawn ends a transaction that has nothing to do.
var errWithdrawn = errors.New("there is no such schema to come")

// conformsToBoth checks that what a transaction changed is right by a schema to come
// too.
func conformsToBoth(ctx context.Context, p *catalog.Keeper, r table.Reader, at *txn.Snapshot, c *catalog.Catalog, changed []entry.ID) error {
	slices.SortFunc(changed, entry.ID.Compare)
	s := state.Snapshot{Keeper: p, Reader: r, At: at, Catalog: c}
	for _, id := range slices.Compact(changed) {
		wrong, err := violationOf(ctx, c.ToCome, &s, id)
		if err != nil {
			return err
		}
		if wrong != "" {
			return catalog.Errorf(catalog.Busy, "a change of the schema is under way that this violates: %s: try again", wrong)
		}
	}
	return nil
}

// violationOf returns how an entry is against the change; "" if it is not, or not there.
func violationOf(ctx context.Context, c *catalog.Concern, s *state.Snapshot, id entry.ID) (string, error) {
	i, err := s.Item(ctx, id)
	if err != nil || i == nil || id == catalog.SubschemaID {
		return "", err
	}
	r := &search.Result{Located: state.Located{ID: id, Parent: i.Node.Parent}}
	if r.Name, err = s.Name(ctx, id); err != nil {
		return "", err
	}
	if r.Entry, err = s.EntryOf(ctx, id, i, c.Secrets, nil); err != nil {
		return "", err
	}
	return violation(ctx, c, s, r)
}

// follow keeps the catalog up to date on a store that other servers write, also
// where nobody asks for anything, so that they need not wait for this one; and it
// takes away what servers announced that are gone.
func follow(p *catalog.Keeper) {
	for {
		next := p.DB.Next()
		followOnce(p)
		select {
		case <-next:
		case <-p.Ended:
			return
		}
	}
}

func followOnce(p *catalog.Keeper) {
	s := p.DB.Snapshot()
	c, err := p.CatalogOf(s)
	s.Close()
	if err == nil && c.Subschema.Pending != nil && p.DB.Over(c.Subschema.Pending.By) {
		err = withdraw(context.Background(), p, c.Subschema.Since)
	}
	if err != nil {
		p.Log.Debug("following the schema", "error", err)
	}
}
