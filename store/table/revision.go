package table

import (
	"cmp"
	"fmt"
	"time"
)

// A Revision is the id of a commit and the timestamp of every cell that the commit wrote.
// It uses 63 bits, so that HBase's signed timestamp is never negative:
//
//	40 bits  milliseconds since 2013-01-01T00:00Z (until 2047)
//	15 bits  slot of the server or branch that wrote it
//	 8 bits  counter
//
// Package revision composes and decomposes revisions. Zero is not a revision.
type Revision uint64

// These are the numbers of bits of the parts of a Revision.
const (
	CounterBits = 8
	SlotBits    = 15
	TimeBits    = 40
)

// Epoch is the origin of the milliseconds of a Revision.
var Epoch = time.Date(2013, 1, 1, 0, 0, 0, 0, time.UTC)

// Time returns the time at which the revision was issued, by the clock of its server.
func (r Revision) Time() time.Time {
	return Epoch.Add(time.Duration(r>>(SlotBits+CounterBits)) * time.Millisecond)
}

// String returns the time, the counter and the slot in hexadecimal.
func (r Revision) String() string {
	const counter, slot = 1<<CounterBits - 1, 1<<SlotBits - 1
	return fmt.Sprintf("r%x-%x-%x", uint64(r>>(SlotBits+CounterBits)), uint64(r&counter), uint64(r>>CounterBits&slot))
}

// FirstBranch is the first slot of branches. Smaller slots belong to servers.
const FirstBranch = 0x4000

// IsStaged reports whether r is a revision of a branch.
func (r Revision) IsStaged() bool { return r>>CounterBits&(1<<SlotBits-1) >= FirstBranch }

// Compare orders revisions as cmp.Compare does.
func (r Revision) Compare(s Revision) int { return cmp.Compare(r, s) }
