package request

import (
	"context"
	"runtime/debug"
	"sync"
)

// Background runs jobs in the background of requests, one job at a time. Start drops a job
// if another job is running.
type Background struct {
	mu     sync.Mutex
	closed bool
	cancel context.CancelFunc
	done   chan struct{} // closed when the running job has ended; nil: no job runs
}

// Start starts a job, unless another job runs.
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

// ended records that the running job has ended, so that Start can start the next job.
func (u *Background) ended() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done = nil
}

// Close cancels the running job and waits for it.
func (u *Background) Close() {
	u.mu.Lock()
	u.closed = true
	if u.done != nil {
		u.cancel()
	}
	u.mu.Unlock()
	u.Wait()
}

// Wait waits for the running job, if any.
func (u *Background) Wait() {
	u.mu.Lock()
	done := u.done
	u.mu.Unlock()
	if done != nil {
		<-done
	}
}

// ContainPanic logs the panic of a background job. The job must defer ContainPanic.
func (d *Server) ContainPanic(doing string) {
	if p := recover(); p != nil {
		d.Log.Error("panic", "doing", doing, "panic", p, "stack", string(debug.Stack()))
	}
}
