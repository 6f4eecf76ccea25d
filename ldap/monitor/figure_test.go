package monitor

import "testing"

// TestFigures checks that a figure is the same after it was written and parsed, and its text with a unit.
func TestFigures(t *testing.T) {
	for _, c := range []struct {
		Figure
		line, name, text string
	}{
		{Figure{"store_bytes", `kind="tables"`, 5 << 20}, `store_bytes{kind="tables"} 5242880`, "store", "5 MiB"},
		{Figure{"store_disk_bytes", "", 7}, "store_disk_bytes 7", "store_disk", "7 octets"},
		{Figure{"head_age_seconds", "", 0.25}, "head_age_seconds 0.25", "head_age", "250ms"},
		{Figure{"gc_last_success_timestamp_seconds", "", 0}, "gc_last_success_timestamp_seconds 0", "gc_last_success", "never"},
		{Figure{"floor_timestamp_seconds", "", 86400}, "floor_timestamp_seconds 86400", "floor", "1970-01-02 00:00:00"},
		{Figure{"cache_hit_ratio", `cache="a b",of="}{ 1"`, 0.5}, `cache_hit_ratio{cache="a b",of="}{ 1"} 0.5`, "cache_hit", "50 %"},
		{Figure{"store_stalls_total", "", 3}, "store_stalls_total 3", "store_stalls", "3 times"},
	} {
		if got := c.String(); got != c.line {
			t.Errorf("written as %s, want %s", got, c.line)
		}
		if f, err := ParseFigure(c.line); f != c.Figure || err != nil {
			t.Errorf("%s parsed as %+v, %v", c.line, f, err)
		}
		if name, text := c.InUnit(); name != c.name || text != c.text {
			t.Errorf("%s is %q, %q; want %q, %q", c.line, name, text, c.name, c.text)
		}
	}
	for _, line := range []string{"", "store_bytes", "store_bytes many"} {
		if f, err := ParseFigure(line); err == nil {
			t.Errorf("%q parsed as %+v", line, f)
		}
	}
}
