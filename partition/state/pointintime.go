package state

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// A PointInTime specifies a state of a directory: a past state or the newest state.
type PointInTime struct {
	text     string
	revision table.Revision
	time     time.Time
	name     string // name of a checkpoint
}

// Now is the newest state.
var Now = PointInTime{text: "now"}

// ParsePointInTime parses a point in time in any of its forms: "now", a revision as
// printed (r65f8c2a41b-0-1), a time of RFC 3339 (2026-11-20T10:00:00Z), a generalized
// time (20261120100000Z), a date (2026-11-20) or a day of the week before today (last
// monday), which stand for the beginning of the day in UTC, a time before now (90m, 36h, 7d),
// or the name of a checkpoint. A time without a fraction is the beginning of its second.
func ParsePointInTime(s string) (PointInTime, error) {
	if s == "now" {
		return Now, nil
	}
	m := PointInTime{text: s}
	var err error
	if m.revision, err = revision.Parse(s); err == nil {
		return m, nil
	}
	if m.time, err = time.Parse(time.RFC3339Nano, s); err == nil {
		return m, m.check()
	}
	if m.time, err = schema.Time([]byte(s)); err == nil {
		return m, m.check()
	}
	if m.time, err = before(s, time.Now().UTC()); err == nil {
		return m, m.check()
	}
	if txn.IsCheckpointName(s) {
		m.name = s
		return m, nil
	}
	return m, fmt.Errorf("%.100q is no moment: want a time (2026-11-20T10:00:00Z, 20261120100000Z, 2026-11-20, last monday), a time before now (7d, 36h), a revision (r65f8c2a41b-0-1), the name of a checkpoint, or now", s)
}

// before parses a date, a day of the week before now, or a duration before now.
func before(s string, now time.Time) (time.Time, error) {
	if date, err := time.Parse(time.DateOnly, s); err == nil {
		return date, nil
	}
	if day, ok := strings.CutPrefix(strings.ToLower(s), "last "); ok {
		for back := 1; back <= 7; back++ {
			if d := now.AddDate(0, 0, -back); strings.ToLower(d.Weekday().String()) == day {
				return d.Truncate(24 * time.Hour), nil
			}
		}
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return time.Time{}, errors.New("no time before now")
	}
	return now.Add(-d), nil
}

// check returns an error for a time that is earlier than any time that a revision can
// represent.
func (m PointInTime) check() error {
	if m.time.Before(table.Epoch) {
		return fmt.Errorf("%s is before %s, when the clock of directories begins", m.text, table.Epoch.Format(time.RFC3339))
	}
	return nil
}

// String returns the text that was parsed.
func (m PointInTime) String() string { return m.text }

// IsNow reports whether m is the newest state.
func (m PointInTime) IsNow() bool { return m == Now }

// Newest returns the newest revision that a state at m can show. The revision is not
// known for a checkpoint or for Now.
func (m PointInTime) Newest() (r table.Revision, known bool) {
	switch {
	case m.revision != 0:
		return m.revision, true
	case !m.time.IsZero():
		return revision.At(m.time), true
	}
	return 0, false
}

// AtPoint returns the state at a point in time. The caller must close the state. For a
// very recent time, AtPoint waits (see txn.DB.AtTime).
func AtPoint(ctx context.Context, p *catalog.Partition, m PointInTime) (*Snapshot, error) {
	switch {
	case m.IsNow():
		return Newest(p), nil
	case m.name != "":
		c, err := p.DB.FindCheckpoint(ctx, m.name)
		if err != nil {
			return nil, err
		}
		return At(ctx, p, c.Revision)
	case m.revision != 0:
		return At(ctx, p, m.revision)
	}
	s, err := p.DB.AtTime(ctx, m.time)
	if err != nil {
		return nil, err
	}
	return Of(ctx, p, s)
}
