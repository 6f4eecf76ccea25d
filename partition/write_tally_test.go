package partition_test

import (
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// TestTally checks that uses of keys are counted apart, that a use no longer counts when its time is over, and that
// such uses are removed when another use is recorded.
func TestTally(t *testing.T) {
	p, err := partition.Open(t.Context(), tabletest.NewMem(), partition.Options{Format: *storeFormat, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(t.Context())
	a := &write.Tally{Partition: p, Key: [16]byte{1}, Within: time.Hour}
	b := &write.Tally{Partition: p, Key: [16]byte{1, 2}, Within: time.Hour} // in the same row
	now := &write.Tally{Partition: p, Key: [16]byte{1, 3}}                  // in the same row too; its uses never count
	check := func(what string, y *write.Tally, want int) {
		t.Helper()
		if got, err := y.Recorded(t.Context()); err != nil || len(got) != want {
			t.Errorf("%s: %d uses, not %d (%v)", what, len(got), want, err)
		}
	}
	for _, y := range []*write.Tally{a, a, b} {
		if err := y.Record(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check("a", a, 2)
	check("b", b, 1)
	if err := now.Record(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("what is over", now, 0)
	check("a, removed", a, 0)
	check("b, removed", b, 0)
}
