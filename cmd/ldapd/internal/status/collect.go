package status

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// Sources are the objects from which each scrape reads the metrics.
type Sources struct {
	Partition    *partition.Partition
	Store        table.Store
	Passwords    *auth.Passwords
	Certificates func() map[string]time.Time  // expiry of each certificate, by file; nil without TLS
	Archive      func() archive.Status        // nil if the store is not archived
	Standby      func() archive.StandbyStatus // nil if the server is no standby
}

// readFor bounds how long a scrape waits for a store.
const readFor = 2 * time.Second

// A reader reads metrics when they are scraped. Each metric has a function, which may
// yield several series.
type reader struct {
	from *Sources
	all  []read
}

type read struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	from func(s *state, yield func(v float64, labels ...string))
}

// A state contains the data that a scrape reads once and uses for all metrics.
type state struct {
	*Sources
	status  txn.Status
	cluster *txn.Cluster // nil if the store does not answer
	engine  *lsm.Metrics // nil if the store is not embedded
	now     time.Time
}

// Collector returns a collector that reads its metrics from s.
func Collector(s *Sources) prometheus.Collector {
	r := &reader{from: s}
	r.addServer()
	r.addCluster()
	r.addCaches()
	r.addViews()
	if _, ok := s.Store.(*lsm.Store); ok {
		r.addEngine()
		r.addArchive()
		r.addStandby()
	}
	return r
}

func (r *reader) add(name, help string, kind prometheus.ValueType, from func(*state, func(float64, ...string)), labels ...string) {
	r.all = append(r.all, read{prometheus.NewDesc("ldapd_"+name, help, labels, nil), kind, from})
}

// gauge adds a metric with one value.
func (r *reader) gauge(name, help string, from func(*state) float64) {
	r.add(name, help, prometheus.GaugeValue, func(s *state, yield func(float64, ...string)) { yield(from(s)) })
}

func (r *reader) counter(name, help string, from func(*state) float64) {
	r.add(name, help, prometheus.CounterValue, func(s *state, yield func(float64, ...string)) { yield(from(s)) })
}

// Describe implements prometheus.Collector.
func (r *reader) Describe(ch chan<- *prometheus.Desc) {
	for _, x := range r.all {
		ch <- x.desc
	}
}

// Collect implements prometheus.Collector.
func (r *reader) Collect(ch chan<- prometheus.Metric) {
	s := r.read()
	for _, x := range r.all {
		x.from(s, func(v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(x.desc, x.kind, v, labels...)
		})
	}
	if s.engine != nil && s.engine.Syncs != nil {
		if h, err := histogram(s.engine.Syncs); err == nil {
			ch <- h
		}
	}
}

func (r *reader) read() *state {
	s := &state{Sources: r.from, now: time.Now(), status: r.from.Partition.DB.Status()}
	ctx, cancel := context.WithTimeout(context.Background(), readFor)
	defer cancel()
	if c, err := r.from.Partition.DB.ReadCluster(ctx, s.now); err == nil {
		s.cluster = c
	}
	if e, ok := r.from.Store.(*lsm.Store); ok {
		m := e.Metrics()
		s.engine = &m
	}
	return s
}

// addServer adds the metrics of this server.
func (r *reader) addServer() {
	r.gauge("head_age_seconds", "Age of the state that is shown: since the heads of the store were read.", func(s *state) float64 { return s.status.HeadAge.Seconds() })
	r.gauge("lease_remaining_seconds", "Time that is left of this server's lease; 0 without one.", func(s *state) float64 { return s.status.Lease.Seconds() })
	r.gauge("clock_lead_seconds", "How far this server's clock leads the store's.", func(s *state) float64 { return s.status.Ahead.Seconds() })
	r.add("ready", "1 if the store can be read (reads), and changed (writes).", prometheus.GaugeValue, func(s *state, yield func(float64, ...string)) {
		yield(one(s.status.Stale == nil && s.status.Broken == nil), "reads")
		yield(one(s.status.Refusal == nil && s.status.Broken == nil), "writes")
	}, "for")
	r.gauge("password_queue", "Slow password hashes that wait for their turn.", func(s *state) float64 { return float64(s.Passwords.Waiting()) })
	r.add("certificate_expiry_timestamp_seconds", "When the certificate in force ends.", prometheus.GaugeValue, func(s *state, yield func(float64, ...string)) {
		if s.Certificates == nil {
			return
		}
		for file, end := range s.Certificates() {
			yield(seconds(end), file)
		}
	}, "file")
	r.counter("gc_removed_versions_total", "Versions that this server's collections have removed.", func(s *state) float64 {
		n, _ := s.Partition.DB.Collected()
		return float64(n)
	})
	r.add("branches", "Branches that are open (or being merged), and that are parked.", prometheus.GaugeValue, func(s *state, yield func(float64, ...string)) {
		open, parked, _ := branch.Count(s.Partition)
		yield(float64(open), "open")
		yield(float64(parked), "parked")
	}, "state")
	r.gauge("branch_oldest_age_seconds", "Time since the base of the oldest open branch, from which on history is kept; 0 without one.", func(s *state) float64 {
		_, _, oldest := branch.Count(s.Partition)
		if oldest.IsZero() {
			return 0
		}
		return max(0, s.now.Sub(oldest).Seconds())
	})
	r.gauge("gc_last_success_timestamp_seconds", "When a collection of this server ended well; 0: not yet.", func(s *state) float64 {
		_, last := s.Partition.DB.Collected()
		return seconds(last)
	})
}

