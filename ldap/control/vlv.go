package control

import (
	"math"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// These are the OIDs of VLVRequest and VLVResponse.
const (
	OIDVLVRequest  = "2.16.840.1.113730.3.4.9"
	OIDVLVResponse = "2.16.840.1.113730.3.4.10"
)

// These codes of a VLVResponse are not LDAP result codes.
const (
	SortControlMissing op.Code = 60
	OffsetRangeError   op.Code = 61
)

// VLVRequest is the value of the virtual list view request control.
//
// See draft-ietf-ldapext-ldapv3-vlv-09, section 6.1:
//
//	VirtualListViewRequest ::= SEQUENCE {
//		beforeCount    INTEGER (0..maxInt),
//		afterCount     INTEGER (0..maxInt),
//		target       CHOICE {
//			byOffset        [0] SEQUENCE {
//				offset          INTEGER (1 .. maxInt),
//				contentCount    INTEGER (0 .. maxInt) },
//			greaterThanOrEqual [1] AssertionValue },
//		contextID     OCTET STRING OPTIONAL }
type VLVRequest struct {
	Before, After int
	// Offset and Count are set if the target is an offset. ParseVLVRequest accepts an
	// Offset of 0, and the server then returns the error in a VLVResponse.
	Offset, Count int
	Value         []byte // target value; nil: the target is an offset
	Context       []byte // nil: absent
}

// ParseVLVRequest parses the value of a request.
func ParseVLVRequest(value []byte) (v VLVRequest, err error) {
	err = parse(value, func(r *ber.Reader) {
		count := func() int { return int(r.IntIn(ber.Integer, 0, math.MaxInt32)) }
		v.Before, v.After = count(), count()
		if byOffset := ber.Context(0) | ber.Constructed; r.At(byOffset) {
			target := r.Enter(byOffset)
			v.Offset, v.Count = count(), count()
			r.Leave(target)
		} else {
			v.Value = r.Bytes(ber.Context(1))
		}
		if r.At(ber.OctetString) {
			v.Context = r.Bytes(ber.OctetString)
		}
	})
	return v, err
}

// VLVResponse is the value of the virtual list view response control.
//
// See draft-ietf-ldapext-ldapv3-vlv-09, section 6.2:
//
//	VirtualListViewResponse ::= SEQUENCE {
//		targetPosition    INTEGER (0 .. maxInt),
//		contentCount     INTEGER (0 .. maxInt),
//		virtualListViewResult ENUMERATED { success (0), ... },
//		contextID     OCTET STRING OPTIONAL }
type VLVResponse struct {
	Target, Count int
	Code          op.Code
	Context       []byte // nil: absent
}

// Encode returns the value of a response.
func (v VLVResponse) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Integer, int64(v.Target))
	b = ber.AppendInt(b, ber.Integer, int64(v.Count))
	b = ber.AppendInt(b, ber.Enumerated, int64(v.Code))
	if v.Context != nil {
		b = ber.AppendString(b, ber.OctetString, v.Context)
	}
	return ber.Close(b, 0)
}
