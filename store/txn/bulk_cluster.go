package txn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// clusterLoad is a load whose cells stay hidden below the head, like the cells of an
// undecided commit, until the load is decided and published.
type clusterLoad struct {
	*hidden
	w *writer
	p *pendingCommit
}

func (e *cluster) bulk(ctx context.Context, _ table.BulkOptions) (loader, error) {
	w, err := e.holder()
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	p, err := w.newCommit(bulkRecord(0, nil))
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	p.dirty = true
	err = w.step(ctx, func(ctx context.Context) error { return e.db.log.Begin(ctx, p.rec) })
	if err != nil {
		w.resolver.later(p)
		return nil, err
	}
	l := &clusterLoad{&hidden{db: e.db, rec: p.rec, step: w.step}, w, p}
	if err := w.announce(ctx, p); err != nil {
		return nil, errors.Join(err, l.abort(ctx))
	}
	if err := w.awaitAlone(ctx); err != nil {
		return nil, errors.Join(err, l.abort(ctx))
	}
	if err := e.db.unbranched("a load"); err != nil {
		return nil, errors.Join(err, l.abort(ctx))
	}
	return l, nil
}

// announce returns when this server's heads cell lists the load as undecided, so that
// every server sees it.
func (w *writer) announce(ctx context.Context, p *pendingCommit) error {
	for {
		if err := w.alive(); err != nil {
			return err
		}
		undecided := w.e.shown().Cell(w.slot).Undecided
		if _, announced := slices.BinarySearch(undecided, p.rec.Revision); announced {
			return nil
		}
		w.signal()
		if err := pause.For(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// alone implements DB.Alone.
func (e *cluster) alone(ctx context.Context) error {
	w, err := e.holder()
	if err != nil {
		return err
	}
	return w.awaitAlone(ctx)
}

// awaitAlone returns when no other server writes. A load has no marks that other servers could
// find, so it must wait until it is alone; see also claimer.loading. A server that has fallen
// silent may be dead, so awaitAlone waits until the slot of that server is recovered. An open
// server whose cell changes is alive; if there is such a server, awaitAlone returns
// ErrConflict.
func (w *writer) awaitAlone(ctx context.Context) error {
	first := map[revision.Slot][]byte{}
	for {
		var heads *journal.Heads
		err := w.step(ctx, func(ctx context.Context) (err error) {
			heads, err = w.e.db.log.Heads(ctx)
			return err
		})
		if err != nil {
			return err
		}
		alone := true
		for _, s := range heads.Slots() {
			c := heads.Cell(s)
			if s == w.slot || !holds(c) {
				continue
			}
			alone = false
			if first[s] == nil {
				first[s] = heads.Raw(s)
			} else if c.State == revision.Open && !bytes.Equal(first[s], heads.Raw(s)) {
				return fmt.Errorf("%w: %s writes to this store too: stop it for this", ErrConflict, c.Owner)
			}
		}
		if alone {
			return nil
		}
		if err := pause.For(ctx, w.e.db.o.Poll); err != nil {
			return err
		}
	}
}

func (l *clusterLoad) commit(ctx context.Context, message []byte) (table.Revision, error) {
	if err := canceled(ctx); err != nil {
		return 0, errors.Join(err, l.abort(ctx))
	}
	l.p.rec.Message = message
	if met, err := l.w.decide(context.WithoutCancel(ctx), l.p); met != nil || err != nil {
		if met != nil {
			err = fmt.Errorf("%w: another server took it back", table.ErrUnavailable)
		}
		return 0, err
	}
	return l.p.rec.Revision, l.w.awaitShown(l.p)
}

// abort aborts the load and removes its cells. It reads the write list from the journal,
// because a load does not keep the list in memory.
func (l *clusterLoad) abort(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	return l.w.step(ctx, func(ctx context.Context) error {
		rec, err := l.db.log.Get(ctx, l.p.rec.Revision)
		if err == nil {
			l.p.rec.Rows = rec.Rows
			err = l.db.log.Rollback(ctx, &rec)
		}
		if err != nil {
			l.w.resolver.later(l.p)
			return err
		}
		l.w.finalise(l.p, journal.Aborted)
		return nil
	})
}
