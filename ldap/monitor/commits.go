package monitor

import (
	"math"
	"time"
)

// The type commits counts attempts to commit.
type commits struct {
	results       [len(commitResults)]Counter
	own, other    Counter // conflicts with commits of this server and of other servers
	prepare, sync durations
}

var commitResults = [...]string{"committed", "conflict", "unknown", "failed"}

func (c *commits) families() []Family {
	results := Family{"ldapd_commits_total", "Attempts to commit.", Count, []string{"result"}, nil}
	for i, name := range commitResults {
		results.Series = append(results.Series, c.results[i].series(name))
	}
	return []Family{
		results,
		{"ldapd_conflicts_total", "Attempts to commit that met a conflict with a commit of this server or of another.", Count, []string{"with"},
			[]Series{c.own.series("own"), c.other.series("other")}},
		{"ldapd_commit_duration_seconds", "Time until a commit is in the log (prepare), and from then until it is durable and shown (sync).", Durations, []string{"stage"},
			[]Series{c.prepare.series("prepare"), c.sync.series("sync")}},
	}
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
	c := &m.commits
	for i, name := range commitResults {
		if name == a.Result {
			c.results[i].Inc()
		}
	}
	switch {
	case a.Result == "conflict" && a.Other:
		c.other.Inc()
	case a.Result == "conflict":
		c.own.Inc()
	case a.Result == "committed":
		c.prepare.observe(a.Prepare)
		c.sync.observe(a.Sync)
	}
}

// The type hashes counts slow password hashes.
type hashes struct {
	made   counters[string] // by scheme
	waited durations
}

func newHashes() *hashes { return &hashes{made: newCounters(math.MaxInt, "")} }

func (h *hashes) families() []Family {
	return []Family{
		{"ldapd_password_hashes_total", "Slow password hashes that were made.", Count, []string{"scheme"}, seriesOf(h.made, same)},
		{"ldapd_password_wait_seconds", "Time that slow password hashes waited for their turn.", Durations, nil, []Series{h.waited.series()}},
	}
}

// Hash counts a slow password hash.
func (m *Metrics) Hash(scheme string, waited time.Duration) {
	m.hashes.made.of(scheme).Inc()
	m.hashes.waited.observe(waited)
}
