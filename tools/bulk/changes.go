package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// maxChanges bounds the total size, in bytes, of the records that are applied in one
// transaction. These records, and what they write, are kept in memory.
const maxChanges = 64 << 20

// changer applies files of changes.
type changer struct {
	o       *Options
	p       *partition.Partition
	cleaner *cleaner
	tally   *tally
	rejects rejects
	res     Result
	there   int // number of entries that existed, in the last run of the function of a transaction
}

func importChanges(ctx context.Context, p *partition.Partition, o *Options, first *item) (res Result, err error) {
	c := &changer{o: o, p: p, rejects: rejects{o: o, schema: p.Schema}, tally: newTally()}
	noted := map[string]bool{}
	c.cleaner = newCleaner(p.Schema(), func(a string) {
		if !noted[a] {
			noted[a] = true
			o.Note("attribute " + a + " of another server is left out")
		}
	}, c.tally, o.DropDuplicates)
	before := p.Config().Suffixes
	if len(before)+len(o.Suffixes) == 0 && first.changes() && !first.ofSubschema() {
		if add, is := first.Change.(*op.Add); is {
			o.Suffixes = []string{add.Name} // as the first entry of a file without changetype
		}
	}
	if err := onlineschema.AddSuffixes(ctx, p, o.Suffixes); err != nil {
		return res, err
	}
	switch {
	case o.Continue:
		err = c.each(ctx)
	case o.Branch != nil:
		err = c.intoBranch(ctx)
	default:
		err = c.together(ctx)
	}
	if c.res.Done > 0 {
		c.tally.report(o.Note)
	}
	if err = errors.Join(err, c.rejects.close()); err == nil {
		err = o.ended(c.res)
	}
	if err != nil && c.res.Done == 0 && len(o.Suffixes) > 0 {
		err = errors.Join(err, onlineschema.SetSuffixes(context.WithoutCancel(ctx), p, before))
	}
	return c.res, err
}

// The method "each" applies every record in a separate transaction.
func (c *changer) each(ctx context.Context) error {
	var last item
	for x := range c.o.items() {
		err := c.transact(ctx, &x)
		switch {
		case err == nil:
			c.took(1)
			c.o.Progress.entries.Add(1)
		case ctx.Err() != nil:
			return fmt.Errorf("interrupted: %d records took effect, up to %s:%d; import the rest", c.res.Done, last.file, last.line())
		case isRecords(err):
			c.rejects.add(&x, err)
			c.res.Bad++
		default:
			return err
		}
		last = x
	}
	return nil
}

func (x *item) line() int {
	if x.Record == nil {
		return 0
	}
	return x.Line
}

// isRecords reports whether err is the fault of a record, and not of the store.
func isRecords(err error) bool {
	var p *partition.Error
	var l *ldif.Error
	return errors.As(err, &p) || errors.As(err, &l)
}

func (c *changer) transact(ctx context.Context, x *item) error {
	if x.bad != nil {
		return x.bad
	}
	r, err := c.updating(x)(ctx, c.o.By, func(tx *partition.Tx) error {
		c.there = 0
		return c.apply(ctx, tx, x)
	})
	c.res.Revision = max(c.res.Revision, r)
	return err
}

// took counts the records of a transaction that has committed.
func (c *changer) took(n int) {
	c.res.Done, c.res.There = c.res.Done+n-c.there, c.res.There+c.there
}

// updating returns the method that runs a transaction with the given first record. A
// transaction that begins with a change of the schema needs another method.
func (c *changer) updating(first *item) update {
	if first.ofSubschema() && c.o.Branch == nil {
		return of(c.p, onlineschema.UpdateSchema)
	}
	return c.update()
}

// update returns the method that runs a transaction, in the branch if there is one.
func (c *changer) update() update {
	if c.o.Branch != nil {
		return c.o.Branch.Update
	}
	return of(c.p, write.Update)
}

// An update runs a transaction.
type update = func(context.Context, partition.By, func(*partition.Tx) error) (table.Revision, error)

