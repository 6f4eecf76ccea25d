package control

import (
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// The following functions are for clients: they encode requests and parse responses.

// Encode returns the value of a request.
func (s SortRequest) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	for _, k := range s.Keys {
		start := len(b)
		b = ber.Open(b, ber.Sequence)
		b = ber.AppendString(b, ber.OctetString, k.Attribute)
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

// Encode returns the value of a request whose target is an offset.
func (v VLVRequest) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Integer, int64(v.Before))
	b = ber.AppendInt(b, ber.Integer, int64(v.After))
	start := len(b)
	b = ber.Open(b, ber.Context(0)|ber.Constructed)
	b = ber.AppendInt(b, ber.Integer, int64(v.Offset))
	b = ber.AppendInt(b, ber.Integer, int64(v.Count))
	b = ber.Close(b, start)
	return ber.Close(b, 0)
}

// ParseVLVResponse parses the value of a response.
func ParseVLVResponse(value []byte) (v VLVResponse, err error) {
	err = parse(value, func(r *ber.Reader) {
		v.Target, v.Count = int(r.Int(ber.Integer)), int(r.Int(ber.Integer))
		v.Code = op.Code(r.Int(ber.Enumerated))
		if r.At(ber.OctetString) {
			v.Context = r.Bytes(ber.OctetString)
		}
	})
	return v, err
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

// AssertEqual returns the value of an assertion control for the filter (attribute=value).
func AssertEqual(attribute, value string) []byte {
	b := ber.Open(nil, ber.Context(3)|ber.Constructed)
	b = ber.AppendString(b, ber.OctetString, attribute)
	b = ber.AppendString(b, ber.OctetString, value)
	return ber.Close(b, 0)
}

// Encode returns the value of a request.
func (e EndTransaction) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendBool(b, ber.Boolean, e.Commit)
	b = ber.AppendString(b, ber.OctetString, e.ID)
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
