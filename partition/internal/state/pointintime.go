package state

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// A PointInTime says which state of a directory is meant: one of the past, or the
// newest.
type PointInTime struct {
	text     string
	revision table.Revision
	time     time.Time
	name     string // of a checkpoint
}

// Now is the newest state.
var Now = PointInTime{text: "now"}

// ParsePointInTime reads what people write for a moment, everywhere the same: "now", a
// revision as it is printed (r65f8c2a41b-0-1), a time of RFC 3339
// (2026-11-20T10:00:00Z), a generalized time (20261120100000Z), or the name of a
// checkpoint. A time without a fraction is the beginning of its second.
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
	if txn.IsCheckpointName(s) {
		m.name = s
		return m, nil
	}
	return m, fmt.Errorf("%.100q is no moment: want a time (2026-11-20T10:00:00Z or 20261120100000Z), a revision (r65f8c2a41b-0-1), the name of a checkpoint, or now", s)
}

// check refuses times that revisions cannot tell.
func (m PointInTime) check() error {
	if m.time.Before(table.Epoch) {
		return fmt.Errorf("%s is before %s, when the clock of directories begins", m.text, table.Epoch.Format(time.RFC3339))
	}
	return nil
}

// String is the text that the moment was made of.
func (m PointInTime) String() string { return m.text }

// IsNow reports whether the newest state is meant.
func (m PointInTime) IsNow() bool { return m == Now }

// AtPoint returns the state of a moment; Close it. A time that has hardly passed
// is waited for, see txn.DB.AtTime.
func AtPoint(ctx context.Context, p *catalog.Keeper, m PointInTime) (*Snapshot, error) {
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
