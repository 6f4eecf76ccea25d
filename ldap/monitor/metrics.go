// Package monitor collects the metrics of a server.
package monitor

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are the metrics of one process.
type Metrics struct {
	Registry   *prometheus.Registry
	Operations *Operations
	Traffic    *Traffic
	Jobs       *Jobs
	Warnings   Warnings
	Started    time.Time

	load    atomic.Pointer[func() *Load]
	commits *commits
	hashes  *hashes
}

// New returns the metrics of a process. version is the version of the program.
func New(version string) *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{Registry: r, Operations: newOperations(r), Traffic: NewTraffic(r), Jobs: newJobs(r), Started: time.Now(), commits: newCommits(r), hashes: newHashes(r)}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ldapd_build_info", Help: "1, with the version of the program."}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	r.MustRegister(build, newLoadMetrics(m.Load), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Observe counts an operation. Observe is an Observer.
func (m *Metrics) Observe(o *Observation) { m.Operations.Observe(o) }

// SetLoad sets the function that returns the current load.
func (m *Metrics) SetLoad(f func() *Load) { m.load.Store(&f) }

// Load returns the current load of the server. It returns nil if the server does not
// run yet.
func (m *Metrics) Load() *Load {
	if f := m.load.Load(); f != nil {
		return (*f)()
	}
	return nil
}
