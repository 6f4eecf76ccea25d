package write

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/locate"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// The method "may" returns an error if the requester may not make the update. If there is a
// referral at or above the entry, the error is the referral, because another server then
// decides about the update.
func (u *update) may(ctx context.Context, req *request.Request) error {
	if err := locate.CheckReferral(ctx, req, u.name, ""); err != nil {
		return err
	}
	if req.Judge.Unrestricted() {
		return nil
	}
	if catalog.IsSubschema(u.name) {
		return refuseUnless(req, req.Judge.Everywhere(), acl.Manage)
	}
	if catalog.IsConfig(u.name) {
		return mayConfigure(ctx, req, u.name)
	}
	if u.adds {
		return u.mayAdd(ctx, req)
	}
	at, err := req.Judge.Find(ctx, u.name)
	if err != nil {
		return err
	}
	d, err := req.Judge.DecideAt(ctx, at)
	if err != nil {
		return err
	}
	if req.Controls.Rules.Relaxed && !d.Manages() {
		return req.Judge.Refuse(d, acl.Question{Right: acl.Manage})
	}
	return u.allowed(ctx, req, at, d)
}

// refuseUnless returns an error unless the requester has all of the given rights on an
// entry.
func refuseUnless(req *request.Request, d *acl.Decision, rights acl.Rights) error {
	for _, right := range rights.Each() {
		if !d.Entry(right) {
			return req.Judge.Refuse(d, acl.Question{Right: right})
		}
	}
	return nil
}

// refuseValue returns an error if the requester lacks a right on a value of a description.
// If value is nil, the requester needs the right on all values.
func refuseValue(req *request.Request, d *acl.Decision, right acl.Rights, t *schema.AttributeType, options string, value []byte) error {
	if value == nil && d.Description(t, options, right) || value != nil && d.Value(t, options, value, right) {
		return nil
	}
	return req.Judge.Refuse(d, acl.Question{Right: right, Type: t, Options: options, Value: value})
}

// mayAdd returns an error if the requester may not add the new entry. The right to add an
// entry includes the right to insert the entry's attributes, except operational and reserved
// attributes.
func (u *update) mayAdd(ctx context.Context, req *request.Request) error {
	if len(u.name) > 1 {
		if _, err := req.Judge.Find(ctx, u.name.Parent()); err != nil {
			return err
		}
	}
	e := proposed(req, u.name[0], u.attributes)
	d, err := req.Judge.DecideNew(ctx, u.name, e)
	if err != nil {
		return err
	}
	rights := acl.Add
	if req.Controls.Rules.Relaxed {
		rights |= acl.Manage
	}
	if err := refuseUnless(req, d, rights); err != nil {
		return err
	}
	for _, a := range e.Attributes {
		if a.Type == req.Known.AccessRule {
			if err := refuseUnless(req, d, acl.Manage); err != nil {
				return err
			}
			continue
		}
		if !a.Type.Operational() && !acl.Reserved(a.Type) {
			continue
		}
		for _, v := range a.Values {
			if err := refuseValue(req, d, acl.Insert, a.Type, a.Options, v); err != nil {
				return err
			}
		}
	}
	return mayTake(ctx, req, u.name, entry.Root)
}

// mayTake returns an error if the new name already belongs to an entry that the requester does
// not see. The error is the same as for a missing right.
func mayTake(ctx context.Context, req *request.Request, name dn.DN, own entry.ID) error {
	at, err := req.Snapshot.Find(ctx, name)
	if err != nil || at.ID == own {
		return nil // no other entry has the name, or the update itself will report the error
	}
	if _, err = req.Judge.Find(ctx, name); request.IsMissing(err) {
		return req.Judge.Refuse(acl.Nothing, acl.Question{Right: acl.See})
	}
	return err
}

// proposed returns a new entry in the form that access rules test. It adds the values in the
// RDN and the superclasses, because the client may omit them. It drops unknown attributes,
// for which the update is refused later.
func proposed(req *request.Request, rdn dn.RDN, attributes []op.PartialAttribute) *entry.Entry {
	e := &entry.Entry{}
	for _, a := range attributes {
		if t, options := req.Schema.Describe(a.Description); t != nil {
			e.Attributes = append(e.Attributes, entry.Attribute{Type: t, Options: entry.SortOptions(options), Values: a.Values})
		}
	}
	withClasses(req, e)
	return withName(req, e, rdn)
}

// withClasses adds the superclasses of an entry's classes.
func withClasses(req *request.Request, e *entry.Entry) {
	var implied [][]byte
	var add func(c *schema.ObjectClass)
	add = func(c *schema.ObjectClass) {
		for _, sup := range c.Sup {
			implied = append(implied, []byte(sup.Name()))
			add(sup)
		}
	}
	for _, v := range e.Values(req.Known.ObjectClass) {
		if c := req.Schema.Class(string(v)); c != nil {
			add(c)
		}
	}
	if len(implied) > 0 {
		e.Attributes = append(e.Attributes, entry.Attribute{Type: req.Known.ObjectClass, Values: implied})
	}
}

// withName adds the values in an RDN to an entry.
func withName(req *request.Request, e *entry.Entry, rdn dn.RDN) *entry.Entry {
	for _, ava := range rdn {
		if t := req.Schema.Attribute(ava.Type); t != nil {
			e.Attributes = append(e.Attributes, entry.Attribute{Type: t, Values: [][]byte{ava.Value}})
		}
	}
	return e
}

