// Package reformat copies a store and gives its rows the newest format. The copy has everything that
// the store has, at the same revisions: the past, the journal, checkpoints and settings. So clients,
// commands and backups find in the copy what they would find in the store.
//
// Only the form of rows and cells differs (see docs/decisions/0073). A [rewriter] computes the new
// form of each by itself, and an engine copies what it stores (table.Copier).
package reformat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// These are the reasons for which Copy does nothing.
var (
	ErrNewest   = errors.New("the rows have the newest format")
	ErrOccupied = errors.New("it has tables already: name a place where there is no store")
	ErrBranches = errors.New("the store has branches: merge or discard them first")
	errWritten  = errors.New("somebody wrote to the store meanwhile: stop all servers and commands, and run it again")
)

// Copy copies the directory in the store from to the store "to", which is of the same engine and
// empty, except for tables that an interrupted Copy has left. Servers must not use either store. The
// store from stays as it is. Views are not copied, because servers make them again.
//
// A copy of a row may need a value that history has lost; then no state that is kept shows the row,
// and the copy does not have it.
func Copy(ctx context.Context, from, to table.Store, o partition.Options) error {
	c, err := prepare(ctx, from, o)
	if err != nil {
		return err
	}
	if err := makeRoom(ctx, to); err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	log := journal.New(from)
	before, err := log.Heads(ctx)
	if err != nil {
		return err
	}
	w := newRewriter(c.Schema, schema.Codes())
	names, specs, err := tables(ctx, from, c, w.to)
	if err != nil {
		return err
	}
	if err := to.Create(ctx, journal.IncompleteSpec); err != nil {
		return err
	}
	if err := to.Create(ctx, specs...); err != nil {
		return err
	}
	for _, name := range names {
		t, ok := from.Table(name).(table.Copier)
		if !ok {
			return fmt.Errorf("%s cannot be copied", from)
		}
		if err := t.CopyTo(ctx, to.Table(name), form{w, name}); err != nil {
			return err
		}
	}
	now, err := log.Heads(ctx)
	if err != nil {
		return err
	}
	if !now.Same(before) {
		return errWritten
	}
	return to.Drop(ctx, journal.Incomplete)
}

// prepare opens the directory as a server does, so that what interrupted servers have left is
// cleaned up, and closes it.
func prepare(ctx context.Context, from table.Store, o partition.Options) (_ *catalog.Catalog, err error) {
	p, err := partition.Open(ctx, from, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	if now, newest := p.RowFormats(); now == newest {
		return nil, ErrNewest
	}
	if err := p.DB.Alone(ctx); err != nil {
		return nil, err
	}
	if bs := p.DB.Branches(); len(bs) > 0 {
		names := make([]string, len(bs))
		for i, b := range bs {
			names[i] = b.Name()
		}
		return nil, fmt.Errorf("%w: %s", ErrBranches, strings.Join(names, ", "))
	}
	return p.Latest()
}

// makeRoom drops the tables that an interrupted Copy has left in a store. It returns ErrOccupied if
// there are others.
func makeRoom(ctx context.Context, to table.Store) error {
	names, err := to.Names(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	if !slices.Contains(names, journal.Incomplete) {
		return ErrOccupied
	}
	names = slices.DeleteFunc(names, func(t string) bool { return t == journal.Incomplete })
	return errors.Join(to.Drop(ctx, names...), to.Drop(ctx, journal.Incomplete))
}

// tables returns the names of the tables to copy and the descriptions of all tables of the copy. The
// entries come first, as a rewriter demands, and the header comes last.
func tables(ctx context.Context, from table.Store, c *catalog.Catalog, s *schema.Schema) (names []string, specs []table.Spec, err error) {
	have, err := from.Names(ctx)
	if err != nil {
		return nil, nil, err
	}
	specs = catalog.Specs(s, c.Header)
	specs = slices.Insert(specs, len(specs)-1, journal.Specs()...)
	for _, spec := range specs {
		if slices.Contains(have, spec.Name) {
			names = append(names, spec.Name)
		}
	}
	if slices.Contains(have, write.UniqueTable) { // it contains only marks
		specs = append(specs, write.UniqueSpec(s, c.Unique()))
	}
	return names, specs, nil
}
