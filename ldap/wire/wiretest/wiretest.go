// Package wiretest is the client's side of package wire, for tests. It encodes requests
// and decodes answers. It implements the encodings independently of package wire.
package wiretest

import (
	"bufio"
	"fmt"
	"io"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
)

// AppendRequest appends the LDAPMessage of a request.
func AppendRequest(b []byte, m *op.Message) []byte {
	return seq(b, ber.Sequence, func(b []byte) []byte {
		b = ber.AppendInt(b, ber.Integer, int64(m.ID))
		b = appendOperation(b, m.Request)
		if m.Controls == nil {
			return b
		}
		return seq(b, 0xa0, func(b []byte) []byte {
			for _, c := range m.Controls {
				b = appendControl(b, c)
			}
			return b
		})
	})
}

func seq(b []byte, t ber.Tag, contents func([]byte) []byte) []byte {
	start := len(b)
	return ber.Close(contents(ber.Open(b, t)), start)
}

func str[S ~string | ~[]byte](b []byte, s S) []byte { return ber.AppendString(b, ber.OctetString, s) }

func appendControl(b []byte, c op.Control) []byte {
	return seq(b, ber.Sequence, func(b []byte) []byte {
		b = str(b, c.OID)
		if c.Critical {
			b = ber.AppendBool(b, ber.Boolean, true)
		}
		if c.Value != nil {
			b = str(b, c.Value)
		}
		return b
	})
}

func appendOperation(b []byte, r op.Request) []byte {
	switch r := r.(type) {
	case *op.Bind:
		return seq(b, 0x60, func(b []byte) []byte { return appendBind(b, r) })
	case *op.Unbind:
		return append(b, 0x42, 0)
	case *op.Search:
		return seq(b, 0x63, func(b []byte) []byte { return appendSearch(b, r) })
	case *op.Modify:
		return seq(b, 0x66, func(b []byte) []byte { return appendModify(b, r) })
	case *op.Add:
		return seq(b, 0x68, func(b []byte) []byte {
			return seq(str(b, r.Name), ber.Sequence, func(b []byte) []byte {
				for _, a := range r.Attributes {
					b = appendAttribute(b, a)
				}
				return b
			})
		})
	case *op.Delete:
		return ber.AppendString(b, 0x4a, r.Name)
	case *op.ModifyDN:
		return seq(b, 0x6c, func(b []byte) []byte {
			b = ber.AppendBool(str(str(b, r.Name), r.NewRDN), ber.Boolean, r.DeleteOldRDN)
			if r.NewSuperior != nil {
				b = ber.AppendString(b, 0x80, *r.NewSuperior)
			}
			return b
		})
	case *op.Compare:
		return seq(b, 0x6e, func(b []byte) []byte {
			return seq(str(b, r.Name), ber.Sequence, func(b []byte) []byte {
				return str(str(b, r.Description), r.Value)
			})
		})
	case *op.Abandon:
		return ber.AppendInt(b, 0x50, int64(r.MessageID))
	case *op.Extended:
		return seq(b, 0x77, func(b []byte) []byte {
			b = ber.AppendString(b, 0x80, r.OID)
			if r.Value != nil {
				b = ber.AppendString(b, 0x81, r.Value)
			}
			return b
		})
	}
	panic(fmt.Sprintf("wiretest: %T is no request", r))
}

func appendBind(b []byte, r *op.Bind) []byte {
	b = str(ber.AppendInt(b, ber.Integer, int64(r.Version)), r.Name)
	if !r.SASL {
		return ber.AppendString(b, 0x80, r.Password)
	}
	return seq(b, 0xa3, func(b []byte) []byte {
		b = str(b, r.Mechanism)
		if r.Credentials != nil {
			b = str(b, r.Credentials)
		}
		return b
	})
}

func appendSearch(b []byte, r *op.Search) []byte {
	b = str(b, r.Base)
	b = ber.AppendInt(b, ber.Enumerated, int64(r.Scope))
	b = ber.AppendInt(b, ber.Enumerated, int64(r.Deref))
	b = ber.AppendInt(b, ber.Integer, int64(r.SizeLimit))
	b = ber.AppendInt(b, ber.Integer, int64(r.TimeLimit))
	b = ber.AppendBool(b, ber.Boolean, r.TypesOnly)
	b = wire.AppendFilter(b, r.Filter)
	return seq(b, ber.Sequence, func(b []byte) []byte {
		for _, a := range r.Attributes {
			b = str(b, a)
		}
		return b
	})
}

