package history

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A returning is an entry that was deleted and is added again. The state before its deletion decides
// what it gets besides the attributes that the past state shows: its password is the last one that it
// had, and the values that named it come back.
type returning struct {
	id      entry.ID
	name    string // its new name
	old     string // its name before the deletion
	secrets []entry.Attribute
	before  *partition.Snapshot // the state before the deletion; nil if it is not kept
}

// returnings finds out what the entries that are added again get.
func (b *bringing) returnings(ctx context.Context, done *Restored) error {
	b.coming, b.befores = map[entry.ID]*returning{}, map[table.Revision]*partition.Snapshot{}
	for _, rec := range done.Records {
		if _, ok := rec.Request.(*op.Add); !ok {
			continue
		}
		r, err := b.returning(ctx, rec, done)
		if err != nil {
			return err
		}
		b.coming[r.id] = r
	}
	return b.references(ctx, done)
}

func (b *bringing) returning(ctx context.Context, rec *Record, done *Restored) (*returning, error) {
	r := &returning{id: rec.ID, name: rec.Name}
	d, err := b.deletion(ctx, r)
	if err != nil {
		return nil, err
	}
	known := d != nil && d.Known
	if known {
		r.secrets = d.Secrets
	} else if r.secrets, err = b.then.Secrets(ctx, r.id); err != nil {
		return nil, err
	}
	if len(r.secrets) == 0 && !known && b.o.Secrets != nil {
		if r.secrets, err = b.o.Secrets(ctx, r.id); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(r.secrets, func(a entry.Attribute) bool { return a.Type.Name() == "userPassword" }) {
		done.Kept++
	} else if !known {
		done.Lost = append(done.Lost, rec.Name)
	}
	return r, nil
}

// deletion returns the last deletion of an entry that was there before, and sets r.before if that state is kept. A commit may
// also have deleted an entry that it had added.
func (b *bringing) deletion(ctx context.Context, r *returning) (*write.Deletion, error) {
	for s := &b.tx.Snapshot; ; {
		d, err := write.DeletionOf(ctx, s, r.id)
		if d == nil || err != nil || d.Shown <= b.p.DB.Horizon() {
			return d, err
		}
		if s, err = b.before(ctx, d.Shown); err != nil {
			return nil, err
		}
		node, err := changestream.Node(ctx, s, r.id)
		if err != nil {
			return nil, err
		}
		if node != nil {
			r.before = s
			return d, nil
		}
	}
}

// before returns the state before a revision.
func (b *bringing) before(ctx context.Context, r table.Revision) (*partition.Snapshot, error) {
	if s := b.befores[r]; s != nil {
		return s, nil
	}
	s, err := state.At(ctx, b.p, r-1)
	if err == nil {
		b.befores[r] = s
	}
	return s, err
}

func (b *bringing) close() {
	for _, s := range b.befores {
		s.Close()
	}
}

// references adds records that put back the values that named the returning entries and that the
// deletions removed. It leaves out the values of entries that the restore itself returns to their
// past state.
func (b *bringing) references(ctx context.Context, done *Restored) error {
	names := map[*partition.Snapshot]map[string]*returning{}
	for _, r := range b.coming {
		if r.before == nil {
			continue
		}
		name, err := r.before.Name(ctx, r.id)
		if err != nil {
			return err
		}
		if names[r.before] == nil {
			names[r.before] = map[string]*returning{}
		}
		r.old = name.String()
		names[r.before][Key(r.old, r.before.Schema())] = r
	}
	g := gathering{bringing: b, done: done, at: map[entry.ID]*Record{}}
	for s, of := range names {
		keys := map[string]bool{}
		for key := range of {
			keys[key] = true
		}
		all, err := write.ReferencesTo(ctx, s, keys)
		if err != nil {
			return err
		}
		for i := range all {
			if err := g.add(ctx, &all[i], of[all[i].Name]); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(g.records, func(a, b *Record) int { return a.ID.Compare(b.ID) })
	done.Records = append(done.Records, g.records...)
	return nil
}

// A gathering collects the values that come back, by the entries that get them.
type gathering struct {
	*bringing
	done    *Restored
	at      map[entry.ID]*Record
	records []*Record
}

func (g *gathering) add(ctx context.Context, ref *write.Reference, to *returning) error {
	if g.mine[ref.ID] {
		return nil
	}
	now := &g.tx.Snapshot
	node, err := changestream.Node(ctx, now, ref.ID)
	if err != nil {
		return err
	}
	t := now.Schema().Attribute(ref.Type.OID)
	if node == nil || t == nil {
		return g.lost(ctx, ref, to, "the entry or the attribute does not exist any more")
	}
	value := ref.Value
	if to.name != to.old && Key(to.name, now.Schema()) != ref.Name {
		value = []byte(to.name)
	}
	has, err := write.Holds(ctx, now, ref.ID, t, ref.Options, value, nil)
	if err != nil || has[0] {
		return err
	}
	if t.SingleValue && !has[1] {
		if values, err := now.ValuesOf(ctx, ref.ID, t); err != nil || values.Present() {
			return errors.Join(err, g.lost(ctx, ref, to, "it has another value now"))
		}
	}
	m, err := g.record(ctx, ref.ID)
	if err != nil {
		return err
	}
	description := t.Name() + ref.Options
	change := func(kind op.ModKind, value []byte) {
		m.Changes = append(m.Changes, op.Modification{Kind: kind, PartialAttribute: op.PartialAttribute{Description: description, Values: [][]byte{value}}})
	}
	if has[1] && !slices.ContainsFunc(m.Changes, func(c op.Modification) bool { return c.Kind == op.ModDelete && c.Description == description }) {
		// The deletion put the empty name in place of the last value, if it was not there before.
		if had, err := write.Holds(ctx, to.before, ref.ID, ref.Type, ref.Options, nil); err != nil || !had[0] {
			if err != nil {
				return err
			}
			change(op.ModDelete, []byte{})
		}
	}
	change(op.ModAdd, value)
	return nil
}

// record returns the change of an entry to which values come back.
func (g *gathering) record(ctx context.Context, id entry.ID) (*op.Modify, error) {
	rec := g.at[id]
	if rec == nil {
		name, err := g.tx.Name(ctx, id)
		if err != nil {
			return nil, err
		}
		rec = &Record{ID: id, Name: name.String(), Request: &op.Modify{Name: name.String()}}
		g.at[id], g.records = rec, append(g.records, rec)
	}
	return rec.Request.(*op.Modify), nil
}

// lost notes a value that does not come back.
func (g *gathering) lost(ctx context.Context, ref *write.Reference, to *returning, why string) error {
	name, err := to.before.Name(ctx, ref.ID)
	g.done.Unnamed = append(g.done.Unnamed, fmt.Sprintf("%s of %q does not name %q again: %s", ref.Type.Name()+ref.Options, name, to.name, why))
	return err
}

// accounts returns the attributes by which the server knows the state of an account, such as the
// time of its password. They are those that the entry had before its deletion.
func (r *returning) accounts(ctx context.Context, was *entry.Entry) ([]entry.Attribute, error) {
	if r.before != nil {
		e, err := r.before.Entry(ctx, r.id, false)
		if err != nil {
			return nil, err
		}
		was = e
	}
	var out []entry.Attribute
	for _, a := range was.Attributes {
		if a.Type.NoUserModification && write.OfAccounts(a.Type) {
			out = append(out, a)
		}
	}
	return out, nil
}
