package monitor

import (
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// A Report has the figures that cn=monitor shows to exporters made for other servers.
type Report struct {
	Started                 time.Time
	Load                    Load
	Connections             int64 // number of connections since the start
	Received, Sent          int64 // octets
	Entries, References     int64 // returned by searches
	Base, OneLevel, Subtree int64 // searches, by scope
	Blocked                 int64 // operations that had to wait
	Completed, Initiated    [operations]int64
	Results                 map[op.Code]int64
	Binds                   map[string]int64 // successful binds, by mechanism
	Jobs                    []JobState
}

// Kinds returns all kinds of operations.
func Kinds() []Operation {
	all := make([]Operation, operations)
	for i := range all {
		all[i] = Operation(i)
	}
	return all
}

// Report returns the current counts.
func (m *Metrics) Report() *Report {
	r := &Report{Started: m.Started, Binds: map[string]int64{}, Jobs: m.Jobs.States()}
	if l := m.Load(); l != nil {
		r.Load = *l
	}
	r.Connections, r.Received, r.Sent = total(m.Traffic.connections), total(m.Traffic.received), total(m.Traffic.sent)
	r.Entries, r.References = m.Operations.entries.value(), m.Operations.references.value()
	s := &m.Operations.scopes
	r.Base, r.OneLevel, r.Subtree = s[op.BaseObject].value(), s[op.SingleLevel].value(), s[op.WholeSubtree].value()+s[op.Subordinates].value()
	r.Blocked = m.Traffic.queued.value()
	r.Completed, r.Results = m.Operations.completed()
	r.Completed[Unbind], r.Completed[Abandon] = m.Traffic.unbinds.value(), m.Traffic.abandons.value()
	for k := range r.Initiated {
		r.Initiated[k] = r.Completed[k] + int64(r.Load.Running[k]+r.Load.Waiting[k])
	}
	for k, c := range m.Operations.binds.all() {
		if k.code == op.Success {
			r.Binds[k.mechanism] += c.value()
		}
	}
	return r
}

// Operations returns the numbers of operations of all kinds together.
func (r *Report) Operations() (initiated, completed int64) {
	for k := range r.Completed {
		initiated += r.Initiated[k]
		completed += r.Completed[k]
	}
	return initiated, completed
}

// Errors returns the number of operations that ended with an error.
func (r *Report) Errors() (n int64) {
	for c, of := range r.Results {
		switch c {
		case op.Success, op.CompareTrue, op.CompareFalse, op.Referral, op.SASLBindInProgress, op.NoOperation:
		default:
			n += of
		}
	}
	return n
}

// Messages returns the number of messages that were sent: entries, references and
// results.
func (r *Report) Messages() int64 {
	_, completed := r.Operations()
	return r.Entries + r.References + completed - r.Completed[Unbind] - r.Completed[Abandon]
}