func appendModify(b []byte, r *op.Modify) []byte {
	return seq(str(b, r.Name), ber.Sequence, func(b []byte) []byte {
		for _, c := range r.Changes {
			b = seq(b, ber.Sequence, func(b []byte) []byte {
				return appendAttribute(ber.AppendInt(b, ber.Enumerated, int64(c.Kind)), c.PartialAttribute)
			})
		}
		return b
	})
}

func appendAttribute(b []byte, a op.PartialAttribute) []byte {
	return seq(b, ber.Sequence, func(b []byte) []byte {
		return seq(str(b, a.Description), ber.Set, func(b []byte) []byte {
			for _, v := range a.Values {
				b = str(b, v)
			}
			return b
		})
	})
}

// An Answer is any message from a server.
type Answer struct {
	ID         int32
	Tag        ber.Tag // tag of the protocolOp: 0x64 is an entry, 0x65 a searchDone, ...
	Response   op.Response
	Name       string                // name of an entry
	Attributes []op.PartialAttribute // attributes of an entry
	URLs       []string              // URLs of a reference
}

// Read reads one answer.
func Read(r *bufio.Reader) (*Answer, error) {
	for n := 2; ; n++ {
		b, err := r.Peek(n)
		if err != nil {
			return nil, err
		}
		_, head, size, syntax := ber.Header(b)
		if syntax != nil {
			return nil, syntax
		}
		if head > 0 {
			b = make([]byte, head+size)
			if _, err := io.ReadFull(r, b); err != nil {
				return nil, err
			}
			return Decode(b)
		}
	}
}

// Decode decodes b, which must be one answer.
func Decode(b []byte) (*Answer, error) {
	a := &Answer{}
	r := ber.NewReader(b)
	message := r.Enter(ber.Sequence)
	a.ID = int32(r.Int(ber.Integer))
	a.Tag = r.Peek()
	body := r.Enter(a.Tag)
	switch a.Tag {
	case 0x64:
		a.Name = string(r.Bytes(ber.OctetString))
		a.Attributes = attributes(&r)
	case 0x73:
		a.URLs = strings(&r)
	case 0x79:
		a.Response.OID, a.Response.Value = optional(&r, 0x80), value(&r, 0x81)
	default:
		result(&r, &a.Response)
	}
	r.End()
	r.Leave(body)
	if r.At(0xa0) {
		a.Response.Controls = controls(&r)
	}
	r.End()
	r.Leave(message)
	r.End()
	return a, r.Err()
}

func result(r *ber.Reader, to *op.Response) {
	to.Code = op.Code(r.Int(ber.Enumerated))
	to.MatchedDN = string(r.Bytes(ber.OctetString))
	to.Diagnostic = string(r.Bytes(ber.OctetString))
	if r.At(0xa3) {
		end := r.Enter(0xa3)
		to.Referrals = strings(r)
		r.Leave(end)
	}
	to.SASLCredentials = value(r, 0x87)
	to.OID, to.Value = optional(r, 0x8a), value(r, 0x8b)
}

func optional(r *ber.Reader, t ber.Tag) string { return string(value(r, t)) }

func value(r *ber.Reader, t ber.Tag) []byte {
	if !r.At(t) {
		return nil
	}
	return r.Bytes(t)
}

func strings(r *ber.Reader) (ss []string) {
	for r.More() {
		ss = append(ss, string(r.Bytes(ber.OctetString)))
	}
	return ss
}

func attributes(r *ber.Reader) (as []op.PartialAttribute) {
	list := r.Enter(ber.Sequence)
	for r.More() {
		var a op.PartialAttribute
		one := r.Enter(ber.Sequence)
		a.Description = string(r.Bytes(ber.OctetString))
		set := r.Enter(ber.Set)
		for r.More() {
			a.Values = append(a.Values, r.Bytes(ber.OctetString))
		}
		r.Leave(set)
		r.Leave(one)
		as = append(as, a)
	}
	r.Leave(list)
	return as
}

func controls(r *ber.Reader) (cs []op.Control) {
	list := r.Enter(0xa0)
	for r.More() {
		var c op.Control
		one := r.Enter(ber.Sequence)
		c.OID = string(r.Bytes(ber.OctetString))
		if r.At(ber.Boolean) {
			c.Critical = r.Bool(ber.Boolean)
		}
		c.Value = value(r, ber.OctetString)
		r.Leave(one)
		cs = append(cs, c)
	}
	r.Leave(list)
	return cs
}
