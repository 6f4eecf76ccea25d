package directory

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/ber"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

const dereference = "1.3.6.1.4.1.4203.666.5.16" // draft-masarati-ldap-deref-00

// maxDereferenced bounds the names that are followed for one entry. One with
// more goes without the control (draft-masarati-ldap-deref-00, 2.1).
const maxDereferenced = 1000

const syntaxDN = "1.3.6.1.4.1.1466.115.121.1.12"

// derefSpec asks for attributes of the entries that an attribute names.
type derefSpec struct {
	attribute  description
	attributes []description
}

// description is an attribute description, looked up. Those of subtypes are
// others (2.1).
type description struct {
	text    string // the client's
	typ     *schema.AttributeType
	options string
}

func describe(text string, s *schema.Schema) description {
	t, options := s.Describe(text)
	return description{text, t, entry.SortOptions(options)}
}

// describeAll looks names up again, under another schema. Those that it does not
// know have no values.
func describeAll(specs []derefSpec, s *schema.Schema) (all []derefSpec) {
	for _, old := range specs {
		x := derefSpec{attribute: describe(old.attribute.text, s)}
		for _, a := range old.attributes {
			if d := describe(a.text, s); d.typ != nil {
				x.attributes = append(x.attributes, d)
			}
		}
		if x.attribute.typ != nil {
			all = append(all, x)
		}
	}
	return all
}

func (d *description) values(e *entry.Entry) [][]byte {
	if a := e.Find(d.typ, d.options); a != nil {
		return a.Values
	}
	return nil
}

func takeDereference(o *operation, _ *op.Message, c *op.Control) error {
	var specs []derefSpec
	r := ber.NewReader(c.Value)
	outer := r.Enter(ber.Sequence)
	for r.More() {
		specs = append(specs, readDerefSpec(&r, o.schema))
	}
	r.Leave(outer)
	r.End()
	if err := r.Err(); err != nil {
		return malformed("dereference", err)
	}
	for i := range specs {
		a := &specs[i].attribute
		same := func(s derefSpec) bool {
			return a.typ != nil && s.attribute.typ == a.typ && s.attribute.options == a.options
		}
		switch {
		case slices.ContainsFunc(specs[:i], same):
			return op.Errorf(op.ProtocolError, "dereference control: %s comes twice", a.text)
		case a.typ != nil && a.typ.Syntax.OID == syntaxDN:
			o.controls.dereference = append(o.controls.dereference, specs[i])
		case c.Critical:
			return op.Errorf(op.UnavailableCriticalExtension, "dereference control: %q is no attribute with values that are names", a.text)
		}
	}
	return nil
}

func readDerefSpec(r *ber.Reader, s *schema.Schema) (spec derefSpec) {
	outer := r.Enter(ber.Sequence)
	spec.attribute = describe(string(r.Bytes(ber.OctetString)), s)
	list := r.Enter(ber.Sequence)
	for r.More() {
		// Unknown ones have no values, secret ones none to show.
		if d := describe(string(r.Bytes(ber.OctetString)), s); d.typ != nil && !d.typ.Secret() {
			spec.attributes = append(spec.attributes, d)
		}
	}
	r.Leave(list)
	r.Leave(outer)
	return spec
}

// dereferenced gives the control that goes with an entry: what the entries have
// that it names. An entry that is not there looks like one that has nothing to
// show.
func (st *stream) dereferenced(ctx context.Context, e *entry.Entry) ([]op.Control, error) {
	specs := st.o.controls.dereference
	names := 0
	for i := range specs {
		names += len(specs[i].attribute.values(e))
	}
	if names == 0 || names > maxDereferenced {
		return nil, nil
	}
	b := ber.Open(nil, ber.Sequence)
	for i := range specs {
		for _, name := range specs[i].attribute.values(e) {
			var err error
			if b, err = st.appendDereferenced(ctx, b, &specs[i], name); err != nil {
				return nil, err
			}
		}
	}
	return []op.Control{{OID: dereference, Value: ber.Close(b, 0)}}, nil
}

// appendDereferenced appends a DerefRes (2.3).
func (st *stream) appendDereferenced(ctx context.Context, b []byte, spec *derefSpec, name []byte) ([]byte, error) {
	start := len(b)
	b = ber.Open(b, ber.Sequence)
	b = ber.AppendString(b, ber.OctetString, spec.attribute.text)
	b = ber.AppendString(b, ber.OctetString, name)
	named, err := st.named(ctx, spec, name)
	if err != nil {
		return nil, err
	}
	if named != nil {
		b = spec.appendValues(b, named)
	}
	return ber.Close(b, start), nil
}

// appendValues appends the attributes that an entry has values of, if any.
func (spec *derefSpec) appendValues(b []byte, named *entry.Entry) []byte {
	start := len(b)
	b = ber.Open(b, ber.Context(0)|ber.Constructed)
	empty := len(b)
	for i := range spec.attributes {
		values := spec.attributes[i].values(named)
		if len(values) == 0 {
			continue
		}
		attribute := len(b)
		b = ber.Open(b, ber.Sequence)
		b = ber.AppendString(b, ber.OctetString, spec.attributes[i].text)
		set := len(b)
		b = ber.Open(b, ber.Set)
		for _, v := range values {
			b = ber.AppendString(b, ber.OctetString, v)
		}
		b = ber.Close(b, set)
		b = ber.Close(b, attribute)
	}
	if len(b) == empty {
		return b[:start]
	}
	return ber.Close(b, start)
}

// named reads the entry that a value names; nil: there is none.
func (st *stream) named(ctx context.Context, spec *derefSpec, value []byte) (*entry.Entry, error) {
	name, err := dn.Parse(string(value))
	if err != nil {
		return nil, nil
	}
	at, err := st.s.Find(ctx, name)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	only := make([]*schema.AttributeType, len(spec.attributes))
	for i := range only {
		only[i] = spec.attributes[i].typ
	}
	for found, err := range st.s.Results(ctx, []entry.ID{at.ID}, partition.Query{Filter: st.query.Filter, Only: only}) {
		if err != nil {
			return nil, err
		}
		return found.Entry, nil
	}
	return nil, nil
}
