package request

import (
	"context"
	"runtime/debug"
	"sync"
)

// Background is what goes on beside requests: one thing at a time. What is to begin
// meanwhile is left undone.
type Background struct {
	mu     sync.Mutex
	closed bool
	cancel context.CancelFunc
	done   chan struct{} // closed when the one that runs has ended; nil: none runs
}

// Start begins one, unless another runs.
func (u *Background) Start(f func(context.Context)) {
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
func (u *Background) ended() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done = nil
}

// Close ends the one that runs and waits for it.
func (u *Background) Close() {
	u.mu.Lock()
	u.closed = true
	if u.done != nil {
		u.cancel()
	}
	u.mu.Unlock()
	u.Wait()
}

// Wait waits for the one that may run.
func (u *Background) Wait() {
	u.mu.Lock()
	done := u.done
	u.mu.Unlock()
	if done != nil {
		<-done
	}
}

// ContainPanic, deferred by what runs beside operations, logs a panic of it.
func (d *Server) ContainPanic(doing string) {
	if p := recover(); p != nil {
		d.Log.Error("panic", "doing", doing, "panic", p, "stack", string(debug.Stack()))
	}
}
