package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/schema"
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

// pending is a schema to come.
type pending struct {
	by  txn.Holder
	own *subschema
}

// The attribute of the subschema's entry that has it: a line with the holder, and
// one for each definition to be added to or taken from the built-in schema.
const pendingDefinitions = "pendingDefinitions"

func (c *pending) values() [][]byte {
	if c == nil {
		return nil
	}
	values := [][]byte{fmt.Appendf(nil, "by %d %d", c.by.Slot, c.by.Incarnation)}
	for _, d := range c.own.added {
		values = append(values, []byte("add "+d.Attribute+" "+d.Text))
	}
	for _, d := range c.own.removed {
		values = append(values, []byte("remove "+d.Attribute+" "+d.Text))
	}
	return values
}

func readPending(values [][]byte) (*pending, error) {
	if len(values) == 0 {
		return nil, nil
	}
	c := &pending{own: &subschema{}}
	for _, v := range values {
		kind, rest, _ := strings.Cut(string(v), " ")
		first, text, _ := strings.Cut(rest, " ")
		d := schema.Definition{Attribute: first, Text: text}
		switch kind {
		case "add":
			c.own.added = append(c.own.added, d)
		case "remove":
			c.own.removed = append(c.own.removed, d)
		case "by":
			slot, err := strconv.ParseUint(first, 10, 16)
			n, err2 := strconv.ParseUint(text, 10, 64)
			if err := errors.Join(err, err2); err != nil {
				return nil, fmt.Errorf("%s: %w: %w", pendingDefinitions, table.ErrCorrupt, err)
			}
			c.by = txn.Holder{Slot: revision.Slot(slot), Incarnation: n}
		default:
			return nil, fmt.Errorf("%s: a value of kind %q: %w", pendingDefinitions, kind, table.ErrNewer)
		}
	}
	return c, nil
}

// sameAs reports whether two subschemas make one schema.
func (own *subschema) sameAs(o *subschema) bool {
	return slices.Equal(own.sorted(), o.sorted())
}

func (own *subschema) sorted() (all []string) {
	for _, d := range own.added {
		all = append(all, "add "+d.Attribute+" "+d.Text)
	}
	for _, d := range own.removed {
		all = append(all, "remove "+d.Attribute+" "+d.Text)
	}
	slices.Sort(all)
	return all
}

// schemaSteps is one change on its way.
type schemaSteps struct {
	p  *Partition
	by By
	// wanted is set by an attempt that found that the change takes steps.
	wanted *subschema
	// announced is the first commit, once every server works by it and no entry
	// is against it.
	announced table.Revision
}

// errSteps ends an attempt that must become steps.
var errSteps = errors.New("the change takes steps")

// attempt makes the change by a function if it may be made now.
func (st *schemaSteps) attempt(ctx context.Context, fn func(*Tx) error) (table.Revision, error) {
	return st.p.update(ctx, st.by, func(tx *Tx) error {
		tx.steps, st.wanted = st, nil
		return fn(tx)
	})
}

// run makes the change, by steps if need be.
func (st *schemaSteps) run(ctx context.Context, fn func(*Tx) error) (table.Revision, error) {
	r, err := st.attempt(ctx, fn)
	if st.wanted == nil {
		return r, err
	}
	announced, err := st.announce(ctx, st.wanted)
	if err != nil {
		return 0, err
	}
	if err = st.judge(ctx, announced); err == nil {
		st.announced = announced
		if r, err = st.attempt(ctx, fn); st.wanted != nil {
			err = problem(Unwilling, "several changes of the schema that entries could be against go one after the other")
		}
	}
	if err == nil {
		return r, nil
	}
	return 0, errors.Join(err, st.p.withdraw(context.WithoutCancel(ctx), announced))
}

// announce commits a schema to come.
func (st *schemaSteps) announce(ctx context.Context, next *subschema) (table.Revision, error) {
	return st.p.update(ctx, st.by, func(tx *Tx) error {
		tx.steps = st
		if err := tx.noOtherChange(); err != nil {
			return err
		}
		now := *tx.catalog.subschema
		now.pending = &pending{by: st.p.db.Holder(), own: next}
		return tx.writeSubschema(ctx, &now)
	})
}

// judge waits until every server keeps to the schema to come, and then looks for
// entries against it.
func (st *schemaSteps) judge(ctx context.Context, announced table.Revision) error {
	if err := st.p.awaitStep(ctx, announced); err != nil {
		return err
	}
	s := st.p.Snapshot()
	defer s.Close()
	if err := s.catalog.announced(announced); err != nil {
		return err
	}
	return s.catalog.toCome.judge(ctx, s)
}

