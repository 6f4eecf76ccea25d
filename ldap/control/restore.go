package control

import (
	"math"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

// These are the OIDs of the extended operations restore and diff, and of their intermediate
// responses, whose values, one after the other, are an LDIF file. The OIDs are made from UUIDs.
const (
	OIDRestore = "2.25.148058403826859610350560321506685529730"
	OIDDiff    = "2.25.18176555692400720472886538050459128702"
)

// Restore is the request value of restore.
//
//	restoreRequestValue ::= SEQUENCE {
//		name            OCTET STRING, -- a DN: the name that the entry had
//		moment          OCTET STRING, -- text, as in the control at
//		subtree         BOOLEAN,
//		dryRun          BOOLEAN,
//		undo            BOOLEAN DEFAULT FALSE } -- the moment is the revision of a commit that is undone;
//		                                        -- the name is empty
type Restore struct {
	Name, Moment          string
	Subtree, DryRun, Undo bool
}

// ParseRestore parses the value of a request.
func ParseRestore(value []byte) (x Restore, err error) {
	err = parse(value, func(r *ber.Reader) {
		x.Name = string(r.Bytes(ber.OctetString))
		x.Moment = string(r.Bytes(ber.OctetString))
		x.Subtree, x.DryRun = r.Bool(ber.Boolean), r.Bool(ber.Boolean)
		if r.At(ber.Boolean) {
			x.Undo = r.Bool(ber.Boolean)
		}
	})
	return x, err
}

// Encode returns the value of a request.
func (x Restore) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendString(b, ber.OctetString, x.Name)
	b = ber.AppendString(b, ber.OctetString, x.Moment)
	b = ber.AppendBool(b, ber.Boolean, x.Subtree)
	b = ber.AppendBool(b, ber.Boolean, x.DryRun)
	if x.Undo {
		b = ber.AppendBool(b, ber.Boolean, true)
	}
	return ber.Close(b, 0)
}

// Restored is the response value of restore.
//
//	restoreResponseValue ::= SEQUENCE {
//		changes         INTEGER (0..maxInt),
//		revision        OCTET STRING,             -- of the commit; empty: nothing was committed
//		kept            INTEGER (0..maxInt),      -- entries added again with a password
//		lost            SEQUENCE OF OCTET STRING, -- names of entries added again without one
//		unnamed         SEQUENCE OF OCTET STRING, -- texts: values that do not name them again
//		erased          INTEGER (0..maxInt) }     -- entries that were erased and stay away
type Restored struct {
	Changes       int
	Revision      string
	Kept, Erased  int
	Lost, Unnamed []string
}

// ParseRestored parses the value of a response.
func ParseRestored(value []byte) (x Restored, err error) {
	err = parse(value, func(r *ber.Reader) {
		number := func() int { return int(r.IntIn(ber.Integer, 0, math.MaxInt32)) }
		list := func() []string {
			outer := r.Enter(ber.Sequence)
			s := parseStrings(r)
			r.Leave(outer)
			return s
		}
		x.Changes, x.Revision = number(), string(r.Bytes(ber.OctetString))
		x.Kept = number()
		x.Lost, x.Unnamed = list(), list()
		x.Erased = number()
	})
	return x, err
}

// Encode returns the value of a response.
func (x Restored) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Integer, int64(x.Changes))
	b = ber.AppendString(b, ber.OctetString, x.Revision)
	b = ber.AppendInt(b, ber.Integer, int64(x.Kept))
	b = appendStrings(b, x.Lost)
	b = appendStrings(b, x.Unnamed)
	b = ber.AppendInt(b, ber.Integer, int64(x.Erased))
	return ber.Close(b, 0)
}

// Diff is the request value of diff.
//
//	diffRequestValue ::= SEQUENCE {
//		from            OCTET STRING,   -- text, as in the control at
//		to              OCTET STRING,
//		base            OCTET STRING }  -- a DN; empty: the whole directory
type Diff struct{ From, To, Base string }

// ParseDiff parses the value of a request.
func ParseDiff(value []byte) (x Diff, err error) {
	err = parse(value, func(r *ber.Reader) {
		for _, s := range []*string{&x.From, &x.To, &x.Base} {
			*s = string(r.Bytes(ber.OctetString))
		}
	})
	return x, err
}

// Encode returns the value of a request.
func (x Diff) Encode() []byte { return appendStrings(nil, []string{x.From, x.To, x.Base}) }

// Differences is the response value of diff.
//
//	diffResponseValue ::= SEQUENCE {
//		changes         INTEGER (0..maxInt) }
type Differences struct{ Changes int }

// ParseDifferences parses the value of a response.
func ParseDifferences(value []byte) (x Differences, err error) {
	err = parse(value, func(r *ber.Reader) { x.Changes = int(r.IntIn(ber.Integer, 0, math.MaxInt32)) })
	return x, err
}

// Encode returns the value of a response.
func (x Differences) Encode() []byte {
	return ber.Close(ber.AppendInt(ber.Open(nil, ber.Sequence), ber.Integer, int64(x.Changes)), 0)
}
