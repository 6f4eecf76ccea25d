package control

import (
	"math"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

// OIDPagedResults is the OID of PagedResults.
const OIDPagedResults = "1.2.840.113556.1.4.319"

// PagedResults is the value of the paged results control in requests and responses.
//
// See RFC 2696, section 2:
//
//	realSearchControlValue ::= SEQUENCE {
//		size            INTEGER (0..maxInt),
//				-- requested page size from client
//				-- result set size estimate from server
//		cookie          OCTET STRING
//	}
type PagedResults struct {
	Size   int
	Cookie []byte
}

// ParsePagedResults parses the value of a request.
func ParsePagedResults(value []byte) (p PagedResults, err error) {
	err = parse(value, func(r *ber.Reader) {
		p.Size = int(r.IntIn(ber.Integer, 0, math.MaxInt32))
		p.Cookie = r.Bytes(ber.OctetString)
	})
	return p, err
}

// Encode returns the value of a response.
func (p PagedResults) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Integer, int64(p.Size))
	b = ber.AppendString(b, ber.OctetString, p.Cookie)
	return ber.Close(b, 0)
}
