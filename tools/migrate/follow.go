package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Follow copies the changes that are made at the server until ctx ends. It calls caught
// each time the directory has caught up. If the server cannot be reached, Follow tries
// again. It returns ErrTaken if another process follows, and ErrEnded if the directory no
// longer follows.
func (m *Move) Follow(ctx context.Context, caught func()) error {
	if len(m.link.src.Bases) == 1 {
		return m.persist(ctx, func(ctx context.Context) error {
			if err := m.synchronize(ctx, m.link.src.Bases[0], true, caught); err != nil {
				return err
			}
			return m.link.rest(ctx)
		})
	}
	// One connection cannot wait for changes of several subtrees, so the subtrees are
	// refreshed in turn.
	return m.persist(ctx, func(ctx context.Context) error {
		for {
			if err := m.refreshAll(ctx); err != nil {
				return err
			}
			caught()
			if err := m.link.rest(ctx); err != nil {
				return err
			}
		}
	})
}

// persist runs fn again and again, and connects again whenever the server is lost.
func (m *Move) persist(ctx context.Context, fn func(context.Context) error) error {
	for {
		if err := m.retry(ctx, isLost, fn); err != nil {
			return err
		}
	}
}

// retry runs fn until it succeeds. After an error it connects to the server and repeats
// fn if again(err) is true, or if the synchronization has to begin anew. It returns any
// other error.
func (m *Move) retry(ctx context.Context, again func(error) bool, fn func(context.Context) error) error {
	began := false // the previous error meant that the synchronization has to begin anew
	for wait := time.Duration(0); ; {
		begun := time.Now()
		err := fn(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		begins := m.begins(err)
		if !begins && !again(err) {
			return err
		}
		if time.Since(begun) > mostWait {
			wait, began = 0, false
		}
		if begins && !began {
			wait = 0
		} else {
			// Wait even if the synchronization has to begin anew, because a server may
			// say so each time.
			wait = min(max(2*wait, m.o.Every/8), mostWait)
			m.o.Note(fmt.Sprintf("%s: %v; trying again in %s", m.link.src.Remote.URL, err, wait.Round(time.Millisecond)))
		}
		began = begins
		if err := m.link.reconnect(ctx, wait); err != nil {
			return err
		}
	}
}

// begins reports whether an error means that the next synchronization has to begin anew.
// If so, it drops the cookies.
func (m *Move) begins(err error) bool {
	switch {
	case errors.Is(err, errReload):
		m.o.Note(err.Error() + ": everything is compared")
	case errors.Is(err, errNoSync) && m.link.refuses(err):
	default:
		return false
	}
	m.place.cursor.Cookies = map[string][]byte{}
	return true
}

// CatchUp copies what has changed at the server until now. If the connection is lost,
// CatchUp connects again.
func (m *Move) CatchUp(ctx context.Context) error {
	return m.retry(ctx, isCut, m.refreshAll)
}

func (m *Move) refreshAll(ctx context.Context) error {
	for _, base := range m.link.src.Bases {
		if err := m.synchronize(ctx, base, false, func() {}); err != nil {
			return err
		}
	}
	return nil
}

// synchronize makes the subtree of base equal to the server's. If persist is set, it then
// copies further changes until the connection or ctx ends. A server without content
// synchronization reports no further changes.
func (m *Move) synchronize(ctx context.Context, base string, persist bool, caught func()) error {
	r := &refresh{m: m, base: base}
	cookie := m.place.cursor.Cookies[base]
	if m.place.cursor.Ahead[base] {
		cookie = nil // without a cookie, everything is compared
	}
	if err := r.list(ctx, cookie); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *event, 256)
	var wg sync.WaitGroup
	var lost error
	wg.Go(func() {
		defer close(queue)
		lost = m.link.src.events(ctx, base, cookie, persist, func(ev *event) error {
			select {
			case queue <- ev:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	})
	err := r.consume(ctx, queue, caught)
	if err != nil {
		cancel(err)
	}
	wg.Wait()
	return cmp.Or(err, lost)
}
