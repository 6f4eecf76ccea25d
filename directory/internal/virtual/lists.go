package virtual

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A view of the kind list has a record for each entry that it lists. Access rules decide
// about the listed entry. A requester sees the record only if the requester sees the listed
// entry, and sees only the attributes that the requester may read in the listed entry.

// listBatch is the number of entries that are read at once.
const listBatch = 128

// list offers the records of a list. All records of the list together count as one result in
// v.number. If a page ends within the list, the next page continues behind the key of the
// page's last record.
func (v *viewSearch) list(ctx context.Context, d *materialized.Definition) error {
	defer func() { v.number++ }()
	if v.number < v.had {
		return nil
	}
	o := materialized.ListOptions{Filter: v.filter, Most: v.req.Limits.Candidates}
	if position, _, ok := v.start(); ok && v.number == v.had {
		o.After = string(position)
	}
	batch := make([]materialized.Listed, 0, listBatch)
	for x, err := range materialized.Each(ctx, v.req.Snapshot, d, o) {
		if err != nil {
			return busyIfTooMany(err)
		}
		if batch = append(batch, x); len(batch) == listBatch {
			if err := v.offerListed(ctx, d, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return v.offerListed(ctx, d, batch)
}

// offerListed offers the records of some entries.
func (v *viewSearch) offerListed(ctx context.Context, d *materialized.Definition, batch []materialized.Listed) error {
	if v.listed += len(batch); v.req.Limits.Candidates > 0 && v.listed > v.req.Limits.Candidates {
		return op.Errorf(op.AdminLimitExceeded, "the search looks at more than %d records, the limit on candidates: narrow it", v.req.Limits.Candidates)
	}
	ids := make([]entry.ID, len(batch))
	for i := range batch {
		ids[i] = batch[i].ID
	}
	next := 0
	for found, err := range search.Among(ctx, v.req.Snapshot, ids, listedQuery(ctx, v.req, d)) {
		if err != nil {
			return err
		}
		for batch[next].ID != found.ID {
			next++
		}
		if err := v.offerRecord(ctx, d, found, batch[next].Key); err != nil {
			return err
		}
	}
	return v.req.Judge.Failure()
}

func (v *viewSearch) offerRecord(ctx context.Context, d *materialized.Definition, found *partition.Result, key string) error {
	tested, err := listedEntry(ctx, v.req, d, found, acl.Search)
	if err != nil || !tested.matches(v.req, v.filter) {
		return err
	}
	if _, err := v.out.Admit(true); err != nil {
		return err
	}
	if p := v.out.Page; p.IsFull() {
		p.GoOn([]byte(key), v.number)
	}
	shown, err := listedEntry(ctx, v.req, d, found, acl.Show)
	if err != nil {
		return err
	}
	return v.out.Unstored(shown.Name, &shown.Entry)
}

// listedQuery returns a query for those entries of a list that the requester sees.
func listedQuery(ctx context.Context, req *request.Request, d *materialized.Definition) partition.Query {
	return partition.Query{
		Scope: op.BaseObject, Filter: req.Judge.OnlySeen(ctx, filter.Const(filter.True)),
		Only: append(d.Only(), req.Judge.NeededTypes()...),
	}
}

// listedEntry returns the record of an entry, with the values on which the requester has
// the rights r.
func listedEntry(ctx context.Context, req *request.Request, d *materialized.Definition, found *partition.Result, r acl.Rights) (*Entry, error) {
	attributes, err := d.Compose(ctx, req.Snapshot, found.Located, found.Entry, req.Judge.NeededTypes(),
		func(ctx context.Context, at partition.Located, e *entry.Entry, as []entry.Attribute) ([]entry.Attribute, error) {
			return req.Judge.Case(at.Name, e).Allowed(ctx, as, r)
		})
	if err != nil {
		return nil, err
	}
	id := found.ID.String()
	v := newEntry(req, "entryUUID="+id+","+d.Name.String(), "viewRecord")
	v.add(req.Schema, "entryUUID", id)
	v.add(req.Schema, "viewEntry", found.Name.String())
	v.Entry.Attributes = append(v.Entry.Attributes, attributes...)
	return v, nil
}

// listedNamed finds the listed entry whose record has the given name. It returns false if
// there is no such record, or if the requester does not see the entry.
func listedNamed(ctx context.Context, req *request.Request, d *materialized.Definition, name dn.DN) (found partition.Result, ok bool, err error) {
	rdn := name[0]
	if t := req.Schema.Attribute("entryUUID"); len(rdn) != 1 || t == nil || req.Schema.Attribute(rdn[0].Type) != t {
		return found, false, nil
	}
	id, err := entry.ParseID(string(rdn[0].Value))
	if err != nil {
		return found, false, nil
	}
	if in, err := d.In(ctx, req.Snapshot, id); err != nil || !in {
		return found, false, err
	}
	q := listedQuery(ctx, req, d)
	q.Base = id
	found, ok, err = search.Lookup(ctx, req.Snapshot, q, id)
	if err == nil {
		err = req.Judge.Failure()
	}
	return found, ok, err
}
