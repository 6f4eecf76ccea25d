package onlineschema

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// On a store that several servers write, a schema change that existing entries could
// violate takes two commits. The first commit announces the new schema in the subschema,
// beside the schema in force. A server that sees the announcement makes all its changes
// conform to both schemas. When every server does so (txn.DB.AwaitStep), no new violation
// can appear, and the existing entries can be checked. The second commit either puts the
// new schema into force or withdraws the announcement. A change that no existing entry
// can violate takes one commit.
//
// If a server ends between the two commits, its slot shows that the server has ended, and
// another server withdraws the announcement.

// errSteps ends an attempt to make a change in one commit if the change takes steps.
var errSteps = errors.New("the change takes steps")

// Attempt runs fn in a transaction. If the change must be made in steps, Attempt sets
// st.Wanted and commits nothing.
func Attempt(ctx context.Context, st *write.SchemaSteps, fn func(*write.Tx) error) (table.Revision, error) {
	return write.UpdateLocked(ctx, st.Partition, st.By, func(tx *write.Tx) error {
		tx.Steps, st.Wanted = st, nil
		return fn(tx)
	})
}

// run makes the change, in steps if necessary.
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
	return 0, errors.Join(err, withdraw(context.WithoutCancel(ctx), st.Partition, announced))
}

// Announce commits the announcement of a schema.
func Announce(ctx context.Context, st *write.SchemaSteps, next *catalog.Subschema) (table.Revision, error) {
	return write.UpdateLocked(ctx, st.Partition, st.By, func(tx *write.Tx) error {
		tx.Steps = st
		if err := noOtherChange(tx); err != nil {
			return err
		}
		now := *tx.Catalog.Subschema
		now.Pending = &catalog.Pending{By: st.Partition.DB.Holder(), Own: next}
		return writeSubschema(ctx, tx, &now, true)
	})
}

// judgeAnnounced waits until every server applies the announced schema, and then checks
// the existing entries.
func judgeAnnounced(ctx context.Context, st *write.SchemaSteps, announced table.Revision) error {
	if err := awaitStep(ctx, st.Partition, announced); err != nil {
		return err
	}
	s := state.Newest(st.Partition)
	defer s.Close()
	if err := s.Catalog.Announced(announced); err != nil {
		return err
	}
	return judge(ctx, s.Catalog.ToCome, s)
}

// awaitStep is txn.DB.AwaitStep with an error for the client.
func awaitStep(ctx context.Context, p *catalog.Partition, r table.Revision) error {
	err := p.DB.AwaitStep(ctx, r)
	if errors.Is(err, txn.ErrConflict) {
		return catalog.Errorf(catalog.Busy, "the change waits for all servers of the directory: %v: try again", err)
	}
	return err
}

// noOtherChange returns an error if another change has announced a schema and the server that
// makes the change still runs.
func noOtherChange(tx *write.Tx) error {
	c := tx.Catalog.Subschema
	if c.Pending == nil || c.Since == tx.Steps.Announced || tx.Partition.DB.Over(c.Pending.By) {
		return nil
	}
	return catalog.Errorf(catalog.Busy, "another change of the schema is under way: try again")
}

// become checks whether this transaction may put the schema of next into force. It returns nil
// if so, and otherwise the reason.
func become(ctx context.Context, tx *write.Tx, next *catalog.Catalog) error {
	concern := catalog.NewConcern(tx.Catalog.Types, next.Types)
	if tx.Steps == nil { // no other transaction can commit
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

// withdraw withdraws the schema that the given commit announced. It does nothing if that
// schema is no longer announced.
func withdraw(ctx context.Context, p *catalog.Partition, announced table.Revision) error {
	_, err := write.UpdateLocked(ctx, p, write.By{}, func(tx *write.Tx) error {
		if tx.Catalog.Announced(announced) != nil {
			return errWithdrawn
		}
		now := *tx.Catalog.Subschema
		now.Pending = nil
		return writeSubschema(ctx, tx, &now, false)
	})
	if errors.Is(err, errWithdrawn) {
		return nil
	}
	return err
}

// errWithdrawn ends a transaction whose announcement no longer exists.
var errWithdrawn = errors.New("there is no such schema to come")

// conformsToBoth checks that the entries that a transaction changed also conform to the
// announced schema.
func conformsToBoth(ctx context.Context, p *catalog.Partition, r table.Reader, at *txn.Snapshot, c *catalog.Catalog, changed []entry.ID) error {
	slices.SortFunc(changed, entry.ID.Compare)
	s := state.Snapshot{Partition: p, Reader: r, At: at, Catalog: c}
	for _, id := range slices.Compact(changed) {
		wrong, err := violationOf(ctx, c.ToCome, &s, id)
		if err != nil {
			return err
		}
		if wrong != "" {
			return catalog.Errorf(catalog.Busy, "the update violates a change of the schema that is under way: %s: try again", wrong)
		}
	}
	return nil
}

// violationOf describes how an entry violates the change. It returns "" if the entry
// conforms to the change or does not exist.
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

// follow keeps the catalog up to date on a store that several servers write. An idle
// server runs follow too, because other servers wait until this server applies their
// steps. follow also withdraws announcements of servers that have ended.
func follow(p *catalog.Partition) {
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

func followOnce(p *catalog.Partition) {
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