// addCluster adds the metrics that the servers of the store publish.
func (r *reader) addCluster() {
	cluster := func(name, help string, from func(*state, func(float64, ...string)), labels ...string) {
		r.add(name, help, prometheus.GaugeValue, func(s *state, yield func(float64, ...string)) {
			if s.cluster != nil {
				from(s, yield)
			}
		}, labels...)
	}
	cluster("settled_age_seconds", "Age of the newest state to which nothing can be added any more.", func(s *state, yield func(float64, ...string)) {
		if s.status.Shared && !s.cluster.Settled.IsZero() {
			yield(max(0, s.now.Sub(s.cluster.Settled).Seconds()))
		} else {
			yield(0)
		}
	})
	cluster("floor_timestamp_seconds", "The oldest moment that can be read; 0: any.", func(s *state, yield func(float64, ...string)) { yield(seconds(s.cluster.Horizon)) })
	cluster("slots", "Places among the servers of the store, by their state.", func(s *state, yield func(float64, ...string)) {
		n := map[string]int{"open": 0, "recovering": 0, "closed": 0, "free": 0}
		for _, x := range s.cluster.Slots {
			n[x.State]++
		}
		for state, count := range n {
			yield(float64(count), state)
		}
	}, "state")
	cluster("undecided_commits", "Commits under way that heads have passed.", func(s *state, yield func(float64, ...string)) {
		n := 0
		for _, x := range s.cluster.Slots {
			n += x.Undecided
		}
		yield(float64(n))
	})
	cluster("configuration_behind", "Open slots that have not taken up the newest configuration.", func(s *state, yield func(float64, ...string)) {
		n := 0
		for _, x := range s.cluster.Slots {
			if x.State == "open" && x.Config != s.cluster.Config {
				n++
			}
		}
		yield(float64(n))
	})
}

func (r *reader) addCaches() {
	add := func(name, help string, kind prometheus.ValueType, own func(cache.Stats) uint64, blocks func(*lsm.Metrics) int64) {
		r.add(name, help, kind, func(s *state, yield func(float64, ...string)) {
			for _, c := range s.Partition.Catalog.Load().Cache.Stats() {
				yield(float64(own(c)), c.Name)
			}
			if s.engine != nil {
				yield(float64(blocks(s.engine)), "blocks")
			}
		}, "cache")
	}
	add("cache_hits_total", "Looks into a cache that found something. They start again when the schema changes.", prometheus.CounterValue,
		func(c cache.Stats) uint64 { return c.Hits }, func(m *lsm.Metrics) int64 { return m.CacheHits })
	add("cache_misses_total", "Looks into a cache that found nothing. They start again when the schema changes.", prometheus.CounterValue,
		func(c cache.Stats) uint64 { return c.Misses }, func(m *lsm.Metrics) int64 { return m.CacheMisses })
	add("cache_bytes", "Estimated memory of a cache.", prometheus.GaugeValue,
		func(c cache.Stats) uint64 { return c.Bytes }, func(m *lsm.Metrics) int64 { return m.CacheBytes })
}

// addViews adds the metrics of views.
func (r *reader) addViews() {
	r.gauge("views_lag_entries", "Entries that commits touched beyond what the slowest view has; 0 if this server follows no views. From 50000 on updates wait.",
		func(s *state) float64 { return float64(materialized.ProgressOf(s.Partition).Entries) })
	r.gauge("views_lag_seconds", "Time since the first commit that the slowest view does not show yet, or a little longer; 0 if there is none.",
		func(s *state) float64 { return materialized.ProgressOf(s.Partition).Age.Seconds() })
	r.counter("views_steps_total", "Steps of views that this server made.", func(s *state) float64 { return float64(materialized.ProgressOf(s.Partition).Steps) })
	r.counter("views_errors_total", "Failures to bring views up to date. They are tried again.", func(s *state) float64 { return float64(materialized.ProgressOf(s.Partition).Errors) })
}

