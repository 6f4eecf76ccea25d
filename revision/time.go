package revision

import (
	"fmt"

	"github.com/seed-4dac0d86/ldapd/table"
)

// TimeLength is the length of what AppendTime writes.
const TimeLength = len("20060102150405.000000000Z")

// nanoSlots is how many slots the nanoseconds of a millisecond can distinguish.
const nanoSlots = 1_000_000 >> counterBits

// AppendTime appends the time of a revision as a GeneralizedTime with nanoseconds. The
// digits below the millisecond come from slot and counter, so that no two commits of
// one millisecond have the same time as long as slots are below 3,906.
func AppendTime(b []byte, r table.Revision) []byte {
	below := uint64(SlotOf(r))%nanoSlots<<counterBits | uint64(r)&(1<<counterBits-1)
	b = r.Time().UTC().AppendFormat(b, "20060102150405.000")
	return fmt.Appendf(b, "%06dZ", below)
}
