package write

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/locate"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/subschema"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// may refuses an update that the requester may not make. It returns a referral first,
// because then the other server decides.
func (u *update) may(ctx context.Context, req *request.Request) error {
	if err := locate.CheckReferral(ctx, req, u.name, ""); err != nil {
		return err
	}
	if req.Judge.Free() {
		return nil
	}
	if subschema.Is(u.name) {
		return refuseUnless(req.Judge.Manages())
	}
	if virtual.IsConfig(u.name) {
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
		return request.ErrAccess
	}
	return u.allowed(ctx, req, at, d)
}

func refuseUnless(allowed bool) error {
	if !allowed {
		return request.ErrAccess
	}
	return nil
}

// mayAdd judges a new entry by its content and its place. The right to add includes its
// attributes, except operational and reserved ones.
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
	if !d.Entry(acl.Add) || req.Controls.Rules.Relaxed && !d.Manages() {
		return request.ErrAccess
	}
	for _, a := range e.Attributes {
		if a.Type == req.Known.AccessRule {
			if !d.Manages() {
				return request.ErrAccess
			}
			continue
		}
		if !a.Type.Operational() && !acl.Reserved(a.Type) {
			continue
		}
		for _, v := range a.Values {
			if !d.Value(a.Type, a.Options, v, acl.Insert) {
				return request.ErrAccess
			}
		}
	}
	return mayTake(ctx, req, u.name, entry.Root)
}

// mayTake refuses a name if an entry that the requester does not see has it. The error is
// that of a missing right.
func mayTake(ctx context.Context, req *request.Request, name dn.DN, own entry.ID) error {
	at, err := req.Snapshot.Find(ctx, name)
	if err != nil || at.ID == own {
		return nil // the name is free, or the update itself reports what is wrong with it
	}
	if _, err = req.Judge.Find(ctx, name); request.IsMissing(err) {
		return request.ErrAccess
	}
	return err
}

// proposed returns a new entry as access rules see it: with the values of its name, and
// the superclasses that the client may omit. It drops unknown attributes, which are
// refused later.
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

// withName adds the values of a name to an entry.
func withName(req *request.Request, e *entry.Entry, rdn dn.RDN) *entry.Entry {
	for _, ava := range rdn {
		if t := req.Schema.Attribute(ava.Type); t != nil {
			e.Attributes = append(e.Attributes, entry.Attribute{Type: t, Values: [][]byte{ava.Value}})
		}
	}
	return e
}

// mayModify judges changes of an entry's attributes. It does so before any present value
// is looked at.
func mayModify(req *request.Request, d *acl.Decision, changes []op.Modification) error {
	for i := range changes {
		c := &changes[i]
		t, options := req.Schema.Describe(c.Description)
		if t == nil {
			continue // refused later as unknown
		}
		if err := mayGiveRules(req, d, c.Description); err != nil {
			return err
		}
		if t == req.Known.AccessRule {
			continue
		}
		options = entry.SortOptions(options)
		all := c.Kind == op.ModReplace || c.Kind == op.ModIncrement || c.Kind == op.ModDelete && len(c.Values) == 0
		if all && !d.Description(t, options, acl.Remove) {
			return request.ErrAccess
		}
		if c.Kind == op.ModIncrement && !d.Description(t, options, acl.Insert) {
			return request.ErrAccess
		}
		for _, v := range c.Values {
			right := acl.Insert
			if c.Kind == op.ModDelete {
				right = acl.Remove
			}
			if c.Kind != op.ModIncrement && !d.Value(t, options, v, right) {
				return request.ErrAccess
			}
		}
	}
	if d.Manages() || !touchesPassword(req, changes) || isPasswordChange(req, passwordChanges(req, changes)) {
		return nil
	}
	return request.ErrAccess
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

func mayDelete(_ context.Context, _ *request.Request, _ partition.Located, d *acl.Decision) error {
	return refuseUnless(d.Entry(acl.Delete))
}

// mayDeleteTree refuses to delete a tree that contains an entry that the requester may
// not delete.
func mayDeleteTree(ctx context.Context, req *request.Request, at partition.Located, _ *acl.Decision) error {
	if req.Judge.Always().Entry(acl.Delete | acl.See) {
		return nil
	}
	decide := req.Judge.Decider(ctx)
	kept := filter.Place(req.Judge.LooksAt(), func(name dn.DN, e filter.Source) bool {
		d := decide(name, e)
		return d == nil || !d.Entry(acl.Delete|acl.See)
	})
	for _, err := range req.Snapshot.Search(ctx, partition.Query{Base: at.ID, Scope: op.WholeSubtree, Filter: kept, Only: req.Judge.LooksAt()}) {
		if err != nil {
			return err
		}
		return request.ErrAccess
	}
	return req.Judge.Failure()
}

// mayRename judges a new name, and for a move the entry as it will be at its new place.
func (u *update) mayRename(ctx context.Context, req *request.Request, at partition.Located, d *acl.Decision, rdn dn.RDN, superior *dn.DN) error {
	if !d.Entry(acl.Rename) {
		return request.ErrAccess
	}
	if err := mayName(req, d, rdn); err != nil {
		return err
	}
	if superior == nil {
		return mayTake(ctx, req, append(dn.DN{rdn}, u.name.Parent()...), at.ID)
	}
	if !d.Entry(acl.Move) {
		return request.ErrAccess
	}
	if _, err := req.Judge.Find(ctx, *superior); err != nil {
		return err
	}
	e, err := req.Snapshot.Some(ctx, at.ID, req.Judge.LooksAt())
	if err != nil || e == nil {
		return err
	}
	moved := withName(req, &entry.Entry{ID: e.ID, Attributes: slices.Clone(e.Attributes)}, rdn)
	name := append(dn.DN{rdn}, *superior...)
	there, err := req.Judge.DecideNew(ctx, name, moved)
	if err != nil {
		return err
	}
	if !there.Entry(acl.Receive) && !there.Entry(acl.Add) {
		return request.ErrAccess
	}
	return mayTake(ctx, req, name, at.ID)
}

// mayName refuses reserved attributes in a new name unless the requester may insert them.
// The right to rename includes all others.
func mayName(req *request.Request, d *acl.Decision, rdn dn.RDN) error {
	for _, ava := range rdn {
		t := req.Schema.Attribute(ava.Type)
		if t != nil && acl.Reserved(t) && !d.Value(t, "", ava.Value, acl.Insert) {
			return request.ErrAccess
		}
	}
	return nil
}
