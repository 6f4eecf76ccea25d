package directory

import (
	"context"
	"runtime/debug"
	"sync"
)

// background is what goes on beside requests: one thing at a time. What is to begin
// meanwhile is left undone.
type background struct {
	mu     sync.Mutex
	closed bool
	cancel context.CancelFunc
	done   chan struct{} // closed when the one that runs has ended; nil: none runs
}

func (u *background) start(f func(context.Context)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || u.done != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	u.cancel, u.done = cancel, done
	go func() {
		defer close(done)
		defer u.ended()
		defer cancel()
		f(ctx)
	}()
}

// ended makes room for the next one.
func (u *background) ended() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done = nil
}

// close ends the one that runs and waits for it.
func (u *background) close() {
	u.mu.Lock()
	u.closed = true
	done := u.done
	if done != nil {
		u.cancel()
	}
	u.mu.Unlock()
	if done != nil {
		<-done
	}
}

// containPanic, deferred by what runs beside operations, logs a panic of it.
func (d *server) containPanic(doing string) {
	if p := recover(); p != nil {
		d.log.Error("panic", "doing", doing, "panic", p, "stack", string(debug.Stack()))
	}
}