// mayModify returns an error if the requester may not make the given changes of an entry. It
// runs before the update looks at the values that it changes, so an error reveals none of
// them.
func mayModify(req *request.Request, d *acl.Decision, changes []op.Modification) error {
	for i := range changes {
		c := &changes[i]
		t, options := req.Schema.Describe(c.Description)
		if t == nil {
			continue // an unknown attribute is refused later
		}
		if err := mayGiveRules(req, d, c.Description); err != nil {
			return err
		}
		if t == req.Known.AccessRule {
			continue
		}
		options = entry.SortOptions(options)
		if err := mayChange(req, d, c, t, options); err != nil {
			return err
		}
	}
	if !touchesPassword(req, changes) || isPasswordChange(req, passwordChanges(req, changes)) {
		return nil
	}
	return refuseUnless(req, d, acl.Manage)
}

// mayChange returns an error if the requester may not make one modification.
func mayChange(req *request.Request, d *acl.Decision, c *op.Modification, t *schema.AttributeType, options string) error {
	all := c.Kind == op.ModReplace || c.Kind == op.ModIncrement || c.Kind == op.ModDelete && len(c.Values) == 0
	if all {
		if err := refuseValue(req, d, acl.Remove, t, options, nil); err != nil {
			return err
		}
	}
	right := acl.Insert
	switch c.Kind {
	case op.ModIncrement:
		return refuseValue(req, d, acl.Insert, t, options, nil)
	case op.ModDelete:
		right = acl.Remove
	}
	for _, v := range c.Values {
		if v == nil {
			v = []byte{}
		}
		if err := refuseValue(req, d, right, t, options, v); err != nil {
			return err
		}
	}
	return nil
}

// passwordChanges returns the changes of passwords.
func passwordChanges(req *request.Request, changes []op.Modification) (of []op.Modification) {
	for i := range changes {
		if password.Is(req, changes[i].Description) {
			of = append(of, changes[i])
		}
	}
	return of
}

func touchesPassword(req *request.Request, changes []op.Modification) bool {
	return len(passwordChanges(req, changes)) > 0
}

func mayDelete(_ context.Context, req *request.Request, _ partition.Located, d *acl.Decision) error {
	return refuseUnless(req, d, acl.Delete)
}

// mayDeleteTree returns an error if a tree contains an entry that the requester may not
// delete.
func mayDeleteTree(ctx context.Context, req *request.Request, at partition.Located, _ *acl.Decision) error {
	if req.Judge.Everywhere().Entry(acl.Delete | acl.See) {
		return nil
	}
	decide, last := req.Judge.Decider(ctx), acl.Nothing // the last decision that did not allow the deletion
	kept := filter.Place(req.Judge.NeededTypes(), func(name dn.DN, e filter.Source) bool {
		d := decide(name, e)
		if d == nil || d.Entry(acl.Delete|acl.See) {
			return d == nil
		}
		last = d
		return true
	})
	for _, err := range search.Search(ctx, req.Snapshot, partition.Query{Base: at.ID, Scope: op.WholeSubtree, Filter: kept, Only: req.Judge.NeededTypes()}) {
		if err != nil {
			return err
		}
		return req.Judge.Refuse(last, acl.Question{Right: acl.Delete})
	}
	return req.Judge.Failure()
}

// mayRename returns an error if the requester may not make a rename. It checks the new name.
// For a move, it also checks whether the requester may have the renamed entry at the new
// place.
func (u *update) mayRename(ctx context.Context, req *request.Request, at partition.Located, d *acl.Decision, rdn dn.RDN, superior *dn.DN) error {
	if err := refuseUnless(req, d, acl.Rename); err != nil {
		return err
	}
	if err := mayName(req, d, rdn); err != nil {
		return err
	}
	if superior == nil {
		return mayTake(ctx, req, append(dn.DN{rdn}, u.name.Parent()...), at.ID)
	}
	if err := refuseUnless(req, d, acl.Move); err != nil {
		return err
	}
	if _, err := req.Judge.Find(ctx, *superior); err != nil {
		return err
	}
	e, err := req.Snapshot.Some(ctx, at.ID, req.Judge.NeededTypes())
	if err != nil || e == nil {
		return err
	}
	moved := withName(req, &entry.Entry{ID: e.ID, Attributes: slices.Clone(e.Attributes)}, rdn)
	name := append(dn.DN{rdn}, *superior...)
	there, err := req.Judge.DecideNew(ctx, name, moved)
	if err != nil {
		return err
	}
	if !there.Entry(acl.Add) {
		if err := refuseUnless(req, there, acl.Receive); err != nil {
			return err
		}
	}
	return mayTake(ctx, req, name, at.ID)
}

// mayName returns an error if a new name has reserved attributes that the requester may
// not insert. The right to rename includes the right to insert all other attributes.
func mayName(req *request.Request, d *acl.Decision, rdn dn.RDN) error {
	for _, ava := range rdn {
		t := req.Schema.Attribute(ava.Type)
		if t == nil || !acl.Reserved(t) {
			continue
		}
		if err := refuseValue(req, d, acl.Insert, t, "", ava.Value); err != nil {
			return err
		}
	}
	return nil
}
