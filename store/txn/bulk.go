package txn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Bulk is one huge commit that does not use a Tx. Nothing of it is visible until
// Commit, which makes all of it visible at once. A Bulk has no marks, so there must be no
// other commits during the load: Updates fail with ErrConflict, and on a shared store a load
// cannot begin while another server that writes is alive.
type Bulk struct {
	db     *DB
	loader loader
	once   sync.Once
}

// A loader loads in bulk on one kind of store.
type loader interface {
	stamp() table.Revision
	write(ctx context.Context, ws []table.Write) error
	// commit ends the load, even if it returns an error.
	commit(ctx context.Context, message []byte) (table.Revision, error)
	abort(ctx context.Context) error
}

// Bulk begins a load. Unless the store is both a Batcher and a Bulker, Write writes the
// rows immediately, at a revision that stays invisible until Commit.
func (db *DB) Bulk(ctx context.Context, o table.BulkOptions) (*Bulk, error) {
	if err := db.commits.writable(); err != nil {
		return nil, err
	}
	if err := db.gate.enter(ctx, true); err != nil {
		return nil, err
	}
	db.gate.forBulk()
	l, err := db.commits.bulk(ctx, o)
	if err != nil {
		db.gate.leave()
		return nil, fmt.Errorf("beginning a bulk load: %w", err)
	}
	return &Bulk{db: db, loader: l}, nil
}

// Stamp returns the revision of the load. It serves for positions and change numbers,
// like the id that Tx.Stamp returns.
func (b *Bulk) Stamp() table.Revision { return b.loader.stamp() }

// Write adds mutations. It may be called concurrently. Several calls may write cells of
// the same row.
func (b *Bulk) Write(ctx context.Context, ws ...table.Write) error { return b.loader.write(ctx, ws) }

// Begin returns a transaction that sees the state before the load. Its writes become part of the
// load by Take. The caller must call Take or Drop.
func (b *Bulk) Begin() *Tx {
	tx := b.db.begin()
	tx.stamp = b.Stamp()
	return tx
}

// Take adds what the transaction wrote to the load.
func (b *Bulk) Take(ctx context.Context, tx *Tx) error {
	tx.fillIn(b.Stamp())
	return b.loader.write(ctx, tx.batch())
}

// Drop ends a transaction of Begin.
func (b *Bulk) Drop(tx *Tx) { tx.end() }

// Commit makes the load durable and visible at one revision, in one step.
func (b *Bulk) Commit(ctx context.Context, message []byte) (r table.Revision, err error) {
	err = fmt.Errorf("bulk load: %w", table.ErrClosed)
	b.once.Do(func() {
		defer b.db.gate.leave()
		if r, err = b.loader.commit(ctx, message); err != nil {
			err = fmt.Errorf("bulk load: %w", err)
		}
	})
	return r, err
}

// Abort undoes the load. After Commit it does nothing.
func (b *Bulk) Abort(ctx context.Context) (err error) {
	b.once.Do(func() {
		defer b.db.gate.leave()
		err = b.loader.abort(ctx)
	})
	return err
}

// embeddedLoad sorts the cells outside the store's log and adds them to the store in one
// step.
type embeddedLoad struct {
	e    *embedded
	r    table.Revision
	bulk table.Bulk
}

func (e *embedded) bulk(ctx context.Context, o table.BulkOptions) (loader, error) {
	if err := e.branches.unbranched("a load"); err != nil {
		return nil, err
	}
	r, err := e.clock.Next()
	if err != nil {
		return nil, err
	}
	if b, ok := e.db.store.(table.Bulker); ok {
		bulk, err := b.Bulk(ctx, r, o)
		return &embeddedLoad{e, r, bulk}, err
	}
	w, err := newHidden(ctx, e.db, r)
	return &hiddenEmbedded{w, e}, err
}

func (l *embeddedLoad) stamp() table.Revision { return l.r }

func (l *embeddedLoad) write(_ context.Context, ws []table.Write) error {
	for _, x := range ws {
		if err := l.bulk.Add(x.Table, x.Mutations...); err != nil {
			return err
		}
	}
	return nil
}

