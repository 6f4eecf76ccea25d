package serving

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/handoff"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
)

// sessionJobs are the jobs that clients have started.
type sessionJobs struct {
	ctx     context.Context // ends when the server stops; nil: it does no jobs yet
	mu      sync.Mutex
	running sync.WaitGroup
	count   int
}

// maxSessionJobs bounds the jobs that clients have started and that run.
const maxSessionJobs = 8

// startJob starts a job for a client, and returns its number.
func (s *serving) startJob(who, name string, arguments []string) (int, error) {
	do, err := s.jobs.Prepare(s.config, name, arguments)
	if err != nil {
		return 0, err
	}
	j := &s.started
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.ctx == nil || j.ctx.Err() != nil:
		return 0, errors.New("the server is starting or stopping")
	case j.count == maxSessionJobs:
		return 0, fmt.Errorf("%d jobs run already: wait for the end of one, or cancel one", maxSessionJobs)
	}
	j.count++
	ctx, running := s.watch.metrics.Jobs.Begin(j.ctx, name, who, arguments)
	j.running.Go(func() {
		s.log.Info("a job begins", "job", name, "number", running.Number(), "who", who)
		err := guarded(func() error { return do(ctx, s.store.Partition, s.archives, who, running) })
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		running.End(err)
		s.log.Info("a job ends", "job", name, "number", running.Number(), "error", err)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.count--
	})
	return running.Number(), nil
}

// guarded calls do and turns a panic into an error, so that a job cannot end the server.
func guarded(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}

// letStart makes startJob start jobs.
func (s *serving) letStart(ctx context.Context) (stop func() error, err error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.started.mu.Lock()
	defer s.started.mu.Unlock()
	s.started.ctx = ctx
	return each(func() {
		s.started.mu.Lock()
		cancel(errors.New("the server is stopping"))
		s.started.mu.Unlock()
		s.started.running.Wait()
	}), nil
}

// doJobs does the jobs of tools that find the store's folder locked, until stop is
// called. It does nothing for a shared store, because tools can open a shared store
// themselves.
func (s *serving) doJobs(context.Context) (stop func() error, err error) {
	if hbase.IsURL(s.config.Store) {
		return each(), nil
	}
	l, err := handoff.Listen(s.config.Store, s.log)
	if err != nil {
		s.log.Warn("tools cannot work on the store while it is served", "error", err)
		return each(), nil
	}
	return each(inBackground(func(ctx context.Context) {
		l.Serve(ctx, func(ctx context.Context, call *handoff.Call) error {
			return s.jobs.Do(ctx, s.store.Partition, s.archives, s.directory.Admin(), s.watch.metrics, call)
		})
	})), nil
}
