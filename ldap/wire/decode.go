package wire

import (
	"errors"
	"unicode/utf8"
	"unsafe"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// Decode decodes b, which must be one LDAPMessage. Decode does not copy names and
// values: in the returned message, they are parts of b. An add with a hundred values
// thus needs no second copy of their octets. The caller must not change b afterwards.
//
// The error is an *[Error] or a *[Refusal].
func Decode(b []byte) (*op.Message, error) {
	d := decoder{Reader: ber.NewReader(b)}
	m := d.message()
	d.End()
	if err := d.Err(); err != nil {
		return nil, &Error{err}
	}
	if d.refusal == nil {
		return m, nil
	}
	if _, ok := m.Request.(*op.Bind); ok {
		// A bind ends the previous authentication even if it fails (RFC 4513, 4). The
		// simplest way to end the authentication is to end the session.
		return nil, &Error{d.refusal}
	}
	return nil, &Refusal{m, d.refusal}
}

// Head returns the ID and an empty request of the kind of the request in an LDAPMessage. It needs
// only the beginning of the message. It returns nil if there is no answer to the request, if its
// refusal must end the session, or if the beginning is malformed.
func Head(b []byte) *op.Message {
	_, head, _, err := ber.Header(b)
	if err != nil {
		return nil
	}
	r := ber.NewReader(b[head:])
	m := &op.Message{ID: int32(r.IntIn(ber.Integer, 1, maxInt))}
	switch r.Peek() {
	case tagSearch:
		m.Request = &op.Search{}
	case tagModify:
		m.Request = &op.Modify{}
	case tagAdd:
		m.Request = &op.Add{}
	case tagDelete:
		m.Request = &op.Delete{}
	case tagModifyDN:
		m.Request = &op.ModifyDN{}
	case tagCompare:
		m.Request = &op.Compare{}
	case tagExtended:
		m.Request = &op.Extended{}
	default:
		return nil
	}
	return m
}

// A decoder continues after a refusal, because the server may answer the refused message
// only if the rest of the message is well-formed.
type decoder struct {
	ber.Reader
	refusal *op.Result
}

func (d *decoder) refuse(c op.Code, format string, args ...any) {
	if d.refusal == nil {
		d.refusal = op.Errorf(c, format, args...)
	}
}

func (d *decoder) message() *op.Message {
	m := new(op.Message)
	end := d.Enter(ber.Sequence)
	// 0 is reserved for unsolicited notifications (RFC 4511, 4.1.1.1).
	m.ID = int32(d.IntIn(ber.Integer, 1, maxInt))
	m.Request = d.request()
	switch t := d.Peek(); t {
	case tagControls, ber.Sequence: // Ruby's net-ldap (0.19) sends those of a Delete as a SEQUENCE
		m.Controls = d.controls(t)
	}
	d.Leave(end)
	return m
}

func (d *decoder) request() op.Request {
	switch d.Peek() {
	case tagBind:
		return d.bind()
	case tagUnbind:
		d.Next()
		return &op.Unbind{}
	case tagSearch:
		return d.search()
	case tagModify:
		return d.modify()
	case tagAdd:
		return d.add()
	case tagDelete:
		return &op.Delete{Name: d.name(tagDelete)}
	case tagModifyDN:
		return d.modifyDN()
	case tagCompare:
		return d.compare()
	case tagAbandon:
		return &op.Abandon{MessageID: int32(d.IntIn(tagAbandon, 0, maxInt))}
	case tagExtended:
		return d.extended()
	}
	d.Expected(d.Offset(), "a request", d.Found())
	return nil
}

func (d *decoder) bind() op.Request {
	var b op.Bind
	end := d.Enter(tagBind)
	b.Version = int(d.IntIn(ber.Integer, 0, maxInt))
	b.Name = d.name(ber.OctetString)
	switch d.Peek() {
	case tagSimple:
		b.Password = d.Bytes(tagSimple)
	case tagSASL:
		b.SASL = true
		inner := d.Enter(tagSASL)
		b.Mechanism = d.text(ber.OctetString)
		if d.At(ber.OctetString) {
			b.Credentials = d.Bytes(ber.OctetString)
		}
		d.Leave(inner)
	default:
		// An unknown authentication choice, such as [1] or [2] of LDAPv2, becomes a SASL
		// bind without a mechanism. The answer to such a bind is authMethodNotSupported,
		// as RFC 4511, 4.2, requires.
		b.SASL = true
		d.Next()
	}
	d.Leave(end)
	return &b
}

func (d *decoder) search() op.Request {
	var s op.Search
	end := d.Enter(tagSearch)
	s.Base = d.name(ber.OctetString)
	s.Scope = op.Scope(d.choice("scope", int64(op.Subordinates)))
	s.Deref = op.Deref(d.choice("derefAliases", int64(op.DerefAlways)))
	s.SizeLimit = d.limit("sizeLimit")
	s.TimeLimit = d.limit("timeLimit")
	s.TypesOnly = d.Bool(ber.Boolean)
	s.Filter = d.filter()
	s.Attributes = d.texts()
	d.Leave(end)
	return &s
}

// filter decodes a filter with package filter.
func (d *decoder) filter() filter.Filter {
	start := d.Offset()
	b := d.Element()
	if b == nil {
		return nil
	}
	f, err := DecodeFilter(b)
	if err == nil {
		return f
	}
	var broken *ber.SyntaxError
	if errors.As(err, &broken) {
		broken.Offset += start
		d.Fail(broken)
	} else {
		d.refuse(op.ProtocolError, "%v", err)
	}
	return nil
}

func (d *decoder) modify() op.Request {
	var m op.Modify
	end := d.Enter(tagModify)
	m.Name = d.name(ber.OctetString)
	list := d.Enter(ber.Sequence)
	for d.More() {
		change := d.Enter(ber.Sequence)
		kind := op.ModKind(d.choice("modification", int64(op.ModIncrement)))
		m.Changes = append(m.Changes, op.Modification{Kind: kind, PartialAttribute: d.attribute()})
		d.Leave(change)
	}
	d.Leave(list)
	d.Leave(end)
	return &m
}

func (d *decoder) add() op.Request {
	var a op.Add
	end := d.Enter(tagAdd)
	a.Name = d.name(ber.OctetString)
	list := d.Enter(ber.Sequence)
	for d.More() {
		at := d.attribute()
		if len(at.Values) == 0 { // RFC 4511, 4.1.7
			d.refuse(op.ProtocolError, "attribute %s has no values", at.Description)
		}
		a.Attributes = append(a.Attributes, at)
	}
	d.Leave(list)
	if len(a.Attributes) == 0 {
		d.refuse(op.ProtocolError, "an entry has attributes, its objectClass at least")
	}
	d.Leave(end)
	return &a
}

func (d *decoder) attribute() op.PartialAttribute {
	var a op.PartialAttribute
	end := d.Enter(ber.Sequence)
	a.Description = d.text(ber.OctetString)
	set := d.Enter(ber.Set)
	for d.More() {
		a.Values = append(a.Values, d.Bytes(ber.OctetString))
	}
	d.Leave(set)
	d.Leave(end)
	return a
}

func (d *decoder) modifyDN() op.Request {
	var m op.ModifyDN
	end := d.Enter(tagModifyDN)
	m.Name = d.name(ber.OctetString)
	m.NewRDN = d.name(ber.OctetString)
	m.DeleteOldRDN = d.Bool(ber.Boolean)
	if d.At(tagNewSuperior) {
		s := d.name(tagNewSuperior)
		m.NewSuperior = &s
	}
	d.Leave(end)
	return &m
}

func (d *decoder) compare() op.Request {
	var c op.Compare
	end := d.Enter(tagCompare)
	c.Name = d.name(ber.OctetString)
	ava := d.Enter(ber.Sequence)
	c.Description = d.text(ber.OctetString)
	c.Value = d.Bytes(ber.OctetString)
	d.Leave(ava)
	d.Leave(end)
	return &c
}

func (d *decoder) extended() op.Request {
	var e op.Extended
	end := d.Enter(tagExtended)
	e.OID = d.text(tagRequestName)
	if d.At(tagRequestValue) {
		e.Value = d.Bytes(tagRequestValue)
	}
	d.Leave(end)
	return &e
}

// maxControls bounds the controls of a message.
const maxControls = 128

func (d *decoder) controls(t ber.Tag) []op.Control {
	var cs []op.Control
	end := d.Enter(t)
	for d.More() {
		var c op.Control
		one := d.Enter(ber.Sequence)
		c.OID = d.text(ber.OctetString)
		if d.At(ber.Boolean) {
			c.Critical = d.Bool(ber.Boolean)
		}
		if d.At(ber.OctetString) {
			c.Value = d.Bytes(ber.OctetString)
		}
		if t := d.Peek(); t != 0 && t.Universal() { // an extension would have a context-specific tag
			d.Expected(d.Offset(), "a criticality or a value", d.Found())
		}
		d.Leave(one)
		if cs = append(cs, c); len(cs) > maxControls {
			d.refuse(op.AdminLimitExceeded, "a message has at most %d controls", maxControls)
			cs = cs[:maxControls]
		}
	}
	d.Leave(end)
	return cs
}

// name decodes an LDAPDN or RelativeLDAPDN.
func (d *decoder) name(t ber.Tag) string {
	s := alias(d.Bytes(t))
	if !utf8.ValidString(s) {
		d.refuse(op.InvalidDNSyntax, "the name %q is not UTF-8", s)
	}
	return s
}

// text decodes an LDAPString.
func (d *decoder) text(t ber.Tag) string {
	s := alias(d.Bytes(t))
	if !utf8.ValidString(s) {
		d.refuse(op.ProtocolError, "the string %q is not UTF-8", s)
	}
	return s
}

func (d *decoder) texts() []string {
	var ss []string
	end := d.Enter(ber.Sequence)
	for d.More() {
		ss = append(ss, d.text(ber.OctetString))
	}
	d.Leave(end)
	return ss
}

// choice decodes an ENUMERATED from 0 to max.
func (d *decoder) choice(what string, max int64) int64 {
	v := d.Int(ber.Enumerated)
	if v < 0 || v > max {
		d.refuse(op.ProtocolError, "%s %d is unknown", what, v)
		return 0
	}
	return v
}

func (d *decoder) limit(what string) int {
	v := d.Int(ber.Integer)
	if v < 0 || v > maxInt {
		d.refuse(op.ProtocolError, "%s %d is not in 0 to %d", what, v, maxInt)
		return 0
	}
	return int(v)
}

// alias returns b as a string without copying. b does not change, because callers of
// Decode must not change the message.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