// of returns the update that run makes of p.
func of(p *partition.Partition, run func(context.Context, *partition.Partition, partition.By, func(*partition.Tx) error) (table.Revision, error)) update {
	return func(ctx context.Context, by partition.By, fn func(*partition.Tx) error) (table.Revision, error) {
		return run(ctx, p, by, fn)
	}
}

// together applies all records in one transaction.
func (c *changer) together(ctx context.Context) error {
	var all []item
	size := 0
	for x := range c.o.items() {
		if size += x.size() + 200; size > maxChanges {
			return ErrTogether
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		return nil
	}
	r, err := c.updating(&all[0])(ctx, c.o.By, func(tx *partition.Tx) error { return c.applyAll(ctx, tx, all) })
	switch {
	case errors.Is(err, ErrBad):
		return nil // each bad record has been counted
	case ctx.Err() != nil:
		return interrupted(ctx, err)
	case err == nil:
		c.took(len(all))
		c.res.Revision = r
		c.o.Progress.entries.Add(int64(len(all)))
	}
	return err
}

// applyAll applies all records. After a bad record it applies the rest, to find all bad
// records, and then returns an error. It may run several times; only the results of the
// last run are used.
func (c *changer) applyAll(ctx context.Context, tx *partition.Tx, all []item) error {
	type found struct {
		x   *item
		bad error
	}
	var bad []found
	c.tally.reset()
	c.there = 0
	for i := range all {
		x := &all[i]
		var err error = x.bad
		if x.bad == nil {
			err = c.apply(ctx, tx, x)
		}
		switch {
		case err == nil:
		case isRecords(err):
			bad = append(bad, found{x, err})
		default:
			return err
		}
	}
	if len(bad) == 0 {
		return nil
	}
	for _, f := range bad {
		c.rejects.add(f.x, f.bad)
	}
	c.res.Bad = len(bad)
	return ErrBad
}

// apply applies one change. It adds a record without a changetype as an entry.
func (c *changer) apply(ctx context.Context, tx *partition.Tx, x *item) error {
	name, err := dn.Parse(x.DN)
	if err != nil {
		return x.wrong(fmt.Errorf("the name is not a DN: %w", err))
	}
	for _, k := range x.Controls {
		if k.Critical {
			return x.wrong(fmt.Errorf("the critical control %s cannot be honoured here: send the file to a running server", k.OID))
		}
	}
	switch r := x.Change.(type) {
	case nil:
		return c.add(ctx, tx, x, name, x.Attributes)
	case *op.Add:
		return c.add(ctx, tx, x, name, r.Attributes)
	case *op.Delete:
		return tx.Delete(ctx, name)
	case *op.Modify:
		if slices.ContainsFunc(r.Changes, func(m op.Modification) bool { return isRules(tx.Schema(), m.Description) }) {
			return x.wrong(errRules)
		}
		changes := c.cleaner.cleanChanges(r.Changes)
		if len(changes) == 0 && len(r.Changes) > 0 {
			return nil
		}
		return onlineschema.Modify(ctx, tx, name, changes)
	case *op.ModifyDN:
		return x.rename(ctx, tx, name, r)
	}
	return x.wrong(fmt.Errorf("a change of a kind that LDIF does not have"))
}

func (c *changer) add(ctx context.Context, tx *partition.Tx, x *item, name dn.DN, attributes []op.PartialAttribute) error {
	if rulesIn(tx.Schema(), attributes) >= 0 {
		return x.wrong(errRules)
	}
	there, err := tx.Import(ctx, name, c.cleaner.clean(attributes))
	if there {
		c.there++
	}
	return err
}

func (x *item) rename(ctx context.Context, tx *partition.Tx, name dn.DN, r *op.ModifyDN) error {
	rdn, err := dn.ParseRDN(r.NewRDN)
	if err != nil {
		return x.wrong(fmt.Errorf("newrdn: %w", err))
	}
	if r.NewSuperior == nil {
		return tx.Rename(ctx, name, rdn, r.DeleteOldRDN, nil)
	}
	above, err := dn.Parse(*r.NewSuperior)
	if err != nil {
		return x.wrong(fmt.Errorf("newsuperior: %w", err))
	}
	return tx.Rename(ctx, name, rdn, r.DeleteOldRDN, &above)
}
