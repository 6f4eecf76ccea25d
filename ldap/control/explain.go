package control

import (
	"fmt"
	"math"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

// OIDExplain is the OID of the explain control, in requests and responses. The OID is made
// from a UUID.
const OIDExplain = "2.25.161827052177923176265677403949057240175"

// Explain is the value of the explain control of a search. The value is the text "plan" or
// "run". With plan, the search is not run.
type Explain struct{ Run bool }

// ParseExplain parses the value of a request.
func ParseExplain(value []byte) (Explain, error) {
	if s := string(value); s != "plan" && s != "run" {
		return Explain{}, fmt.Errorf("the value is plan or run, not %q", s)
	}
	return Explain{string(value) == "run"}, nil
}

// Explained is the value of the explain control in a response. Except for Plan, it is zero if
// the search was not run.
//
//	explained ::= SEQUENCE {
//		plan            OCTET STRING,            -- lines of text
//		candidates      INTEGER (0..maxInt),     -- entries examined
//		rows            INTEGER (0..maxInt),     -- rows of the tree that exclude the entry
//		indexes         SEQUENCE OF OCTET STRING, -- attribute, space, kind of use
//		scans           INTEGER (0..maxInt),     -- searches without an index
//		microseconds    INTEGER (0..maxInt)
//	}
type Explained struct {
	Plan                                  string
	Candidates, Rows, Scans, Microseconds int
	Indexes                               []string
}

// ParseExplained parses the value of a response.
func ParseExplained(value []byte) (x Explained, err error) {
	err = parse(value, func(r *ber.Reader) {
		number := func() int { return int(r.IntIn(ber.Integer, 0, math.MaxInt64)) }
		x.Plan = string(r.Bytes(ber.OctetString))
		x.Candidates, x.Rows = number(), number()
		indexes := r.Enter(ber.Sequence)
		x.Indexes = parseStrings(r)
		r.Leave(indexes)
		x.Scans, x.Microseconds = number(), number()
	})
	return x, err
}

// Encode returns the value of a response.
func (x Explained) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendString(b, ber.OctetString, x.Plan)
	b = ber.AppendInt(b, ber.Integer, int64(x.Candidates))
	b = ber.AppendInt(b, ber.Integer, int64(x.Rows))
	b = appendStrings(b, x.Indexes)
	b = ber.AppendInt(b, ber.Integer, int64(x.Scans))
	b = ber.AppendInt(b, ber.Integer, int64(x.Microseconds))
	return ber.Close(b, 0)
}
