package control

import (
	"math"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

// These are the OIDs of extended operations.
const (
	OIDPasswordModify = "1.3.6.1.4.1.4203.1.11.1"
	OIDCancel         = "1.3.6.1.1.8"
	// OIDWhoAmI is the OID of Who am I? The request has no value. The response value is
	// an authorization identity. See RFC 4532, section 2.
	OIDWhoAmI = "1.3.6.1.4.1.4203.1.11.3"
	// OIDStartTLS is the OID of StartTLS. Request and response have no value. See RFC
	// 4511, section 4.14.
	OIDStartTLS = "1.3.6.1.4.1.1466.20037"
)

// PasswordModify is the request value of Password Modify. A nil component is absent.
//
// See RFC 3062, section 2:
//
//	PasswdModifyRequestValue ::= SEQUENCE {
//		userIdentity    [0]  OCTET STRING OPTIONAL
//		oldPasswd       [1]  OCTET STRING OPTIONAL
//		newPasswd       [2]  OCTET STRING OPTIONAL }
type PasswordModify struct {
	Identity *string
	Old, New []byte
}

// ParsePasswordModify parses the value of a request. If the value is nil, all components
// are absent.
func ParsePasswordModify(value []byte) (p PasswordModify, err error) {
	if value == nil {
		return p, nil
	}
	err = parse(value, func(r *ber.Reader) {
		if r.At(ber.Context(0)) {
			s := string(r.Bytes(ber.Context(0)))
			p.Identity = &s
		}
		if r.At(ber.Context(1)) {
			p.Old = r.Bytes(ber.Context(1))
		}
		if r.At(ber.Context(2)) {
			p.New = r.Bytes(ber.Context(2))
		}
	})
	return p, err
}

// PasswordModifyResult is the response value of a Password Modify that generated
// the new password.
//
// See RFC 3062, section 2:
//
//	PasswdModifyResponseValue ::= SEQUENCE {
//		genPasswd       [0]     OCTET STRING OPTIONAL }
type PasswordModifyResult struct{ Generated []byte }

// Encode returns the value of a response.
func (p PasswordModifyResult) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendString(b, ber.Context(0), p.Generated)
	return ber.Close(b, 0)
}

// Cancel is the request value of Cancel.
//
// See RFC 3909, section 2.1:
//
//	cancelRequestValue ::= SEQUENCE {
//		cancelID        MessageID
//				-- MessageID is as defined in [RFC2251]
//	}
type Cancel struct{ ID int32 }

// ParseCancel parses the value of a request.
func ParseCancel(value []byte) (c Cancel, err error) {
	err = parse(value, func(r *ber.Reader) { c.ID = int32(r.IntIn(ber.Integer, 0, math.MaxInt32)) })
	return c, err
}
