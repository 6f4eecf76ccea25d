package accountlog

import (
	"context"
	"sync"
)

// backgroundWork runs background jobs, a limited number at a time.
type backgroundWork struct {
	mu     sync.Mutex
	closed bool
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}
	all    sync.WaitGroup
}

// besideAtOnce is the number of jobs that run at a time.
const backgroundAtOnce = 16

func newBackgroundWork() *backgroundWork {
	ctx, cancel := context.WithCancel(context.Background())
	return &backgroundWork{ctx: ctx, cancel: cancel, slots: make(chan struct{}, backgroundAtOnce)}
}

func (b *backgroundWork) start(f func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.all.Add(1)
	go func() {
		defer b.all.Done()
		b.slots <- struct{}{}
		defer func() { <-b.slots }()
		f(b.ctx)
	}()
}

func (b *backgroundWork) wait() { b.all.Wait() }

// close waits until all started jobs have ended. Once close has been called, start does
// nothing.
func (b *backgroundWork) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.all.Wait()
	b.cancel()
}
