// Package reformat copies a store and gives its rows the newest format. The copy has everything that
// the store has, at the same revisions: the past, the journal, checkpoints and settings. So clients,
// commands and backups find in the copy what they would find in the store.
//
// Only the form of rows and cells differs (see docs/decisions/0073). A [rewriter] computes the new
// form of each by itself, and an engine copies what it stores (table.Copier).
package reformat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// These are the reasons for which Copy does nothing.
var (
	ErrNewest   = errors.New("the rows have the newest format")
	ErrOccupied = errors.New("it has tables already: name a place where there is no store")
	ErrBranches = errors.New("the store has branches: merge or discard them first")
	errOther    = errors.New("another command copies to it, or an answer of the store was lost: run it again")
	errWritten  = errors.New("somebody wrote to the store meanwhile: run it again")
)

// Options are the options of Copy.
type Options struct {
	partition.Options
	By write.By
	// Ahead copies the past only, so that less is left to a Copy without it.
	Ahead bool
}

// Needed returns nil if the rows of a store have an older format than those that Copy writes.
func Needed(ctx context.Context, s table.Store) error {
	h, err := catalog.ReadHeader(ctx, s)
	switch {
	case err != nil:
		return err
	case h.Format >= catalog.FormatCodes:
		return ErrNewest
	}
	return nil
}

