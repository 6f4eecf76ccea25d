package judge

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Case is an entry that a Judge decides about: an entry that was read from the state, or one
// that is not stored.
type Case struct {
	judge *Judge
	name  *dn.Name
	entry *entry.Entry
}

// Case returns the case of an entry and its name.
func (j *Judge) Case(name *dn.Name, e *entry.Entry) Case { return Case{j, name, e} }

// decide is Judge.Decide for the entry.
func (c Case) decide(ctx context.Context) (*acl.Decision, error) {
	j := c.judge
	if j.decided(c.entry) {
		return j.decision, nil
	}
	name, err := c.name.DN()
	if err != nil {
		return nil, err
	}
	return j.Decide(ctx, name, c.entry, j.source(name, c.entry))
}

// Sees reports whether the requester may know that the entry exists.
func (c Case) Sees(ctx context.Context) (bool, error) {
	if c.judge.SeesAll() {
		return true, nil
	}
	d, err := c.decide(ctx)
	return d != nil && d.Entry(acl.See), err
}

// MayFollow is [Judge.MayFollowAt] for the entry.
func (c Case) MayFollow(ctx context.Context, t *schema.AttributeType) (bool, error) {
	if c.judge.ReadsAll() {
		return true, nil
	}
	d, err := c.decide(ctx)
	return d != nil && d.Entry(acl.See) && d.All(t, acl.Show), err
}

// Shown returns the attributes and values of the entry that the requester may be shown. It
// changes the parameter attributes in place.
func (c Case) Shown(ctx context.Context, attributes []entry.Attribute) ([]entry.Attribute, error) {
	if c.judge.ReadsAll() {
		return attributes, nil
	}
	if c.judge.showsAlways(attributes) {
		return attributes, nil
	}
	d, err := c.decide(ctx)
	if err != nil {
		return nil, err
	}
	return allowed(d, attributes, acl.Show), nil
}

// ShowsAll reports whether the requester may be shown all values of a description.
func (c Case) ShowsAll(ctx context.Context, t *schema.AttributeType, options string) (bool, error) {
	if c.judge.ReadsAll() {
		return true, nil
	}
	d, err := c.decide(ctx)
	return d != nil && d.Description(t, options, acl.Show), err
}

// ShowsSecret reports whether the requester may be shown that a secret attribute of the entry
// has changed. Secrets have no history, so their earlier values are never shown.
func (c Case) ShowsSecret(ctx context.Context, t *schema.AttributeType) (bool, error) {
	if c.judge.unrestricted || t == nil {
		return t != nil, nil
	}
	d, err := c.decide(ctx)
	return d != nil && d.All(t, acl.Show), err
}

// ShowsRules reports whether the requester may be shown the access rules at the entry.
// Even a requester who may read everything needs a rule that grants accessRule by name.
func (c Case) ShowsRules(ctx context.Context, t *schema.AttributeType) (bool, error) {
	if c.judge.unrestricted {
		return true, nil
	}
	d, err := c.decide(ctx)
	return d != nil && d.All(t, acl.Show), err
}

// Allowed returns the attributes and values of the entry on which the requester has the
// rights r. If the requester does not see the entry, Allowed returns nothing. It changes the
// parameter attributes in place.
func (c Case) Allowed(ctx context.Context, attributes []entry.Attribute, r acl.Rights) ([]entry.Attribute, error) {
	if c.judge.ReadsAll() {
		return attributes, nil
	}
	d, err := c.decide(ctx)
	if err != nil || d == nil || !d.Entry(acl.See) {
		return nil, err
	}
	return allowed(d, attributes, r), nil
}

// Values is [Judge.Values] for the entry. If the requester does not see the entry, the returned function returns false for every value.
func (c Case) Values(ctx context.Context, r acl.Rights) (func(t *schema.AttributeType, value []byte) bool, error) {
	d, err := c.decide(ctx)
	seen := d != nil && d.Entry(acl.See)
	return func(t *schema.AttributeType, value []byte) bool { return seen && d.Value(t, "", value, r) }, err
}

// Searchable returns the entry for sorting. If [Judge.SortsAll] returns true for the keys, the entry is
// complete. Otherwise it lacks the values that the requester may not search.
func (c Case) Searchable(ctx context.Context, keys []partition.SortKey) (*entry.Entry, error) {
	if c.judge.SortsAll(keys) {
		return c.entry, nil
	}
	d, err := c.decide(ctx)
	if err != nil {
		return nil, err
	}
	attributes := append([]entry.Attribute(nil), c.entry.Attributes...)
	return &entry.Entry{ID: c.entry.ID, Attributes: allowed(d, attributes, acl.Search)}, nil
}

// allowed returns the values of attributes on which a decision grants the rights r.
func allowed(d *acl.Decision, attributes []entry.Attribute, r acl.Rights) []entry.Attribute {
	kept := attributes[:0]
	for _, a := range attributes {
		switch {
		case d.Description(a.Type, a.Options, r):
			kept = append(kept, a)
		case d.Some(a.Type, r):
			var values [][]byte
			for _, v := range a.Values {
				if d.Value(a.Type, a.Options, v, r) {
					values = append(values, v)
				}
			}
			if len(values) > 0 {
				kept = append(kept, entry.Attribute{Type: a.Type, Options: a.Options, Values: values})
			}
		}
	}
	return kept
}
