package revision

import (
	"fmt"
	"strconv"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// CSNLength is the length of every change sequence number.
const CSNLength = len("20130101000000.000000Z#000000#000#000000")

// sidMask reduces a slot to the twelve bits of a CSN's server id.
const sidMask = 0xfff

// AppendCSN appends a revision as a change sequence number in the form of OpenLDAP,
// YYYYmmddHHMMSS.uuuuuuZ#cccccc#sss#000000. The count cccccc contains the slot and the
// counter, which are all the bits of a revision below its time. So CSNs sort as text in
// the order of their revisions, and ParseCSN can restore the revision. The server id sss
// is the slot, for programs that parse CSNs.
func AppendCSN(b []byte, r table.Revision) []byte {
	b = r.Time().UTC().AppendFormat(b, "20060102150405.000000Z")
	b = appendHex(append(b, '#'), uint64(r&(1<<(slotBits+counterBits)-1)), 6)
	b = appendHex(append(b, '#'), uint64(SlotOf(r)&sidMask), 3)
	return append(b, "#000000"...)
}

// appendHex appends n in hexadecimal digits, with leading zeros.
func appendHex(b []byte, n uint64, digits int) []byte {
	for i := 4 * (digits - 1); i >= 0; i -= 4 {
		b = append(b, "0123456789abcdef"[n>>i&0xf])
	}
	return b
}

// ParseCSN parses the text that AppendCSN writes. It refuses any other text, and slot 0.
func ParseCSN(s string) (table.Revision, error) {
	bad := fmt.Errorf("CSN %.60q does not come from this kind of store", s)
	if len(s) != CSNLength {
		return 0, bad
	}
	t, err := time.Parse("20060102150405.000000Z", s[:22])
	if err != nil {
		return 0, bad
	}
	count, err := strconv.ParseUint(s[23:29], 16, slotBits+counterBits)
	if ms := millis(t); err != nil || ms < 0 || ms > maxTime {
		return 0, bad
	}
	r := table.Revision(millis(t))<<(slotBits+counterBits) | table.Revision(count)
	if SlotOf(r) == 0 || string(AppendCSN(nil, r)) != s {
		return 0, bad
	}
	return r, nil
}
