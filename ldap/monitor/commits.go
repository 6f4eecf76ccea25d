package monitor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The type commits counts attempts to commit.
type commits struct {
	results       map[string]prometheus.Counter
	own, other    prometheus.Counter // conflicts with commits of this server and of other servers
	prepare, sync prometheus.Observer
}

func newCommits(r prometheus.Registerer) *commits {
	results := vec("ldapd_commits_total", "Attempts to commit.", "result")
	conflicts := vec("ldapd_conflicts_total", "Attempts to commit that met a conflict with a commit of this server or of another.", "with")
	stages := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ldapd_commit_duration_seconds", Help: "Time until a commit is in the log (prepare), and from then until it is durable and shown (sync).", Buckets: buckets}, []string{"stage"})
	r.MustRegister(results, conflicts, stages)
	c := &commits{
		results: map[string]prometheus.Counter{},
		own:     conflicts.WithLabelValues("own"), other: conflicts.WithLabelValues("other"),
		prepare: stages.WithLabelValues("prepare"), sync: stages.WithLabelValues("sync"),
	}
	for _, name := range []string{"committed", "conflict", "unknown", "failed"} {
		c.results[name] = results.WithLabelValues(name)
	}
	return c
}

// An Attempt is the outcome of one attempt to commit.
type Attempt struct {
	Result  string        // committed, conflict, unknown or failed
	Other   bool          // the conflict is with a commit of another server
	Prepare time.Duration // until the commit was in the log
	Sync    time.Duration // from then until it was durable and shown
}

// Commit counts an attempt to commit.
func (m *Metrics) Commit(a Attempt) {
	c := m.commits
	c.results[a.Result].Inc()
	switch {
	case a.Result == "conflict" && a.Other:
		c.other.Inc()
	case a.Result == "conflict":
		c.own.Inc()
	case a.Result == "committed":
		c.prepare.Observe(a.Prepare.Seconds())
		c.sync.Observe(a.Sync.Seconds())
	}
}

// The type hashes counts slow password hashes.
type hashes struct {
	made   *prometheus.CounterVec
	waited prometheus.Histogram
}

func newHashes(r prometheus.Registerer) *hashes {
	h := &hashes{
		made: vec("ldapd_password_hashes_total", "Slow password hashes that were made.", "scheme"),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ldapd_password_wait_seconds", Help: "Time that slow password hashes waited for their turn.", Buckets: buckets}),
	}
	r.MustRegister(h.made, h.waited)
	return h
}

// Hash counts a slow password hash.
func (m *Metrics) Hash(scheme string, waited time.Duration) {
	m.hashes.made.WithLabelValues(scheme).Inc()
	m.hashes.waited.Observe(waited.Seconds())
}
