package revision

import (
	"fmt"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// TimeLength is the length of the text that AppendTime appends.
const TimeLength = len("20060102150405.000000000Z")

// nanoSlots is the number of slots that the nanoseconds within a millisecond can
// distinguish.
const nanoSlots = 1_000_000 >> counterBits

// AppendTime appends the time of a revision as a GeneralizedTime with nanoseconds. The
// digits below the millisecond contain the slot and the counter. So no two commits within
// a millisecond have the same time if all slots are below 3,906.
func AppendTime(b []byte, r table.Revision) []byte {
	below := uint64(SlotOf(r))%nanoSlots<<counterBits | uint64(r)&(1<<counterBits-1)
	b = r.Time().UTC().AppendFormat(b, "20060102150405.000")
	return fmt.Appendf(b, "%06dZ", below)
}
