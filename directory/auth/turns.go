package auth

import (
	"context"
	"sync"
)

// Turns admits one attempt on a name at a time. The clients that wait for the same name
// take turns.
type Turns struct {
	mu    sync.Mutex
	names map[string]*turn
}

type turn struct {
	pool  pool // has one slot, which is in use from the beginning
	users int  // number of attempts that are admitted or waiting
}

// Enter waits until the client may attempt a password for the name. The caller must call
// leave after the attempt. The error is the error of ctx, or ErrBusy.
func (t *Turns) Enter(ctx context.Context, c Channel, name string) (leave func(), err error) {
	u, admitted := t.join(name)
	if !admitted {
		if err := u.pool.acquire(ctx, clientOf(c)); err != nil {
			t.part(name, u)
			return nil, err
		}
	}
	return func() {
		if t.part(name, u) {
			u.pool.release(clientOf(c))
		}
	}, nil
}

// join returns the turn of a name. If the name has no turn, join makes one, and admitted is
// true.
func (t *Turns) join(name string) (u *turn, admitted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u = t.names[name]; u != nil {
		u.users++
		return u, false
	}
	if t.names == nil {
		t.names = map[string]*turn{}
	}
	u = &turn{users: 1}
	t.names[name] = u
	return u, true
}

// part ends an attempt. It reports whether other attempts on the name are admitted or
// waiting.
func (t *Turns) part(name string, u *turn) (others bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u.users--; u.users == 0 {
		delete(t.names, name)
	}
	return u.users > 0
}
