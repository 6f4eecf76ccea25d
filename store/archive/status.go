package archive

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Status describes how far a store has been archived.
type Status struct {
	// Everything that was committed before CaughtUp is archived; zero: not known yet.
	CaughtUp  time.Time
	Based     time.Time // when the newest base was taken; zero: unknown
	Drilled   time.Time // when a drill last succeeded
	BaseBytes int64     // octets of bases that this process has sent
	LogBytes  int64
	Failures  int64
	Failure   error // the last failure, if nothing has succeeded since
}

type status struct {
	mu sync.Mutex
	Status
}

func (s *status) caughtUp(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.CaughtUp = at
}

func (s *status) based(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Based = at
}

func (s *status) sent(kind string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind == "base" {
		s.BaseBytes += n
	} else {
		s.LogBytes += n
	}
}

// Status returns how far the store has been archived.
func (a *Archiver) Status() Status {
	a.status.mu.Lock()
	defer a.status.mu.Unlock()
	return a.status.Status
}

// Drilled records the time of a successful drill.
func (a *Archiver) Drilled() {
	a.status.mu.Lock()
	defer a.status.mu.Unlock()
	a.status.Status.Drilled = a.o.Now()
}

// noted stores the result of an operation, unless the operation was cancelled. It returns the
// result.
func (a *Archiver) noted(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	a.status.mu.Lock()
	defer a.status.mu.Unlock()
	if a.status.Failure = err; err != nil {
		a.status.Failures++
	}
	return err
}
