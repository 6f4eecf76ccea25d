package virtual

import (
	"context"
	"slices"
	"strconv"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/delivery"
	"github.com/seed-4dac0d86/ldapd/directory/internal/filterprep"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// The definition of a view is an entry of the tree, directly below cn=views. The records of
// the view are computed, and have names below the definition. This file serves the searches
// whose scope can include records. All other searches run in the tree.
const (
	definitionDepth = 2 // number of RDNs in the name of a definition
	recordDepth     = 3
)

// IsBelowViews reports whether a name is the name of an entry that may define a view.
func IsBelowViews(name dn.DN) bool { return len(name) == definitionDepth && endsIn(name, "views") }

// HoldsDefinitions reports whether a name is cn=views, or the name of an entry that may
// define a view. A search with such a base that waits for changes returns only stored
// entries, and no records.
func HoldsDefinitions(name dn.DN) bool { return len(name) <= definitionDepth && endsIn(name, "views") }

// theViews serves the records of views.
type theViews struct{}

func (theViews) holds(name dn.DN) bool { return len(name) >= recordDepth && endsIn(name, "views") }

func (theViews) serves(base dn.DN, scope op.Scope) bool {
	if !endsIn(base, "views") {
		return false
	}
	switch scope {
	case op.BaseObject:
		return len(base) >= recordDepth
	case op.SingleLevel:
		return len(base) >= definitionDepth
	}
	return true
}

func (theViews) refusal() string {
	return "the records of a view follow from entries and cannot be changed"
}

// find returns the record with a name. It returns nil if the requester sees no such record.
// The operation then looks in the tree, and finds no entry with this name there.
func (theViews) find(ctx context.Context, req *request.Request, name dn.DN) (*Entry, error) {
	d, err := readableView(ctx, req, name.Parent())
	if err != nil || d == nil {
		return nil, err
	}
	if d.Kind == materialized.List {
		found, ok, err := listedNamed(ctx, req, d, name)
		if err != nil || !ok {
			return nil, err
		}
		return listedEntry(ctx, req, d, &found, acl.Search|acl.Compare)
	}
	rs, err := recordsNamed(ctx, req, d, name)
	if err != nil || len(rs) == 0 {
		return nil, err
	}
	return recordEntry(req, d, &rs[0]), nil
}

func (theViews) Search(ctx context.Context, req *request.Request, name dn.DN, r *op.Search, sink op.Sink) error {
	c := &req.Controls
	if c.Waits() || c.Vlv != nil || c.Assertion != nil {
		return op.Errorf(op.UnwillingToPerform, "records of views support paged searches, but no sorting, list views, assertions or persistent searches")
	}
	p, done, err := delivery.OpenPage(req, r)
	if done || err != nil {
		return err
	}
	s, err := pageState(ctx, req, p)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := resolveOrder(req, "a search for records of views", ""); err != nil {
		return err
	}
	ctx, cancel := delivery.LimitTime(ctx, req, r)
	defer cancel()
	v := &viewSearch{listing: &listing{req: req, r: r, filter: filterprep.PrepareUnstored(req, r.Filter)}, had: -1}
	v.out.Open(req, r, p, sink)
	p.AtPlace()
	if _, had, ok := v.start(); ok {
		v.had = had
	}
	return v.out.Finish(v.run(ctx, name))
}

// pageState returns the state that the search reads. If there are earlier pages, it is their
// state. Otherwise it is the state that the request reads.
func pageState(ctx context.Context, req *request.Request, p *delivery.Page) (*partition.Snapshot, error) {
	if !p.GoesOn() {
		return req.State(ctx)
	}
	s, err := req.Earlier(ctx, p.Revision)
	if err != nil {
		return nil, err
	}
	return req.Resume(ctx, s)
}

// A viewSearch is a search whose scope includes records of views. The results are numbered,
// and the next page continues at a number. A result has the same number on every page,
// because all pages show the same state, and because results that the filter excludes are
// numbered too.
type viewSearch struct {
	*listing
	number, had int
	listed      int             // number of listed entries that were read
	query       partition.Query // finds stored entries
}

func (v *viewSearch) run(ctx context.Context, base dn.DN) error {
	f, err := filterprep.Prepare(ctx, v.req, v.r.Filter, nil)
	if err != nil {
		return err
	}
	v.query = v.out.View.Query(nil)
	v.query.Filter = f
	v.req.Judge.Restrict(ctx, &v.query)
	if len(base) >= recordDepth {
		return v.record(ctx, base)
	}
	at, err := v.req.Judge.Find(ctx, base)
	if err != nil {
		return err
	}
	if len(base) == definitionDepth {
		return v.definition(ctx, at, base, 0)
	}
	return v.everything(ctx, at)
}

// The method "everything" offers the entry cn=views, the entries below it, and the records of the
// views.
func (v *viewSearch) everything(ctx context.Context, at partition.Located) error {
	if v.r.Scope == op.WholeSubtree {
		if err := v.stored(ctx, at.ID); err != nil {
			return err
		}
	}
	all := partition.Query{Base: at.ID, Scope: op.SingleLevel, Filter: filter.Const(filter.True), Only: nil}
	var below []partition.Located
	for found, err := range search.Search(ctx, v.req.Snapshot, all) {
		if err != nil {
			return err
		}
		below = append(below, found.Located)
	}
	slices.SortFunc(below, func(a, b partition.Located) int { return a.ID.Compare(b.ID) })
	for _, at := range below {
		name, err := at.Name.DN()
		if err != nil {
			return err
		}
		if err := v.definition(ctx, at, name, 1); err != nil {
			return err
		}
	}
	return nil
}

// definition offers an entry below cn=views. If the entry defines a view, it also offers the
// records of the view. The parameter level is the number of levels from the base of the
// search down to the entry.
func (v *viewSearch) definition(ctx context.Context, at partition.Located, name dn.DN, level int) error {
	if covers(v.r.Scope, level) {
		if err := v.stored(ctx, at.ID); err != nil {
			return err
		}
	}
	d, err := readableView(ctx, v.req, name)
	if err != nil || d == nil {
		return err
	}
	if d.Kind == materialized.List {
		return v.list(ctx, d)
	}
	rs, err := readRecords(ctx, v.req, d, "")
	for i := range rs {
		if err := v.next(func() error { return v.offer(ctx, recordEntry(v.req, d, &rs[i]), nil, v.number) }); err != nil {
			return err
		}
	}
	return err
}

// record offers the record with a name.
func (v *viewSearch) record(ctx context.Context, name dn.DN) error {
	d, err := readableView(ctx, v.req, name.Parent())
	if err != nil {
		return err
	}
	var offer func() error
	switch {
	case d == nil:
	case d.Kind == materialized.List:
		found, ok, err := listedNamed(ctx, v.req, d, name)
		if err != nil {
			return err
		}
		if ok {
			offer = func() error { return v.offerRecord(ctx, d, &found, "") }
		}
	default:
		rs, err := recordsNamed(ctx, v.req, d, name)
		if err != nil {
			return err
		}
		if len(rs) > 0 {
			offer = func() error { return v.offer(ctx, recordEntry(v.req, d, &rs[0]), nil, v.number) }
		}
	}
	switch {
	case offer == nil:
		if _, err := v.req.Judge.Find(ctx, name); err != nil {
			return err
		}
		return &op.Result{Code: op.NoSuchObject, Diagnostic: "no such record"}
	case !covers(v.r.Scope, 0):
		return nil
	}
	return v.next(offer)
}

// next calls offer for the next result, unless an earlier page has already reached this
// result.
func (v *viewSearch) next(offer func() error) error {
	defer func() { v.number++ }()
	if v.number <= v.had {
		return nil
	}
	return offer()
}

// stored offers a stored entry, as a search of the tree does.
func (v *viewSearch) stored(ctx context.Context, id entry.ID) error {
	return v.next(func() error {
		q := v.query
		q.Base, q.Scope = id, op.BaseObject
		found, ok, err := search.Lookup(ctx, v.req.Snapshot, q, id)
		if err == nil {
			err = v.req.Judge.Failure()
		}
		if err != nil || !ok {
			return err
		}
		if _, err := v.out.Admit(true); err != nil {
			return err
		}
		if p := v.out.Page; p.IsFull() {
			p.GoOn(nil, v.number)
		}
		return v.out.Entry(ctx, &found)
	})
}

// readableView returns the definition with a name. It returns nil if there is no such
// definition, or if the requester may not read all of the definition. Only a requester who
// may read the definition may read the view's records.
func readableView(ctx context.Context, req *request.Request, name dn.DN) (*materialized.Definition, error) {
	if len(name) != definitionDepth {
		return nil, nil
	}
	d, err := materialized.Find(ctx, req.Snapshot, name)
	if partition.Is(err, partition.Unwilling) {
		return nil, nil // the entry cannot be a view, perhaps because the schema has changed
	}
	if err != nil || d == nil || req.Judge.Unrestricted() {
		return d, err
	}
	e, err := req.Snapshot.Entry(ctx, d.ID, false)
	if err != nil || e == nil {
		return nil, err
	}
	shown, err := req.Judge.Case(d.Name, e).Shown(ctx, slices.Clone(e.Attributes))
	if err != nil {
		return nil, err
	}
	for _, attribute := range d.Kind.Attributes() {
		t := req.Schema.Attribute(attribute)
		if t == nil {
			return nil, nil
		}
		if len((&entry.Entry{Attributes: shown}).Values(t)) != len(e.Values(t)) {
			return nil, nil
		}
	}
	return d, nil
}

// readRecords reads the record with the given key, or all records of a view if the key is
// "".
func readRecords(ctx context.Context, req *request.Request, d *materialized.Definition, key string) ([]materialized.Record, error) {
	rs, err := materialized.Read(ctx, req.Snapshot, d, materialized.ReadOptions{Key: key, Most: req.Limits.Candidates})
	return rs, busyIfTooMany(err)
}

// busyIfTooMany turns the error partition.TooMany into the result busy. A view that is not
// yet kept is computed when it is read, which may take too many reads. busyIfTooMany returns
// other errors unchanged.
func busyIfTooMany(err error) error {
	if partition.Is(err, partition.TooMany) {
		return op.Errorf(op.Busy, "%v: try again when the view's records are kept", err)
	}
	return err
}

// recordsNamed returns a list with the record that has a name. The list is empty if there is
// no such record.
func recordsNamed(ctx context.Context, req *request.Request, d *materialized.Definition, name dn.DN) ([]materialized.Record, error) {
	key, ok := d.KeyOf(req.Schema, name[0])
	if !ok {
		return nil, nil
	}
	return readRecords(ctx, req, d, key)
}

// recordEntry returns a record as an entry.
func recordEntry(req *request.Request, d *materialized.Definition, r *materialized.Record) *Entry {
	rdn := make(dn.RDN, len(d.Groups))
	for i, t := range d.Groups {
		rdn[i] = dn.AVA{Type: t.Name(), Value: r.Values[i]}
	}
	v := newEntry(req, rdn.String()+","+d.Name.String(), "viewRecord")
	for i, t := range d.Groups {
		v.add(req.Schema, t.Name(), string(r.Values[i]))
	}
	attributes := map[string]string{string(materialized.Sum): "viewSum", string(materialized.Min): "viewMin", string(materialized.Max): "viewMax"}
	for i, t := range d.Totals {
		switch {
		case t.Op == materialized.Count:
			v.add(req.Schema, "viewCount", strconv.FormatInt(r.Count, 10))
		case r.Totals[i] != nil:
			v.addOf(req.Schema.Attribute(attributes[string(t.Op)]), t.Attribute, r.Totals[i].String())
		}
	}
	return v
}

// addOf adds a value of the type t with an option that contains the name of an attribute.
// The value is a total over that attribute.
func (v *Entry) addOf(t *schema.AttributeType, attribute, value string) {
	if t == nil {
		return
	}
	a := entry.Attribute{Type: t, Options: entry.SortOptions(";of-" + attribute), Values: [][]byte{[]byte(value)}}
	v.Entry.Attributes = append(v.Entry.Attributes, a)
}
