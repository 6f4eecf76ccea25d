package control

import "github.com/seed-4dac0d86/ldapd/ldap/ber"

// The encodings in this file are for clients in this process.

// Encode returns the value of a request.
func (s SortRequest) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	for _, k := range s.Keys {
		start := len(b)
		b = ber.AppendString(ber.Open(b, ber.Sequence), ber.OctetString, k.Attribute)
		if k.Rule != "" {
			b = ber.AppendString(b, ber.Context(0), k.Rule)
		}
		if k.Reverse {
			b = ber.AppendBool(b, ber.Context(1), true)
		}
		b = ber.Close(b, start)
	}
	return ber.Close(b, 0)
}

// Encode returns the value of a request.
func (p PasswordModify) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	if p.Identity != nil {
		b = ber.AppendString(b, ber.Context(0), *p.Identity)
	}
	if p.Old != nil {
		b = ber.AppendString(b, ber.Context(1), p.Old)
	}
	if p.New != nil {
		b = ber.AppendString(b, ber.Context(2), p.New)
	}
	return ber.Close(b, 0)
}

// AssertEqual returns the value of the assertion control with the filter (attribute=value).
func AssertEqual(attribute string, value []byte) []byte {
	b := ber.Open(nil, ber.Context(3)|ber.Constructed)
	b = ber.AppendString(b, ber.OctetString, attribute)
	b = ber.AppendString(b, ber.OctetString, value)
	return ber.Close(b, 0)
}

// ParsePasswordModifyResult parses the value of a response. A nil value has no generated password.
func ParsePasswordModifyResult(value []byte) (p PasswordModifyResult, err error) {
	if value == nil {
		return p, nil
	}
	err = parse(value, func(r *ber.Reader) {
		if r.At(ber.Context(0)) {
			p.Generated = r.Bytes(ber.Context(0))
		}
	})
	return p, err
}
