package directory

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

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

// takeDereference reads a dereference control (draft-masarati-ldap-deref-00).
func takeDereference(o *operation, _ *op.Message, c *op.Control) error {
	d, err := control.ParseDereference(c.Value)
	if err != nil {
		return malformed("dereference", err)
	}
	var specs []derefSpec
	for i := range d.Specs {
		specs = append(specs, describeSpec(&d.Specs[i], o.schema))
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

// describeSpec looks the names up. Of the attributes it leaves out those that are
// unknown, which have no values, and secrets, which have none to show.
func describeSpec(spec *control.DerefSpec, s *schema.Schema) derefSpec {
	x := derefSpec{attribute: describe(spec.Attribute, s)}
	for _, a := range spec.Attributes {
		if d := describe(a, s); d.typ != nil && !d.typ.Secret() {
			x.attributes = append(x.attributes, d)
		}
	}
	return x
}

// dereferenced returns the control that goes with an entry: what the entries have
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
	var d control.DereferenceResult
	for i := range specs {
		for _, name := range specs[i].attribute.values(e) {
			named, err := st.named(ctx, &specs[i], name)
			if err != nil {
				return nil, err
			}
			d.Results = append(d.Results, control.DerefRes{Attribute: specs[i].attribute.text, Name: name, Attributes: specs[i].of(named)})
		}
	}
	return []op.Control{{OID: control.OIDDereference, Value: d.Encode()}}, nil
}

// of returns the attributes that an entry has values of; nil: there is no entry.
func (spec *derefSpec) of(named *entry.Entry) (attributes []op.PartialAttribute) {
	if named == nil {
		return nil
	}
	for i := range spec.attributes {
		if values := spec.attributes[i].values(named); len(values) > 0 {
			attributes = append(attributes, op.PartialAttribute{Description: spec.attributes[i].text, Values: values})
		}
	}
	return attributes
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