func (l *embeddedLoad) commit(ctx context.Context, message []byte) (table.Revision, error) {
	rec := bulkRecord(l.r, message)
	last := func(over table.Overwritten) []table.Write {
		if !over.All {
			rec.Kind, rec.Rows = journal.Ordinary, over.Rows
		}
		return []table.Write{rec.Write()}
	}
	if err := l.bulk.Finish(ctx, last); err != nil {
		got, readErr := l.e.db.log.Get(context.WithoutCancel(ctx), l.r)
		if readErr == nil && got.State == journal.None {
			return 0, errors.Join(err, l.bulk.Abort())
		}
		return 0, l.e.fail(err)
	}
	l.e.showBulk(l.r)
	return l.r, nil
}

func (l *embeddedLoad) abort(context.Context) error { return l.bulk.Abort() }

func bulkRecord(r table.Revision, message []byte) *journal.Record {
	return &journal.Record{Revision: r, Kind: journal.Bulk, Prio: r, AllChanged: true, Message: message}
}

// showBulk shows a load. It counts everything as changed, because a load may change
// anything.
func (e *embedded) showBulk(r table.Revision) {
	e.mu.Lock()
	e.last.head = r
	e.last.ordinal++
	p := e.last
	e.mu.Unlock()
	e.db.changes.everything(p.ordinal)
	e.show(p)
}

// hidden writes cells at an invisible revision. It writes each part of the write list
// before the cells of the rows in that part.
type hidden struct {
	db   *DB
	rec  *journal.Record
	step func(context.Context, func(context.Context) error) error // makes a call of the store

	mu    sync.Mutex
	chunk uint32
}

func newHidden(ctx context.Context, db *DB, r table.Revision) (*hidden, error) {
	h := &hidden{db: db, rec: bulkRecord(r, nil), step: func(ctx context.Context, do func(context.Context) error) error { return do(ctx) }}
	h.rec.Token = h.db.o.random()
	return h, db.log.Begin(ctx, h.rec)
}

func (h *hidden) stamp() table.Revision { return h.rec.Revision }

// write writes the list of all rows, and then the cells, the tables in parallel.
func (h *hidden) write(ctx context.Context, ws []table.Write) error {
	var lists []journal.Rows
	for _, x := range ws {
		rows := rowsOf(x.Table, x.Mutations)
		slices.SortFunc(rows.Keys, bytes.Compare)
		rows.Keys = slices.CompactFunc(rows.Keys, bytes.Equal)
		lists = append(lists, rows)
	}
	for _, rows := range journal.Chunked(lists) {
		h.mu.Lock()
		h.chunk++
		n := h.chunk
		h.mu.Unlock()
		if err := h.step(ctx, func(ctx context.Context) error { return h.db.log.Chunk(ctx, h.rec.Revision, n, rows) }); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, x := range ws {
		g.Go(func() error {
			for part := range slices.Chunk(x.Mutations, applySize) {
				if err := h.step(ctx, func(ctx context.Context) error { return h.db.store.Table(x.Table).Apply(ctx, h.rec.Revision, part) }); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func rowsOf(t string, ms []table.Mutation) journal.Rows {
	keys := make([][]byte, len(ms))
	for i := range ms {
		keys[i] = ms[i].Row
	}
	return journal.Rows{Table: t, Keys: keys}
}

func (h *hidden) abort(ctx context.Context) error {
	rec, err := h.db.log.Get(ctx, h.rec.Revision)
	if err != nil {
		return err
	}
	return h.db.log.Rollback(ctx, &rec)
}

// hiddenEmbedded commits a hidden load with one atomic batch, which contains the journal
// row.
type hiddenEmbedded struct {
	*hidden
	e *embedded
}

func (h *hiddenEmbedded) commit(ctx context.Context, message []byte) (table.Revision, error) {
	r := h.rec.Revision
	rec := *h.rec
	rec.Message = message
	h.e.mu.Lock()
	wait, err := h.e.batcher.Commit(context.WithoutCancel(ctx), table.Batch{Revision: r, Writes: []table.Write{rec.Write()}})
	h.e.mu.Unlock()
	if err == nil {
		err = wait()
	}
	if err != nil {
		return 0, h.e.fail(err)
	}
	h.e.showBulk(r)
	return r, nil
}
