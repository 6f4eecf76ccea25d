// Package revision provides the ids of commits, the clock that issues them, and the
// vector that determines which commits a reader sees.
//
// A revision id ([table.Revision]) is the timestamp of every cell that its commit wrote.
// It consists of a time, the slot of the server that wrote the commit, and a counter.
//
// A [Clock] issues ids above all ids that its server has seen (a hybrid logical clock),
// so that ids respect causality even if the wall clocks of servers differ.
//
// Every server that writes has a [Slot] and publishes a [Cell] for it in one row of the store.
// The cell contains the revision up to which the server's commits are visible (the head),
// and the exceptions below the head. All cells, read at once, form a [Vector], which is
// one atomic snapshot of the whole cluster. When a slot is freed, an [Archive] of its
// holder's commits is kept.
package revision

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	counterBits = table.CounterBits
	slotBits    = table.SlotBits
	timeBits    = table.TimeBits

	maxCounter = 1<<counterBits - 1
	maxTime    = 1<<timeBits - 1

	// MaxSlot is the largest slot number.
	MaxSlot = 1<<slotBits - 1
	// FirstBranch is the first slot of branches. Smaller slots belong to servers, so the
	// slot in a revision shows whether the revision belongs to a branch.
	FirstBranch Slot = table.FirstBranch
	// Last is the largest possible revision.
	Last table.Revision = 1<<(timeBits+slotBits+counterBits) - 1
)

// A Slot is the number of a writing server of a store, or of a branch. Slot 0 belongs to
// no server.
type Slot uint16

// OnlySlot is the slot of an embedded store's only writer.
const OnlySlot Slot = 1

// Make composes an id. A time or slot that is too large is replaced by the largest
// possible value, and a negative time by zero.
func Make(ms int64, s Slot, counter uint8) table.Revision {
	ms = min(max(ms, 0), maxTime)
	s = min(s, MaxSlot)
	return table.Revision(ms)<<(slotBits+counterBits) | table.Revision(s)<<counterBits | table.Revision(counter)
}

// Millis returns an id's time in milliseconds since table.Epoch.
func Millis(r table.Revision) int64 { return int64(r >> (slotBits + counterBits)) }

// SlotOf returns the slot that issued an id.
func SlotOf(r table.Revision) Slot { return Slot(r>>counterBits) & MaxSlot }

// IsBranch reports whether the slot belongs to a branch.
func (s Slot) IsBranch() bool { return s >= FirstBranch }

// Counter returns the part of an id that distinguishes ids of one slot and millisecond.
func Counter(r table.Revision) uint8 { return uint8(r) }

// At returns the largest id whose time is t: a reader at this id sees all commits up to
// t.
func At(t time.Time) table.Revision { return Make(millis(t), MaxSlot, maxCounter) }

func millis(t time.Time) int64 { return t.Sub(table.Epoch).Milliseconds() }

// Parse parses the text that [table.Revision.String] returns.
func Parse(s string) (table.Revision, error) {
	bad := fmt.Errorf("revision %q: want r<time>-<counter>-<slot> in hexadecimal", s)
	fields := strings.Split(strings.TrimPrefix(s, "r"), "-")
	if !strings.HasPrefix(s, "r") || len(fields) != 3 {
		return 0, bad
	}
	var n [3]uint64
	for i, bits := range [3]int{timeBits, counterBits, slotBits} {
		v, err := strconv.ParseUint(fields[i], 16, 64)
		if err != nil || v >= 1<<bits {
			return 0, bad
		}
		n[i] = v
	}
	r := Make(int64(n[0]), Slot(n[2]), uint8(n[1]))
	if r.String() != s {
		return 0, bad
	}
	return r, nil
}
