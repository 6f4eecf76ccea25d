package accountlog

import (
	"testing"
	"time"
)

// TestCeiling checks that the ceiling of durations is longer than nearly all of the most
// recent durations, but not much longer.
func TestCeiling(t *testing.T) {
	var d durations
	if c := d.ceiling(); c != 0 {
		t.Errorf("%s before the first bind", c)
	}
	for i := range 1000 {
		took := 10*time.Millisecond + time.Duration(i%10)*200*time.Microsecond
		if i%10 == 0 {
			took = time.Minute // now and then a bind takes long
		}
		d.add(took)
	}
	if c := d.ceiling(); c < 13*time.Millisecond || c > 20*time.Millisecond {
		t.Errorf("binds take 10 to 12 ms, and are answered after %s", c)
	}
	for range 64 {
		d.add(2 * time.Second)
	}
	if c := d.ceiling(); c != maxPace {
		t.Errorf("binds take 2 s, and are answered after %s", c)
	}
}

// TestPace checks that a bind that is refused at once is answered only after the time that
// refused binds usually take.
func TestPace(t *testing.T) {
	var p Pace
	const usual = 20 * time.Millisecond
	for range 64 {
		p.recent.add(usual)
	}
	begun := time.Now()
	if err := p.Wait(t.Context(), begun); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < usual {
		t.Errorf("answered after %s", took)
	}
}
