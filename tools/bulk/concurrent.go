package bulk

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// commitBytes limits the size of a batch, in bytes of records. It applies to imports into a
// branch, and to imports while others write to the directory. transfer.CommitSize limits the
// number of records in a batch.
const commitBytes = 256 << 10

// A target specifies where entries are added, and the largest size of a batch.
type target struct {
	update       func(context.Context, partition.By, func(*partition.Tx) error) (table.Revision, error)
	items, bytes int
	// added, if set, reports whether an interrupted run of the import has added an entry.
	added func(entry.ID) bool
}

// addAll adds the accepted entries, parents first, in batches. A refused entry may name
// entries that come later. So addAll tries the refused entries again after all others,
// until a round adds none of them. It reports the remaining entries as bad: they are
// refused because others have changed the directory since the check.
func (im *importer) addAll(ctx context.Context) (res Result, err error) {
	if err := im.l.Check(); err != nil {
		return res, err
	}
	if err := onlineschema.AddSuffixes(ctx, im.p, im.l.Suffixes()); err != nil {
		return res, err
	}
	res, err = im.addTo(ctx, &target{update: of(im.p, write.Update), items: load.CommitSize(im.p), bytes: commitBytes}, im.accepted)
	if err != nil {
		err = im.incomplete(ctx, err, res.Done, im.accepted.n)
	}
	return res, err
}

// addTo adds the entries of a spool to a target.
func (im *importer) addTo(ctx context.Context, to *target, all *spool) (res Result, err error) {
	total := all.n
	todo := all
	for last := false; todo.n > 0; {
		a := adder{im: im, to: to, res: &res, last: last, total: total}
		err := a.round(ctx, todo)
		if todo != all {
			err = errors.Join(err, todo.close())
		}
		if err != nil {
			return res, errors.Join(err, a.later.close())
		}
		last = a.later.n == todo.n
		todo = &a.later
	}
	return res, nil
}

// incomplete returns the error of an import that ended early because of err. The numbers
// done and total count the imported entries and all entries.
func (im *importer) incomplete(ctx context.Context, err error, done, total int) error {
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	err = fmt.Errorf("%w: %d of %d entries are imported", err, done, total)
	if im.o.entries != nil {
		return err // what the user should do depends on where the entries come from
	}
	return fmt.Errorf("%w; import the file again for the others", err)
}

// An adder adds the entries of one round, in batches.
type adder struct {
	im    *importer
	to    *target
	res   *Result
	total int
	later spool // refused entries, for the next round
	last  bool  // there is no next round: report refused entries
}

func (a *adder) round(ctx context.Context, todo *spool) error {
	var batch []*item
	size := 0
	for x, err := range todo.items() {
		if err != nil {
			return err
		}
		batch, size = append(batch, x), size+x.size()
		if len(batch) < a.to.items && size < a.to.bytes {
			continue
		}
		if err := a.add(ctx, batch); err != nil {
			return err
		}
		batch, size = nil, 0
	}
	return a.add(ctx, batch)
}

// add adds the entries of a batch, except those that are refused.
func (a *adder) add(ctx context.Context, batch []*item) error {
	for len(batch) > 0 {
		n := 0     // number of entries added before the transaction failed
		there := 0 // of these, the number that existed
		r, err := a.to.update(ctx, a.im.o.By, func(tx *partition.Tx) error {
			there = 0
			for n = range batch {
				had, err := a.to.add(ctx, tx, batch[n])
				if err != nil {
					return err
				}
				if had {
					there++
				}
			}
			n = len(batch)
			return nil
		})
		switch {
		case err == nil:
			a.res.Revision, a.res.There, a.res.Done = r, a.res.There+there, a.res.Done+len(batch)-there
			a.im.o.Progress.Entries(a.res.Done + a.res.There)
			a.im.o.Progress.finishing(float64(a.res.Done+a.res.There), float64(a.total))
			return ctx.Err()
		case !isRecords(err) || partition.Is(err, partition.Busy):
			return err
		case n == len(batch) && n > 1: // the commit was refused because of one of the entries
			return errors.Join(a.add(ctx, batch[:n/2]), a.add(ctx, batch[n/2:]))
		}
		n = min(n, len(batch)-1)
		if err := a.refuse(batch[n], err); err != nil {
			return err
		}
		batch = append(batch[:n], batch[n+1:]...)
	}
	return ctx.Err()
}

// add adds an entry. It returns true if the directory had an equal one before the import.
func (t *target) add(ctx context.Context, tx *partition.Tx, x *item) (there bool, err error) {
	name, err := dn.Parse(x.DN)
	if err != nil {
		return false, err
	}
	there, err = tx.Import(ctx, name, x.Attributes)
	if there && t.added != nil {
		at, err := tx.Find(ctx, name)
		return !t.added(at.ID), err
	}
	return there, err
}

// refuse keeps a refused entry for the next round. In the last round it reports the entry.
func (a *adder) refuse(x *item, err error) error {
	if !a.last {
		return a.later.add(x)
	}
	a.im.rejects.add(x, err)
	return nil
}
