package txn

import (
	"context"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/pause"
)

// A resolver finishes in the background the commits that the goroutines of their callers could
// not finish.
type resolver struct {
	w    *writer
	open sync.WaitGroup // counts the commits whose outcome is unknown
}

// The method "later" finds out the outcome of a commit in the background, and aborts the commit
// if it is undecided. Until then the commit is an exception below the head.
func (r *resolver) later(p *pendingCommit) {
	w := r.w
	r.open.Add(1)
	random := w.e.db.o.random()
	w.e.done.Go(func() {
		defer r.open.Done()
		for try := 0; ; try++ {
			if pause.For(w.e.background, jittered(time.Millisecond<<min(try, 8), random)) != nil || w.fenced.Load() {
				return
			}
			var state journal.State
			if err := w.step(w.e.background, func(ctx context.Context) (err error) {
				if state, err = w.e.db.log.Decide(ctx, p.rec, journal.Aborted); err != nil || state == journal.Committed {
					return err
				}
				state = journal.Aborted
				return w.e.db.log.Erase(ctx, p.rec)
			}); err == nil {
				w.finalise(p, state)
				return
			}
		}
	})
}

// abort aborts a commit whose journal row may have been written although the store did
// not acknowledge the write. The commit has no cells yet.
func (r *resolver) abort(ctx context.Context, p *pendingCommit) {
	w := r.w
	e := w.e
	e.done.Go(func() {
		err := w.step(ctx, func(ctx context.Context) error {
			_, err := e.db.log.Decide(ctx, p.rec, journal.Aborted)
			return err
		})
		if err != nil {
			e.db.o.Log.Debug("journal row left pending", "revision", p.rec.Revision.String(), "error", err)
		}
	})
}

// wait waits until the outcome of every commit is known.
func (r *resolver) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		r.open.Wait()
		close(done)
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-done:
		return nil
	}
}
