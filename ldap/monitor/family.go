package monitor

// A Kind is the kind of a metric.
type Kind int

// The kinds of metrics.
const (
	Count     Kind = iota // a counter
	Gauge                 // a value of now
	Durations             // a histogram of seconds
)

// A Family is a metric with the values that it has now.
type Family struct {
	Name, Help string
	Kind       Kind
	Labels     []string // their names
	Series     []Series // one for each set of labels
}

// A Series is the value of a metric for one set of labels.
type Series struct {
	Labels []string // in the order of their names
	Value  float64  // of Durations, their sum
	// Count is how many Durations there are, and Buckets is how many of them are not longer than a bound.
	Count   uint64
	Buckets map[float64]uint64
}

// Families returns all metrics of a process except those that package scrape adds.
func (m *Metrics) Families() []Family {
	all := []Family{{"ldapd_build_info", "1, with the version of the program.", Gauge, []string{"version"}, []Series{{Labels: []string{m.version}, Value: 1}}}}
	all = append(all, m.Operations.families()...)
	all = append(all, m.Traffic.families()...)
	all = append(all, m.Jobs.families()...)
	all = append(all, m.commits.families()...)
	all = append(all, m.hashes.families()...)
	return append(all, m.Load().families()...)
}
