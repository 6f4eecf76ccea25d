package monitor

import (
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// Operations counts operations when they end. Its method Observe is an Observer.
type Operations struct {
	took    [operations]durations
	slow    [operations]Counter
	results counters[outcome]
	binds   counters[bound]
	lookups counters[Use]

	entries, references, candidates, rows, scans Counter
	scopes                                       [len(scopeNames)]Counter
}

var scopeNames = [...]string{"base", "one", "sub", "subordinates"}

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

// These are the largest numbers of children of metrics whose labels come from clients or
// from the directory.
const (
	mostOutcomes = 400
	mostBinds    = 150
	mostLookups  = 500
)

const others = "other"

func newOperations() *Operations {
	return &Operations{
		results: newCounters(mostOutcomes, outcome{Extended, op.Other}),
		binds:   newCounters(mostBinds, bound{others, op.Other}),
		lookups: newCounters(mostLookups, Use{Attribute: others, Kind: others}),
	}
}

func (m *Operations) families() []Family {
	counter := func(name, help string, c *Counter) Family {
		return Family{name, help, Count, nil, []Series{c.series()}}
	}
	took := Family{"ldapd_operation_duration_seconds", "Time from reading a request to its answer.", Durations, []string{"op"}, nil}
	slow := Family{"ldapd_slow_operations_total", "Operations that took as long as log.slow or longer.", Count, []string{"op"}, nil}
	for _, k := range Kinds() {
		if k == Unbind || k == Abandon {
			continue // these operations have no answer
		}
		took.Series = append(took.Series, m.took[k].series(k.String()))
		slow.Series = append(slow.Series, m.slow[k].series(k.String()))
	}
	scopes := Family{"ldapd_searches_total", "Searches by their scope.", Count, []string{"scope"}, nil}
	for i, name := range scopeNames {
		scopes.Series = append(scopes.Series, m.scopes[i].series(name))
	}
	return []Family{
		{"ldapd_operations_total", "Operations that ended, by their result.", Count, []string{"op", "result"},
			seriesOf(m.results, func(k outcome) []string { return []string{k.operation.String(), k.code.Name()} })},
		{"ldapd_binds_total", "Binds by their mechanism and result.", Count, []string{"mechanism", "result"},
			seriesOf(m.binds, func(k bound) []string { return []string{k.mechanism, k.code.Name()} })},
		{"ldapd_index_lookups_total", "Searches that looked in an index, and how: value, range, scan, presence.", Count, []string{"attribute", "kind"},
			seriesOf(m.lookups, func(k Use) []string { return []string{k.Attribute, k.Kind} })},
		counter("ldapd_search_entries_total", "Entries that searches returned.", &m.entries),
		counter("ldapd_search_references_total", "References that searches returned.", &m.references),
		counter("ldapd_search_candidates_total", "Entries that searches looked at.", &m.candidates),
		counter("ldapd_search_rows_total", "Rows of the tree that searches ruled out without reading their entries.", &m.rows),
		counter("ldapd_search_scans_total", "Searches that no index served.", &m.scans),
		took, slow, scopes,
	}
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
		m.took[k].observe(o.Took)
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
	m.entries.Add(o.Entries)
	m.references.Add(o.References)
	m.candidates.Add(o.Candidates)
	m.rows.Add(o.Rows)
	m.scans.Add(o.Scans)
	for _, u := range o.Indexes {
		m.lookups.of(u).Inc()
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
	for k, c := range m.results.all() {
		n := c.value()
		byKind[k.operation] += n
		byCode[k.code] += n
	}
	return byKind, byCode
}