// Copy copies the directory in the store from to the store "to", which is of the same engine and
// empty, except for tables that an earlier Copy has left. Views are not copied, because servers make them again.
//
// Servers may use the store from. On a shared store, Copy first copies what is decided. Then the directory takes no updates
// (catalog.Settings.MovedTo), from the time "closed" on, and Copy copies the rest. If Copy fails, the
// directory takes updates again. If Copy is interrupted, the next call of Copy goes on. If the copy is complete already, Copy does nothing
// and returns the zero time.
//
// A copy of a row may need a value that history has lost; then no state that is kept shows the row,
// and the copy does not have it.
func Copy(ctx context.Context, from, to table.Store, o Options) (closed time.Time, err error) {
	if err := Needed(ctx, from); err != nil {
		return closed, err
	}
	o.Moved = true // by an earlier call
	p, err := partition.Open(ctx, from, o.Options)
	if err != nil {
		return closed, err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	c, err := p.Latest()
	if err != nil {
		return closed, err
	}
	moving := c.Header.MovedTo == to.String()
	if !moving && c.Header.MovedTo != "" {
		return closed, c.Header.Writable()
	}
	if err := noBranches(p); err != nil {
		return closed, err
	}
	x := &copying{from: from, to: to, rewriter: newRewriter(c.Schema, schema.Codes())}
	if err := x.begin(ctx, c); err != nil {
		if moving && errors.Is(err, ErrOccupied) {
			return closed, nil
		}
		return closed, fmt.Errorf("%s: %w", to, err)
	}
	if o.Ahead || p.DB.Shared() && !moving {
		// Servers that were killed shall not delay what follows.
		s, err := p.DB.Settled(ctx)
		if err != nil {
			return closed, err
		}
		s.Close()
		if err := x.ahead(ctx); err != nil || o.Ahead {
			return closed, err
		}
	}
	closed = time.Now()
	defer func() {
		if err != nil {
			err = errors.Join(err, write.SetMoved(context.WithoutCancel(ctx), p, o.By, ""))
		}
	}()
	if err := write.SetMoved(ctx, p, o.By, to.String()); err != nil {
		return closed, err
	}
	return closed, x.rest(ctx, p)
}

func noBranches(p *partition.Partition) error {
	bs := p.DB.Branches()
	if len(bs) == 0 {
		return nil
	}
	names := make([]string, len(bs))
	for i, b := range bs {
		names[i] = b.Name()
	}
	return fmt.Errorf("%w: %s", ErrBranches, strings.Join(names, ", "))
}

// A copying is one call of Copy.
type copying struct {
	*rewriter
	from, to table.Store
	names    []string // of the tables to copy
	done     progress
}

// progress is what was copied ahead. It is kept in the table journal.Incomplete of the copy.
type progress struct {
	Basis basis          `json:"basis"`
	UpTo  table.Revision `json:"upTo"` // the commits up to this one were copied
	Long  bool           `json:"long"` // see rewriter.long
	// Rest is set before the rest is copied. If that is interrupted, the heads and the header are copied anew.
	Rest bool `json:"rest"`

	raw []byte
}

// A basis is the store that was copied, its settings, and the commit that last changed its schema. If it is another, the copy
// is made anew.
type basis struct {
	From   string
	Shared string // the settings, without MovedTo
	Schema table.Revision
}

func basisOf(from table.Store, c *catalog.Catalog) (basis, error) {
	s := c.Header.Settings
	s.MovedTo = ""
	text, err := json.Marshal(s)
	return basis{from.String(), string(text), c.Subschema.Since}, err
}

var progressKey = []byte("progress")

// begin makes the tables of the copy, or finds what was copied ahead.
func (x *copying) begin(ctx context.Context, c *catalog.Catalog) error {
	names, specs, err := tables(ctx, x.from, c, x.rewriter.to)
	if err != nil {
		return err
	}
	x.names = names
	have, err := x.to.Names(ctx)
	if err != nil {
		return err
	}
	incomplete := slices.Contains(have, journal.Incomplete)
	if incomplete {
		if err := x.load(ctx); err != nil {
			return err
		}
	}
	now, err := basisOf(x.from, c)
	if err != nil {
		return err
	}
	switch {
	case x.done.UpTo > 0 && x.done.Basis == now:
		if x.done.Rest {
			err = x.to.Drop(ctx, journal.Cluster, catalog.HeaderTable)
		}
		return errors.Join(err, x.to.Create(ctx, specs...))
	case incomplete:
		err = journal.DropIncomplete(ctx, x.to, have)
	case len(have) > 0:
		err = ErrOccupied
	}
	if err != nil {
		return err
	}
	x.done = progress{Basis: now}
	if err := x.to.Create(ctx, journal.IncompleteSpec); err != nil {
		return err
	}
	return x.to.Create(ctx, specs...)
}

// load reads the progress.
func (x *copying) load(ctx context.Context) error {
	row, err := x.to.Table(journal.Incomplete).Get(ctx, progressKey, table.Select{})
	if err != nil {
		return err
	}
	cell := row.Find(journal.IncompleteFamily, progressKey)
	if cell == nil {
		return nil
	}
	x.done.raw = bytes.Clone(cell.Value)
	if err := json.Unmarshal(cell.Value, &x.done); err != nil {
		return fmt.Errorf("progress of the copy: %w: %w", table.ErrCorrupt, err)
	}
	return nil
}

// ahead copies the commits that are decided, while servers go on. So no cell of these commits is added or rolled back, and their
// records do not change.
func (x *copying) ahead(ctx context.Context) error {
	heads, err := journal.New(x.from).Heads(ctx)
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(slices.Clone(x.names), func(name string) bool {
		return name == journal.Cluster || name == catalog.HeaderTable
	})
	r := heads.Low()
	if err := x.copy(ctx, names, r); err != nil {
		return err
	}
	x.done.UpTo, x.done.Long = r, x.done.Long || len(x.long) > 0
	return x.save(ctx)
}

// rest copies what was not copied ahead. The directory takes no updates any more.
func (x *copying) rest(ctx context.Context, p *partition.Partition) error {
	s, err := p.DB.Settled(ctx)
	if err != nil {
		return err
	}
	defer s.Close()    // until then, collections keep what it shows
	if p.DB.Shared() { // otherwise an aborted commit leaves nothing
		if err := journal.Settle(ctx, journal.New(x.from), s.Max()); err != nil {
			return err
		}
	}
	checkpoints, err := p.DB.Checkpoints(ctx)
	if err != nil {
		return err
	}
	if x.done.UpTo > 0 {
		x.done.Rest = true
		if err := x.save(ctx); err != nil {
			return err
		}
	}
	if err := x.copy(ctx, x.names, s.Max()); err != nil {
		return err
	}
	log := journal.New(x.to)
	if err := log.Cut(ctx, s.Max(), false); err != nil {
		return err
	}
	if x.done.UpTo > 0 {
		// Collections may have removed versions that were copied ahead.
		if err := log.CollectEverything(ctx); err != nil {
			return err
		}
	}
	if err := unchanged(ctx, p, s.Max(), checkpoints); err != nil {
		return err
	}
	return x.to.Drop(ctx, journal.Incomplete)
}

// unchanged returns an error if somebody has changed the directory after r, or its checkpoints or branches, although it takes no
// updates.
func unchanged(ctx context.Context, p *partition.Partition, r table.Revision, checkpoints []txn.Checkpoint) error {
	if err := p.DB.CatchUp(ctx); err != nil {
		return err
	}
	s := p.DB.Snapshot()
	defer s.Close()
	for _, err := range s.CommitsAfter(ctx, r) {
		return cmp.Or(err, errWritten)
	}
	now, err := p.DB.Checkpoints(ctx)
	if err == nil && !slices.Equal(now, checkpoints) {
		err = errWritten
	}
	return errors.Join(err, noBranches(p))
}

// save writes the progress.
func (x *copying) save(ctx context.Context) error {
	raw, err := json.Marshal(&x.done)
	if err != nil {
		return err
	}
	cell := table.Cell{Family: journal.IncompleteFamily, Qualifier: progressKey, Value: raw}
	done, err := x.to.Table(journal.Incomplete).Swap(ctx, progressKey, cell.Family, cell.Qualifier, x.done.raw, []table.Cell{cell})
	if err == nil && !done {
		err = errOther
	}
	x.done.raw = raw
	return err
}

// copy copies those revisions of tables up to upTo that were not copied ahead.
func (x *copying) copy(ctx context.Context, names []string, upTo table.Revision) error {
	for _, name := range names {
		t, ok := x.from.Table(name).(table.Copier)
		if !ok {
			return fmt.Errorf("%s cannot be copied", x.from)
		}
		span := table.RevisionSpan{After: x.done.UpTo, UpTo: upTo}
		if name == master.Name && x.done.Long {
			span.After = 0 // for the long keys
		}
		if err := t.CopyTo(ctx, x.to.Table(name), form{x.rewriter, name, span}, span); err != nil {
			return err
		}
	}
	return nil
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