// awaitStep is AwaitStep with an error for the client.
func (p *Partition) awaitStep(ctx context.Context, r table.Revision) error {
	err := p.db.AwaitStep(ctx, r)
	if errors.Is(err, txn.ErrConflict) {
		return problem(Busy, "the change waits for all servers of the directory: %v: try again", err)
	}
	return err
}

// announced tells whether a schema to come is still the one of a commit.
func (c *catalog) announced(r table.Revision) error {
	if c.subschema.pending == nil || c.subschema.since != r {
		return problem(Busy, "the change was given up, since this server was taken for one that has ended: try again")
	}
	return nil
}

// noOtherChange refuses to go on while somebody else announces a schema.
func (tx *Tx) noOtherChange() error {
	c := tx.catalog.subschema
	if c.pending == nil || c.since == tx.steps.announced || tx.p.db.Over(c.pending.by) {
		return nil
	}
	return problem(Busy, "another change of the schema is under way: try again")
}

// become tells whether the schema may become another one in this transaction.
func (tx *Tx) become(ctx context.Context, next *catalog) error {
	concern := newConcern(tx.catalog.types, next.types)
	if tx.steps == nil { // nobody else writes
		return concern.judge(ctx, &tx.Snapshot)
	}
	if err := tx.noOtherChange(); err != nil {
		return err
	}
	own := tx.catalog.subschema
	switch {
	case concern.empty():
		return nil
	case tx.Rules.Trial:
		return concern.judge(ctx, &tx.Snapshot)
	case tx.steps.announced == 0:
		tx.steps.wanted = next.subschema
		return errSteps
	}
	if err := tx.catalog.announced(tx.steps.announced); err != nil {
		return err
	}
	if !own.pending.own.sameAs(next.subschema) {
		tx.steps.wanted = next.subschema
		return errSteps
	}
	return nil
}

// withdraw takes the schema to come of a commit away.
func (p *Partition) withdraw(ctx context.Context, announced table.Revision) error {
	_, err := p.update(ctx, By{}, func(tx *Tx) error {
		if tx.catalog.announced(announced) != nil {
			return errWithdrawn
		}
		now := *tx.catalog.subschema
		now.pending = nil
		return tx.writeSubschema(ctx, &now)
	})
	if errors.Is(err, errWithdrawn) {
		return nil
	}
	return err
}

// errWithdrawn ends a transaction that has nothing to do.
var errWithdrawn = errors.New("there is no such schema to come")

// keepToBoth checks that what a transaction changed is right by a schema to come
// too.
func (tx *Tx) keepToBoth(ctx context.Context, c *catalog) error {
	slices.SortFunc(tx.changed, func(a, b entry.ID) int { return slices.Compare(a[:], b[:]) })
	s := tx.Snapshot
	for _, id := range slices.Compact(tx.changed) {
		wrong, err := c.toCome.entry(ctx, &s, id)
		if err != nil {
			return err
		}
		if wrong != "" {
			return problem(Busy, "a change of the schema is under way that this is against: %s: try again", wrong)
		}
	}
	return nil
}

// entry tells how an entry is against the change; "" if it is not, or not there.
func (c *concern) entry(ctx context.Context, s *Snapshot, id entry.ID) (string, error) {
	i, err := s.item(ctx, id)
	if err != nil || i == nil || id == subschemaID {
		return "", err
	}
	r := &Result{Located: Located{ID: id, Parent: i.node.Parent}}
	if r.Name, err = s.Name(ctx, id); err != nil {
		return "", err
	}
	if r.Entry, err = s.entryOf(ctx, id, i, c.secrets, nil); err != nil {
		return "", err
	}
	return c.violation(ctx, s, r)
}

// follow keeps the catalog up to date on a store that other servers write, also
// where nobody asks for anything, so that they need not wait for this one; and it
// takes away what servers announced that are gone.
func (p *Partition) follow() {
	for {
		next := p.db.Next()
		p.followOnce()
		select {
		case <-next:
		case <-p.ended:
			return
		}
	}
}

func (p *Partition) followOnce() {
	s := p.db.Snapshot()
	c, err := p.catalogOf(s)
	s.Close()
	if err == nil && c.subschema.pending != nil && p.db.Over(c.subschema.pending.by) {
		err = p.withdraw(context.Background(), c.subschema.since)
	}
	if err != nil {
		p.log.Debug("following the schema", "err", err)
	}
}
