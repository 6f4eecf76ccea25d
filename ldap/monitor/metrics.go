// Package monitor collects the metrics of a server. Package scrape exposes them.
package monitor

import (
	"sync/atomic"
	"time"
)

// Metrics are the metrics of one process.
type Metrics struct {
	Operations *Operations
	Traffic    *Traffic
	Jobs       *Jobs
	Warnings   Warnings
	Started    time.Time

	version string
	load    atomic.Value // func() *Load
	figures atomic.Value // func() []Figure
	commits commits
	hashes  *hashes
}

// New returns the metrics of a process. version is the version of the program.
func New(version string) *Metrics {
	return &Metrics{Operations: newOperations(), Traffic: NewTraffic(), Jobs: newJobs(), Started: time.Now(), version: version, hashes: newHashes()}
}

// Observe counts an operation. Observe is an Observer.
func (m *Metrics) Observe(o *Observation) { m.Operations.Observe(o) }

// SetLoad sets the function that returns the current load.
func (m *Metrics) SetLoad(f func() *Load) { m.load.Store(f) }

// Load returns the current load of the server. It returns nil if the server does not
// run yet.
func (m *Metrics) Load() *Load {
	if f, ok := m.load.Load().(func() *Load); ok {
		return f()
	}
	return nil
}

// SetFigures sets the function that returns the figures of the server. Package scrape sets it.
func (m *Metrics) SetFigures(f func() []Figure) { m.figures.Store(f) }

// Figures returns the gauges and counters of the server, sorted by name. It returns nil if SetFigures was not
// called.
func (m *Metrics) Figures() []Figure {
	if f, ok := m.figures.Load().(func() []Figure); ok {
		return f()
	}
	return nil
}
