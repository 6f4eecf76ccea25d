package monitor

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Traffic counts connections and the octets that they transfer.
type Traffic struct {
	connections, received, sent *prometheus.CounterVec // by listener
	refused                     *prometheus.CounterVec // by reason
	failures                    *prometheus.CounterVec // by reason
	handshakes                  *prometheus.CounterVec // by version and result
	unbinds, abandons           prometheus.Counter
	queued                      prometheus.Counter
}

// NewTraffic returns a Traffic. If r is not nil, NewTraffic registers the metrics with
// r.
func NewTraffic(r prometheus.Registerer) *Traffic {
	t := &Traffic{
		connections: vec("ldapd_connections_total", "Connections taken.", "listener"),
		received:    vec("ldapd_received_bytes_total", "Octets of requests.", "listener"),
		sent:        vec("ldapd_sent_bytes_total", "Octets of answers, before encryption.", "listener"),
		refused:     vec("ldapd_connections_refused_total", "Connections that were not taken.", "reason"),
		failures:    vec("ldapd_connection_failures_total", "Connections that ended badly.", "reason"),
		handshakes:  vec("ldapd_tls_handshakes_total", "TLS handshakes.", "version", "result"),
	}
	unanswered := vec("ldapd_unanswered_operations_total", "Operations that have no answer.", "op")
	t.unbinds, t.abandons = unanswered.WithLabelValues(Unbind.String()), unanswered.WithLabelValues(Abandon.String())
	t.queued = prometheus.NewCounter(prometheus.CounterOpts{Name: "ldapd_operations_queued_total", Help: "Operations that had to wait since as many as may ran on their connection."})
	if r != nil {
		r.MustRegister(unanswered, t.queued, t.connections, t.received, t.sent, t.refused, t.failures, t.handshakes)
	}
	return t
}

func vec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// A Listener has the counters of the connections of one listener.
type Listener struct {
	URL                         string
	Connections, Received, Sent prometheus.Counter
}

// Listener returns the counters of a listener.
func (t *Traffic) Listener(url string) *Listener {
	return &Listener{url, t.connections.WithLabelValues(url), t.received.WithLabelValues(url), t.sent.WithLabelValues(url)}
}

// Refused counts a refused connection.
func (t *Traffic) Refused(r Refusal) { t.refused.WithLabelValues(string(r)).Inc() }

// Failed counts a connection that ended badly.
func (t *Traffic) Failed(f Failure) { t.failures.WithLabelValues(string(f)).Inc() }

// Handshake counts a TLS handshake. The version of a failed handshake is "none".
func (t *Traffic) Handshake(version, result string) {
	t.handshakes.WithLabelValues(version, result).Inc()
}

// Unanswered counts an operation that has no answer.
func (t *Traffic) Unanswered(k Operation) {
	if k == Unbind {
		t.unbinds.Inc()
	} else {
		t.abandons.Inc()
	}
}

// Queued counts an operation that had to wait before it began.
func (t *Traffic) Queued() { t.queued.Inc() }

// A Refusal is the reason why a connection was refused.
type Refusal string

// The reasons for refusals.
const (
	RefusedLimit    Refusal = "limit"   // the server has as many connections as allowed
	RefusedAddress  Refusal = "address" // the address has as many connections as allowed
	RefusedShutdown Refusal = "shutdown"
)

// A Failure is the reason why a connection ended badly.
type Failure string

// The reasons for failures.
const (
	FailedProtocol Failure = "protocol" // the client sent something that is not LDAP
	FailedTLS      Failure = "tls"
	FailedSlow     Failure = "slow" // the client did not read its answers in time
	FailedIdle     Failure = "idle"
	FailedRead     Failure = "read"
	FailedPanic    Failure = "panic"
)

// A Load is the current load of a server.
type Load struct {
	Listeners        []ListenerLoad
	Running, Waiting [operations]int // numbers of operations, by kind
	MaxConnections   int
	Writing          int // connections to which a write is in progress
	Busy             int // connections with operations
	Blocked          int // connections with waiting operations
}

// A ListenerLoad is the current load of one listener.
type ListenerLoad struct {
	URL        string
	Clear, TLS int // numbers of connections without and with TLS
	Persistent int // persistent searches
}

// Connections returns the number of connections of all listeners.
func (l *Load) Connections() (n int) {
	for _, x := range l.Listeners {
		n += x.Clear + x.TLS
	}
	return n
}

// All returns the numbers of running and waiting operations of all kinds together.
func (l *Load) All() (running, waiting int) {
	for k := range l.Running {
		running += l.Running[k]
		waiting += l.Waiting[k]
	}
	return running, waiting
}

// loadMetrics reads a Load when the metrics are scraped.
type loadMetrics struct {
	load                                              func() *Load
	connections, persistent, running, waiting, limits *prometheus.Desc
}

func newLoadMetrics(load func() *Load) *loadMetrics {
	return &loadMetrics{
		load:        load,
		connections: desc("ldapd_connections", "Connections that are open.", "listener", "tls"),
		persistent:  desc("ldapd_persistent_searches", "Searches that last.", "listener"),
		running:     desc("ldapd_operations_running", "Operations that run.", "op"),
		waiting:     desc("ldapd_operations_waiting", "Operations that wait until fewer run on their connection.", "op"),
		limits:      desc("ldapd_connections_limit", "Connections that are taken at most."),
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (m *loadMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.connections, m.persistent, m.running, m.waiting, m.limits} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *loadMetrics) Collect(ch chan<- prometheus.Metric) {
	l := m.load()
	if l == nil {
		return
	}
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	for _, x := range l.Listeners {
		gauge(m.connections, x.Clear, x.URL, "false")
		gauge(m.connections, x.TLS, x.URL, "true")
		gauge(m.persistent, x.Persistent, x.URL)
	}
	for k := range l.Running {
		gauge(m.running, l.Running[k], Operation(k).String())
		gauge(m.waiting, l.Waiting[k], Operation(k).String())
	}
	gauge(m.limits, l.MaxConnections)
}
