package render

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/wellknown"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// maxDereferenced is the largest number of names that are dereferenced for one entry. An
// entry with more names is returned without the dereference control
// (draft-masarati-ldap-deref-00, 2.1).
const maxDereferenced = 1000

// derefSpec requests attributes of the entries that an attribute names.
type derefSpec struct {
	attribute  description
	attributes []description
}

// description is a resolved attribute description. It does not include subtypes
// (draft-masarati-ldap-deref-00, 2.1).
type description struct {
	text    string // as the client sent it
	typ     *schema.AttributeType
	options string
}

func describe(text string, s *schema.Schema) description {
	t, options := s.Describe(text)
	return description{text, t, entry.SortOptions(options)}
}

// describeAll resolves the requested specifications. It drops repeated attributes, and it drops a
// specification if the values of its attribute are not names. From the attributes to return, it
// drops secrets that the requester may not be shown, and attributes that the schema does not
// define.
func describeAll(req *request.Request, asked []control.DerefSpec) (all []derefSpec) {
	if asked == nil {
		return nil
	}
	s, secrets := req.Schema, !req.IsPast() && !req.Judge.Unrestricted() && req.Judge.Secrets(acl.Show)
	type selected struct {
		spec    int
		typ     *schema.AttributeType
		options string
	}
	seen := map[selected]bool{}
	for i := range asked {
		x := derefSpec{attribute: describe(asked[i].Attribute, s)}
		if x.attribute.typ == nil || !wellknown.IsName(x.attribute.typ) {
			continue
		}
		for _, a := range asked[i].Attributes {
			d := describe(a, s)
			if d.typ == nil || d.typ.Secret() && !secrets || seen[selected{i, d.typ, d.options}] {
				continue
			}
			seen[selected{i, d.typ, d.options}] = true
			x.attributes = append(x.attributes, d)
		}
		all = append(all, x)
	}
	return all
}

func (d *description) values(e *entry.Entry) [][]byte {
	if a := e.Find(d.typ, d.options); a != nil {
		return a.Values
	}
	return nil
}

// dereferenced returns the dereference control for a found entry. For each DN in an
// attribute that the request dereferences, the control contains the requested attributes of
// the entry with that DN. If there is no such entry, or if the requester does not see the
// entry, the control contains the DN without attributes.
func (v *Presenter) dereferenced(ctx context.Context, found *partition.Result) ([]op.Control, error) {
	e, err := v.shownEntry(ctx, found)
	if err != nil {
		return nil, err
	}
	specs := v.dereference
	names := 0
	for i := range specs {
		names += len(specs[i].attribute.values(e))
	}
	if names == 0 || names > maxDereferenced {
		return nil, nil
	}
	if err := v.followed(names); err != nil {
		return nil, err
	}
	var d control.DereferenceResult
	for i := range specs {
		for _, name := range specs[i].attribute.values(e) {
			named, err := v.named(ctx, &specs[i], name)
			if err != nil {
				return nil, err
			}
			r := control.DerefRes{Attribute: specs[i].attribute.text, Name: name, Attributes: specs[i].of(named)}
			if err := v.draw(2 * r.Size()); err != nil { // the values, and the value of the control
				return nil, err
			}
			d.Results = append(d.Results, r)
		}
	}
	return []op.Control{{OID: control.OIDDereference, Value: d.Encode()}}, nil
}

// followed counts the names that are dereferenced for one more entry. They are candidates of the
// search, because each of them is an entry that is read.
func (v *Presenter) followed(names int) error {
	v.names += names
	if most := v.Req.Limits.Candidates; most > 0 && v.names > most {
		return op.Errorf(op.AdminLimitExceeded, "the search dereferences more than %d names, the limit on candidates: narrow it", most)
	}
	return v.draw(-v.drawn) // what the entry before took
}

// draw takes memory for the dereferenced entries of one entry.
func (v *Presenter) draw(n int64) error {
	err := v.Req.Draw(n)
	if err == nil {
		v.drawn += n
	}
	return err
}

// The method "of" returns the requested attributes for which the entry has values. It returns nil
// if e is nil.
func (spec *derefSpec) of(e *entry.Entry) (attributes []op.PartialAttribute) {
	if e == nil {
		return nil
	}
	for i := range spec.attributes {
		if values := spec.attributes[i].values(e); len(values) > 0 {
			attributes = append(attributes, op.PartialAttribute{Description: spec.attributes[i].text, Values: values})
		}
	}
	return attributes
}

// named reads the entry that a value names. It returns nil if there is no such entry, or if
// the requester does not see the entry.
func (v *Presenter) named(ctx context.Context, spec *derefSpec, value []byte) (*entry.Entry, error) {
	name, err := dn.Parse(string(value))
	if err != nil {
		return nil, nil
	}
	at, err := v.Req.Judge.Find(ctx, name)
	if request.IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	only := make([]*schema.AttributeType, len(spec.attributes))
	for i := range only {
		only[i] = spec.attributes[i].typ
	}
	only = append(only, v.Req.Judge.NeededTypes()...)
	for found, err := range search.Results(ctx, v.Req.Snapshot, []entry.ID{at.ID}, partition.Query{Filter: filter.Const(filter.True), Only: only, Secrets: slices.ContainsFunc(only, (*schema.AttributeType).Secret)}) {
		if err != nil {
			return nil, err
		}
		return v.shownEntry(ctx, found)
	}
	return nil, nil
}

// shownEntry returns an entry with only the values that the client may be shown.
func (v *Presenter) shownEntry(ctx context.Context, found *partition.Result) (*entry.Entry, error) {
	if v.Req.Judge.ReadsAll() {
		return found.Entry, nil
	}
	attributes, err := v.Req.Judge.Case(found.Name, found.Entry).Shown(ctx, slices.Clone(found.Entry.Attributes))
	return &entry.Entry{ID: found.ID, Attributes: attributes}, err
}
