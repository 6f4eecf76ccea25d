package control

import (
	"strconv"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

// OIDPasswordPolicy is the OID of the password policy control. The request control has no
// value. The value of the response control is a PasswordPolicy.
const OIDPasswordPolicy = "1.3.6.1.4.1.42.2.27.8.5.1"

// PasswordPolicy is the value of the password policy response control.
//
// See draft-behera-ldap-password-policy-11, section 6.2:
//
//	PasswordPolicyResponseValue ::= SEQUENCE {
//		warning [0] CHOICE {
//			timeBeforeExpiration [0] INTEGER (0 .. maxInt),
//			graceAuthNsRemaining [1] INTEGER (0 .. maxInt) } OPTIONAL,
//		error   [1] ENUMERATED {
//			passwordExpired             (0),
//			accountLocked               (1),
//			changeAfterReset            (2),
//			passwordModNotAllowed       (3),
//			mustSupplyOldPassword       (4),
//			insufficientPasswordQuality (5),
//			passwordTooShort            (6),
//			passwordTooYoung            (7),
//			passwordInHistory           (8),
//			passwordTooLong             (9) } OPTIONAL }
type PasswordPolicy struct {
	Expires time.Duration // time until the password expires; 0: absent
	Grace   *int          // remaining uses of an expired password; nil: absent
	Error   *int
}

// Encode returns the value of a response.
func (p PasswordPolicy) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	if p.Expires > 0 || p.Grace != nil {
		warning := len(b)
		b = ber.Open(b, ber.Context(0)|0x20)
		if p.Grace != nil {
			b = ber.AppendInt(b, ber.Context(1), int64(*p.Grace))
		} else {
			b = ber.AppendInt(b, ber.Context(0), int64(p.Expires/time.Second))
		}
		b = ber.Close(b, warning)
	}
	if p.Error != nil {
		b = ber.AppendInt(b, ber.Context(1), int64(*p.Error))
	}
	return ber.Close(b, 0)
}

// These are the OIDs of the controls with which Netscape's servers reported on
// passwords. A server sends them although the client has not requested them
// (draft-vchu-ldap-pwd-policy-00). The values of these controls are text:
// PasswordExpiredValue, and the result of PasswordExpiring.
const (
	OIDPasswordExpired  = "2.16.840.1.113730.3.4.4"
	OIDPasswordExpiring = "2.16.840.1.113730.3.4.5"
)

// PasswordExpiredValue is the value of the control for an expired password.
const PasswordExpiredValue = "0"

// PasswordExpiring returns the value of the control for a password that expires soon:
// the number of seconds until it expires.
func PasswordExpiring(in time.Duration) []byte {
	return strconv.AppendInt(nil, int64(in/time.Second), 10)
}

// OIDAccountUsable is the OID of the account usable control. The control of a search
// request has no value. The value of the response control is an AccountUsable.
const OIDAccountUsable = "1.3.6.1.4.1.42.2.27.9.5.8"

// AccountUsable is the value of the account usable response control of an entry.
//
// See the documentation of Sun's directory server:
//
//	ACCOUNT_USABLE_RESPONSE ::= CHOICE {
//		is_available     [0] INTEGER,  -- seconds before expiration
//		is_not_available [1] MORE_INFO }
//	MORE_INFO ::= SEQUENCE {
//		inactive              [0] BOOLEAN DEFAULT FALSE,
//		reset                 [1] BOOLEAN DEFAULT FALSE,
//		expired               [2] BOOLEAN DEFAULT FALSE,
//		remaining_grace       [3] INTEGER OPTIONAL,
//		seconds_before_unlock [4] INTEGER OPTIONAL }
type AccountUsable struct {
	Usable bool
	// Expires is the time until the password of a usable account expires; negative:
	// never.
	Expires                  time.Duration
	Inactive, Reset, Expired bool
	Grace                    *int
	Unlock                   *time.Duration
}

// Encode returns the value of a response.
func (a AccountUsable) Encode() []byte {
	if a.Usable {
		seconds := int64(-1)
		if a.Expires >= 0 {
			seconds = int64(a.Expires / time.Second)
		}
		return ber.AppendInt(nil, ber.Context(0), seconds)
	}
	b := ber.Open(nil, ber.Context(1)|0x20)
	for i, is := range []bool{a.Inactive, a.Reset, a.Expired} {
		if is {
			b = ber.AppendBool(b, ber.Context(byte(i)), true)
		}
	}
	if a.Grace != nil {
		b = ber.AppendInt(b, ber.Context(3), int64(*a.Grace))
	}
	if a.Unlock != nil {
		b = ber.AppendInt(b, ber.Context(4), int64(*a.Unlock/time.Second))
	}
	return ber.Close(b, 0)
}

// ParseAccountUsable parses the value of a response.
func ParseAccountUsable(value []byte) (a AccountUsable, err error) {
	r := ber.NewReader(value)
	if r.At(ber.Context(0)) {
		a.Usable, a.Expires = true, time.Duration(r.Int(ber.Context(0)))*time.Second
		r.End()
		return a, r.Err()
	}
	more := r.Enter(ber.Context(1) | ber.Constructed)
	for i, is := range []*bool{&a.Inactive, &a.Reset, &a.Expired} {
		if t := ber.Context(byte(i)); r.At(t) {
			*is = r.Bool(t)
		}
	}
	if t := ber.Context(3); r.At(t) {
		grace := int(r.Int(t))
		a.Grace = &grace
	}
	if t := ber.Context(4); r.At(t) {
		unlock := time.Duration(r.Int(t)) * time.Second
		a.Unlock = &unlock
	}
	r.Leave(more)
	r.End()
	return a, r.Err()
}
