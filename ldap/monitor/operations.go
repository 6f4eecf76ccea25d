package monitor

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// Operations counts operations when they end. Its method Observe is an Observer.
type Operations struct {
	durations [operations]prometheus.Histogram
	slow      [operations]prometheus.Counter
	results   *family[outcome]
	binds     *family[bound]
	lookups   *family[Use]

	entries, references, candidates, rows, scans prometheus.Counter
	scopes                                       [4]prometheus.Counter
}

// An outcome is the kind of an operation, and its result code.
type outcome struct {
	operation Operation
	code      op.Code
}

// bound is the mechanism and the result code of a bind.
type bound struct {
	mechanism string
	code      op.Code
}

// buckets are the upper bounds of the buckets of durations, in seconds.
var buckets = []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, .1, .25, 1, 5, 10, 30}

// These are the largest numbers of children of metrics whose labels come from clients or
// from the directory.
const (
	mostOutcomes = 400
	mostBinds    = 150
	mostLookups  = 500
)

const others = "other"

func newOperations(r prometheus.Registerer) *Operations {
	m := &Operations{
		results: newFamily(r, "ldapd_operations_total", "Operations that ended, by their result.", mostOutcomes,
			outcome{Extended, op.Other}, func(k outcome) []string { return []string{k.operation.String(), k.code.Name()} }, "op", "result"),
		binds: newFamily(r, "ldapd_binds_total", "Binds by their mechanism and result.", mostBinds,
			bound{others, op.Other}, func(k bound) []string { return []string{k.mechanism, k.code.Name()} }, "mechanism", "result"),
		lookups: newFamily(r, "ldapd_index_lookups_total", "Searches that looked in an index, and how: value, range, scan, presence.", mostLookups,
			Use{Attribute: others, Kind: others}, func(k Use) []string { return []string{k.Attribute, k.Kind} }, "attribute", "kind"),
		entries:    counter(r, "ldapd_search_entries_total", "Entries that searches returned."),
		references: counter(r, "ldapd_search_references_total", "References that searches returned."),
		candidates: counter(r, "ldapd_search_candidates_total", "Entries that searches looked at."),
		rows:       counter(r, "ldapd_search_rows_total", "Rows of the tree that searches ruled out without reading their entries."),
		scans:      counter(r, "ldapd_search_scans_total", "Searches that no index served."),
	}
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ldapd_operation_duration_seconds", Help: "Time from reading a request to its answer.", Buckets: buckets}, []string{"op"})
	slow := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ldapd_slow_operations_total", Help: "Operations that took as long as log.slow or longer."}, []string{"op"})
	r.MustRegister(durations, slow)
	scopes := vec("ldapd_searches_total", "Searches by their scope.", "scope")
	r.MustRegister(scopes)
	for i, name := range []string{"base", "one", "sub", "subordinates"} {
		m.scopes[i] = scopes.WithLabelValues(name)
	}
	for k := range m.durations {
		name := Operation(k).String()
		if k == int(Unbind) || k == int(Abandon) {
			continue // these operations have no answer
		}
		m.durations[k] = durations.WithLabelValues(name).(prometheus.Histogram)
		m.slow[k] = slow.WithLabelValues(name)
	}
	return m
}

func counter(r prometheus.Registerer, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	r.MustRegister(c)
	return c
}

// Observe counts an operation.
func (m *Operations) Observe(o *Observation) {
	k := o.Operation()
	m.results.of(outcome{k, o.Result.Code}).Inc()
	if b, ok := o.Message.Request.(*op.Bind); ok {
		m.binds.of(bound{mechanism(b, o.Result.Code), o.Result.Code}).Inc()
	}
	if o.Answered {
		return
	}
	if !o.Lasts {
		m.durations[k].Observe(o.Took.Seconds())
	}
	if o.Slow {
		m.slow[k].Inc()
	}
	if k == Search {
		m.observeSearch(o)
	}
}

func (m *Operations) observeSearch(o *Observation) {
	if s := o.Message.Request.(*op.Search).Scope; int(s) < len(m.scopes) {
		m.scopes[s].Inc()
	}
	add(m.entries, o.Entries)
	add(m.references, o.References)
	add(m.candidates, o.Candidates)
	add(m.rows, o.Rows)
	add(m.scans, o.Scans)
	for _, u := range o.Indexes {
		m.lookups.of(u).Inc()
	}
}

func add(c prometheus.Counter, n int) {
	if n > 0 {
		c.Add(float64(n))
	}
}

// mechanism returns the label for the mechanism of a bind. If the result of a SASL bind is
// authMethodNotSupported, the label is "other", because clients could invent any number
// of names.
func mechanism(b *op.Bind, c op.Code) string {
	switch {
	case b.SASL && c == op.AuthMethodNotSupported:
		return others
	case b.SASL:
		return strings.ToUpper(b.Mechanism)
	case b.Name == "" && len(b.Password) == 0:
		return "anonymous"
	}
	return "simple"
}

// completed returns the numbers of operations that have ended, by kind and by result
// code.
func (m *Operations) completed() (byKind [operations]int64, byCode map[op.Code]int64) {
	byCode = map[op.Code]int64{}
	for k, c := range *m.results.children.Load() {
		n := value(c)
		byKind[k.operation] += n
		byCode[k.code] += n
	}
	return byKind, byCode
}

// value returns the value of a counter.
func value(c prometheus.Metric) int64 {
	var d dto.Metric
	if c.Write(&d) != nil {
		return 0
	}
	return int64(d.GetCounter().GetValue())
}

// sum returns the sum of all counters of a vector.
func sum(v *prometheus.CounterVec) (n int64) {
	ch := make(chan prometheus.Metric)
	go func() {
		v.Collect(ch)
		close(ch)
	}()
	for m := range ch {
		n += value(m)
	}
	return n
}
