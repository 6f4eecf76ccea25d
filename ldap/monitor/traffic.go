package monitor

import "math"

// Traffic counts connections and the octets that they transfer.
type Traffic struct {
	connections, received, sent counters[string] // by listener
	refused                     counters[Refusal]
	failures                    counters[Failure]
	handshakes                  counters[handshake]
	unbinds, abandons           Counter
	queued                      Counter
}

// A handshake is the version and the result of a TLS handshake.
type handshake struct{ version, result string }

// NewTraffic returns a Traffic.
func NewTraffic() *Traffic {
	perListener := func() counters[string] { return newCounters(math.MaxInt, "") }
	return &Traffic{
		connections: perListener(), received: perListener(), sent: perListener(),
		refused:    newCounters(math.MaxInt, Refusal("")),
		failures:   newCounters(math.MaxInt, Failure("")),
		handshakes: newCounters(math.MaxInt, handshake{}),
	}
}

func (t *Traffic) families() []Family {
	return []Family{
		{"ldapd_connections_total", "Connections taken.", Count, []string{"listener"}, seriesOf(t.connections, same)},
		{"ldapd_received_bytes_total", "Octets of requests.", Count, []string{"listener"}, seriesOf(t.received, same)},
		{"ldapd_sent_bytes_total", "Octets of answers, before encryption.", Count, []string{"listener"}, seriesOf(t.sent, same)},
		{"ldapd_connections_refused_total", "Connections that were not taken.", Count, []string{"reason"},
			seriesOf(t.refused, func(r Refusal) []string { return []string{string(r)} })},
		{"ldapd_connection_failures_total", "Connections that ended badly.", Count, []string{"reason"},
			seriesOf(t.failures, func(f Failure) []string { return []string{string(f)} })},
		{"ldapd_tls_handshakes_total", "TLS handshakes.", Count, []string{"version", "result"},
			seriesOf(t.handshakes, func(h handshake) []string { return []string{h.version, h.result} })},
		{"ldapd_unanswered_operations_total", "Operations that have no answer.", Count, []string{"op"},
			[]Series{t.unbinds.series(Unbind.String()), t.abandons.series(Abandon.String())}},
		{"ldapd_operations_queued_total", "Operations that had to wait since as many as may ran on their connection.", Count, nil, []Series{t.queued.series()}},
	}
}

// A Listener has the counters of the connections of one listener.
type Listener struct {
	URL                         string
	Connections, Received, Sent *Counter
}

// Listener returns the counters of a listener.
func (t *Traffic) Listener(url string) *Listener {
	return &Listener{url, t.connections.of(url), t.received.of(url), t.sent.of(url)}
}

// Refused counts a refused connection.
func (t *Traffic) Refused(r Refusal) { t.refused.of(r).Inc() }

// Failed counts a connection that ended badly.
func (t *Traffic) Failed(f Failure) { t.failures.of(f).Inc() }

// Handshake counts a TLS handshake. The version of a failed handshake is "none".
func (t *Traffic) Handshake(version, result string) {
	t.handshakes.of(handshake{version, result}).Inc()
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

// families returns the metrics of a load. l may be nil.
func (l *Load) families() []Family {
	connections := Family{"ldapd_connections", "Connections that are open.", Gauge, []string{"listener", "tls"}, nil}
	persistent := Family{"ldapd_persistent_searches", "Searches that last.", Gauge, []string{"listener"}, nil}
	running := Family{"ldapd_operations_running", "Operations that run.", Gauge, []string{"op"}, nil}
	waiting := Family{"ldapd_operations_waiting", "Operations that wait until fewer run on their connection.", Gauge, []string{"op"}, nil}
	limits := Family{"ldapd_connections_limit", "Connections that are taken at most.", Gauge, nil, nil}
	add := func(f *Family, n int, labels ...string) {
		f.Series = append(f.Series, Series{Labels: labels, Value: float64(n)})
	}
	if l != nil {
		for _, x := range l.Listeners {
			add(&connections, x.Clear, x.URL, "false")
			add(&connections, x.TLS, x.URL, "true")
			add(&persistent, x.Persistent, x.URL)
		}
		for _, k := range Kinds() {
			add(&running, l.Running[k], k.String())
			add(&waiting, l.Waiting[k], k.String())
		}
		add(&limits, l.MaxConnections)
	}
	return []Family{connections, persistent, running, waiting, limits}
}