// addEngine adds the metrics of the embedded engine.
func (r *reader) addEngine() {
	r.add("store_bytes", "Octets on the disk.", prometheus.GaugeValue, func(s *state, yield func(float64, ...string)) {
		yield(float64(s.engine.DiskBytes-min(s.engine.DiskBytes, s.engine.LogBytes)), "tables")
		yield(float64(s.engine.LogBytes), "log")
	}, "kind")
	r.add("store_disk_bytes", "The disk of the store.", prometheus.GaugeValue, func(s *state, yield func(float64, ...string)) {
		if s.engine.DiskTotal > 0 {
			yield(float64(s.engine.DiskTotal), "total")
			yield(float64(s.engine.DiskFree), "free")
		}
	}, "kind")
	r.gauge("store_compaction_debt_bytes", "Octets that compactions have still to write.", func(s *state) float64 { return float64(s.engine.CompactionDebt) })
	r.gauge("store_read_amplification", "Tables that a read may have to look into.", func(s *state) float64 { return float64(s.engine.ReadAmplification) })
	r.counter("store_stalls_total", "Times that writes waited for compactions.", func(s *state) float64 { return float64(s.engine.Stalls) })
	r.all = append(r.all, read{syncs, prometheus.UntypedValue, func(*state, func(float64, ...string)) {}})
}

// addArchive adds the metrics of the archive. They have no series if there is no
// archive.
func (r *reader) addArchive() {
	add := func(name, help string, kind prometheus.ValueType, from func(*archive.Status, time.Time, func(float64, ...string)), labels ...string) {
		r.add(name, help, kind, func(s *state, yield func(float64, ...string)) {
			if s.Archive != nil {
				a := s.Archive()
				from(&a, s.now, yield)
			}
		}, labels...)
	}
	add("archive_last_success_timestamp_seconds", "When something was archived well last: all of the log (log), or a base; 0: not yet.", prometheus.GaugeValue,
		func(a *archive.Status, _ time.Time, yield func(float64, ...string)) {
			yield(seconds(a.CaughtUp), "log")
			yield(seconds(a.Based), "base")
		}, "kind")
	add("archive_lag_seconds", "Age of the oldest commit that may not be archived; absent until anything is.", prometheus.GaugeValue,
		func(a *archive.Status, now time.Time, yield func(float64, ...string)) {
			if !a.CaughtUp.IsZero() {
				yield(max(0, now.Sub(a.CaughtUp).Seconds()))
			}
		})
	add("archive_bytes_total", "Octets sent to the archive.", prometheus.CounterValue,
		func(a *archive.Status, _ time.Time, yield func(float64, ...string)) {
			yield(float64(a.LogBytes), "log")
			yield(float64(a.BaseBytes), "base")
		}, "kind")
	add("archive_failures_total", "Attempts to archive that failed.", prometheus.CounterValue,
		func(a *archive.Status, _ time.Time, yield func(float64, ...string)) { yield(float64(a.Failures)) })
	add("drill_last_success_timestamp_seconds", "When a drill restored the archive and found it equal to the store; 0: not yet.", prometheus.GaugeValue,
		func(a *archive.Status, _ time.Time, yield func(float64, ...string)) { yield(seconds(a.Drilled)) })
}

// addStandby adds the metrics of a standby. They have no series if the server is no
// standby.
func (r *reader) addStandby() {
	add := func(name, help string, kind prometheus.ValueType, from func(*archive.StandbyStatus, time.Time, func(float64, ...string))) {
		r.add(name, help, kind, func(s *state, yield func(float64, ...string)) {
			if s.Standby != nil {
				b := s.Standby()
				from(&b, s.now, yield)
			}
		})
	}
	add("standby_lag_seconds", "Time since the standby had applied everything in its archive, or since it was started.", prometheus.GaugeValue,
		func(b *archive.StandbyStatus, now time.Time, yield func(float64, ...string)) {
			last := b.CaughtUp
			if last.IsZero() {
				last = b.Since
			}
			yield(max(0, now.Sub(last).Seconds()))
		})
	add("standby_newest_timestamp_seconds", "When the newest commit that the standby shows was made.", prometheus.GaugeValue,
		func(b *archive.StandbyStatus, _ time.Time, yield func(float64, ...string)) {
			yield(seconds(b.Newest.Time()))
		})
	add("standby_failures_total", "Attempts to follow the archive that failed.", prometheus.CounterValue,
		func(b *archive.StandbyStatus, _ time.Time, yield func(float64, ...string)) {
			yield(float64(b.Failures))
		})
}

var syncs = prometheus.NewDesc("ldapd_store_sync_seconds", "Time that the log took to sync.", nil, nil)

// histogram returns a histogram of the engine under a name of this package.
func histogram(m prometheus.Metric) (prometheus.Metric, error) {
	var d dto.Metric
	if err := m.Write(&d); err != nil {
		return nil, err
	}
	h := d.GetHistogram()
	buckets := map[float64]uint64{}
	for _, b := range h.GetBucket() {
		buckets[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	return prometheus.NewConstHistogram(syncs, h.GetSampleCount(), h.GetSampleSum(), buckets)
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
