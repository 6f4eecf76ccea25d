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
	pool  pool
	users int // number of attempts that are admitted or waiting
}

// Enter waits until the client may attempt a password for the name. The caller must call
// leave after the attempt. The error is the error of ctx, or ErrBusy.
func (t *Turns) Enter(ctx context.Context, c Channel, name string) (leave func(), err error) {
	u, client := t.join(name), clientOf(c)
	if err := u.pool.acquire(ctx, client); err != nil {
		t.part(name, u)
		return nil, err
	}
	return func() {
		u.pool.release(client)
		t.part(name, u)
	}, nil
}

func (t *Turns) join(name string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil {
		t.names = map[string]*turn{}
	}
	u := t.names[name]
	if u == nil {
		u = &turn{pool: pool{free: 1}}
		t.names[name] = u
	}
	u.users++
	return u
}

func (t *Turns) part(name string, u *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u.users--; u.users == 0 {
		delete(t.names, name)
	}
}
