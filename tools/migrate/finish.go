package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// FinishOptions are the options of Finish.
type FinishOptions struct {
	// Finish calls Quiet after it has compared everything. Quiet must return once no
	// client writes to the server any more.
	Quiet func(ctx context.Context) error
	// Different makes Finish succeed although entries differ or were left out.
	Different bool
}

// ErrDifferent means that the directory and the server differ.
var ErrDifferent = errors.New("the two differ")

// Finish makes the directory take the place of the server: it catches up, compares the
// directory with the server, and opens the directory for updates. Clients may write to
// the server until Quiet returns. Afterwards Finish only has to copy and compare the last
// changes, and to compare the names and modifyTimestamps of all entries.
func (m *Move) Finish(ctx context.Context, o FinishOptions) (*Report, error) {
	if err := m.CatchUp(ctx); err != nil {
		return nil, err
	}
	m.o.Note("caught up")
	var c *comparison
	if err := m.retry(ctx, isCut, func(ctx context.Context) (err error) {
		if c, err = m.compareLive(ctx); err != nil || len(c.report.Differences) == 0 {
			return err
		}
		return c.mend(ctx)
	}); err != nil {
		return nil, err
	}
	r := c.report
	m.o.Note("compared while clients write there: " + r.String())
	// Quiet may take hours, and servers close idle connections, so retry connects again.
	if err := m.whileFollowing(ctx, o.Quiet, func(ctx context.Context) error {
		return m.retry(ctx, isCut, c.compareChanged)
	}); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := m.link.reconnect(ctx, 0); err != nil {
		return nil, err
	}
	if err := m.CatchUp(ctx); err != nil {
		return nil, err
	}
	if err := m.retry(ctx, isCut, func(ctx context.Context) error {
		for _, step := range []func(context.Context) error{c.compareChanged, c.compareRefused, c.mend, c.missed, c.explain} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if len(r.Differences) > 0 && !o.Different {
		return r, errors.Join(c.count(ctx), ErrDifferent)
	}
	if err := m.place.end(ctx); err != nil {
		return r, err
	}
	m.o.Note(fmt.Sprintf("open for updates %s after the last one there", since(begun)))
	return r, c.count(ctx)
}

// Compare compares the directory with the server. An entry that differs is read again from
// the directory and the server, up to tries times, because it may have been changed between
// the two reads.
func (m *Move) Compare(ctx context.Context, tries int) (*Report, error) {
	c := newComparison(m)
	return c.report, c.all(ctx, tries)
}

// compareLive compares everything while clients write to the server and the directory follows.
func (m *Move) compareLive(ctx context.Context) (*comparison, error) {
	c := newComparison(m)
	clear(m.left.refused)
	return c, m.whileFollowing(ctx, func(ctx context.Context) error { return c.all(ctx, 3) },
		func(context.Context) error { return nil })
}

// whileFollowing calls do, and lets a second Move follow the server meanwhile. It calls idle
// every second until do returns.
func (m *Move) whileFollowing(ctx context.Context, do, idle func(context.Context) error) error {
	following, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	f, err := m.second()
	if err != nil {
		return err
	}
	defer f.Close()
	wg.Go(func() {
		if err := f.Follow(following, func() {}); !errors.Is(err, errStopped) {
			stop(err)
		}
	})
	done := make(chan error, 1)
	wg.Go(func() { done <- do(following) })
	err = wait(following, done, idle)
	stop(errStopped)
	wg.Wait()
	m.writer.again = f.writer.again
	maps.Copy(m.ids.here, f.ids.here)
	maps.Copy(m.left.refused, f.left.refused)
	err = cmp.Or(err, m.place.reload(ctx))
	if cause := context.Cause(following); err == nil && !errors.Is(cause, errStopped) {
		err = cause
	}
	return err
}

// wait waits for done, and calls idle every second until then.
func wait(ctx context.Context, done <-chan error, idle func(context.Context) error) error {
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
		if err := idle(ctx); err != nil {
			return err
		}
	}
}

// second returns a copy of m, with connections of its own, that follows in place of m.
func (m *Move) second() (*Move, error) {
	src, err := m.link.src.Again()
	if err != nil {
		return nil, err
	}
	link, err := newLink(src, &m.o)
	if err != nil {
		src.Close()
		return nil, err
	}
	f := &Move{p: m.p, o: m.o, link: link, place: m.place.clone(), left: m.left.clone(), ids: m.ids.clone()}
	f.writer = writer{m: f, again: m.writer.again}
	return f, nil
}

// The function "since" returns the time that has passed since t, rounded for messages.
func since(t time.Time) time.Duration { return time.Since(t).Round(10 * time.Millisecond) }
