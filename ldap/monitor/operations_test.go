package monitor

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

func aSearch() *Observation {
	return &Observation{
		Message: &op.Message{Request: &op.Search{}}, Result: &op.Result{}, Took: time.Millisecond, Entries: 1,
		Candidates: 2, Rows: 1, Indexes: []Use{{Attribute: "uid", Kind: "value"}, {Attribute: "cn", Kind: "scan"}},
	}
}

// TestObserveAllocatesNothing checks that counting an operation does not allocate.
func TestObserveAllocatesNothing(t *testing.T) {
	m, o := New("test"), aSearch()
	m.Observe(o)
	if n := testing.AllocsPerRun(1000, func() { m.Observe(o) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSeriesAreBounded checks that the number of series is bounded, whatever names
// clients and directories invent.
func TestSeriesAreBounded(t *testing.T) {
	m, o := New("test"), aSearch()
	for i := range 5000 {
		o.Indexes = []Use{{Attribute: fmt.Sprint("a", i), Kind: "value"}}
		o.Message.Request = &op.Search{}
		m.Observe(o)
		o.Message.Request = &op.Bind{SASL: true, Mechanism: fmt.Sprint("m", i)}
		o.Result.Code = op.Code(i)
		m.Observe(o)
	}
	series := 0
	for _, f := range m.Families() {
		for _, x := range f.Series {
			series++
			if f.Kind == Durations {
				series += len(x.Buckets) + 2
			}
		}
	}
	if series > 3000 {
		t.Errorf("%d series", series)
	}
	if m.Operations.lookups.of(Use{Attribute: "late", Kind: "value"}) != m.Operations.lookups.of(Use{Attribute: "later", Kind: "value"}) {
		t.Error("late ones have series of their own")
	}
}

func BenchmarkObserve(b *testing.B) {
	m, o := New("test"), aSearch()
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(o)
	}
}
