package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A comparison compares the directory with the server. Then it can compare again the entries that
// differ or were changed, and can copy them.
type comparison struct {
	m      *Move
	report *Report
	// Entries that were changed after the revision checked have to be compared again.
	checked table.Revision
}

func newComparison(m *Move) *comparison {
	s := state.Newest(m.p)
	defer s.Close()
	return &comparison{m, &Report{}, s.At.Decided()}
}

// all compares all entries. An entry that differs is read again from the directory and the server,
// up to tries times, because it may have been changed between the two reads.
func (x *comparison) all(ctx context.Context, tries int) error {
	for _, base := range x.m.link.src.Bases {
		if err := x.compareTree(ctx, base); err != nil {
			return err
		}
	}
	for range tries {
		if len(x.report.Differences) == 0 {
			break
		}
		if err := pause.For(ctx, x.m.o.Every/8); err != nil {
			return err
		}
		if err := x.recheck(ctx); err != nil {
			return err
		}
	}
	return x.explain(ctx)
}

// compareTree compares a subtree. It needs 16 octets of memory for each entry.
func (x *comparison) compareTree(ctx context.Context, base string) error {
	s := state.Newest(x.m.p)
	defer s.Close()
	var seen []entry.ID
	inner := x.m.link.src.inner(base)
	err := x.m.link.ask.All(ctx, base, wanted, func(e *ldap.Entry) error {
		for _, id := range x.m.link.ask.ids(e) {
			if theirs, err := x.m.translation().translate(e); err == nil {
				x.m.ids.add(id, theirs.id)
			}
		}
		if within(e.DN, inner) {
			return nil
		}
		d, id, err := x.compare(ctx, s, e)
		if err != nil {
			return err
		}
		if id != entry.Root {
			seen = append(seen, id)
		}
		if d == nil || d.Here {
			x.report.Both++
		}
		if d != nil {
			x.report.Differences = append(x.report.Differences, d)
		}
		return nil
	})
	if err != nil {
		return err
	}
	x.m.ids.complete = len(x.m.link.src.Bases) == 1
	slices.SortFunc(seen, compareIDs)
	return x.onlyHere(ctx, s, base, seen)
}

// onlyHere adds to the report the entries of a subtree that the server does not have.
func (x *comparison) onlyHere(ctx context.Context, s *partition.Snapshot, base string, seen []entry.ID) error {
	inner := x.m.link.src.inner(base)
	for e, err := range entriesBelow(ctx, s, base) {
		if err != nil {
			return err
		}
		if !has(seen, e.ID) && !within(e.Name.String(), inner) {
			x.report.Differences = append(x.report.Differences, &Difference{Name: e.Name.String(), Here: true, id: e.ID})
		}
	}
	return nil
}

// compare compares an entry of the server with the directory's entry. The first result is the
// difference, or nil if the two entries are equal. The second result is the id of the
// directory's entry, or entry.Root if the directory does not have the entry.
func (x *comparison) compare(ctx context.Context, s *partition.Snapshot, e *ldap.Entry) (*Difference, entry.ID, error) {
	d := &Difference{Name: e.DN, There: true}
	c, err := x.m.translation().translate(e)
	if err != nil {
		d.Why = err.Error()
		return d, entry.Root, nil
	}
	d.id = c.id
	at, err := locate(ctx, s, c)
	var o *occupied
	switch {
	case errors.As(err, &o):
		at.ID = o.id
		d.Attributes = append(d.Attributes, "entryUUID")
	case partition.Is(err, partition.NoSuchEntry):
		return d, entry.Root, nil
	case err != nil:
		return nil, entry.Root, err
	}
	d.Here = true
	ours, err := s.Entry(ctx, at.ID, true)
	if err != nil {
		return nil, entry.Root, err
	}
	if !sameName(s, at.Name, c.name) {
		d.Attributes = append(d.Attributes, itsName)
	}
	if d.Attributes = append(d.Attributes, unequal(s, ours, c)...); len(d.Attributes) == 0 {
		d = nil
	}
	return d, at.ID, nil
}

// recheck compares the entries of the report again, and removes those that are now equal.
func (x *comparison) recheck(ctx context.Context) error {
	s := state.Newest(x.m.p)
	defer s.Close()
	var still []*Difference
	for _, d := range x.report.Differences {
		now, both, err := x.compareAgain(ctx, s, d)
		if err != nil {
			return err
		}
		if both && !(d.Here && d.There) {
			x.report.Both++
		} else if !both && d.Here && d.There {
			x.report.Both--
		}
		if now != nil {
			still = append(still, now)
		}
	}
	x.report.Differences = still
	return nil
}

// compareAgain compares one entry again, and reports whether both the directory and the
// server have the entry now.
func (x *comparison) compareAgain(ctx context.Context, s *partition.Snapshot, d *Difference) (now *Difference, both bool, err error) {
	e, err := x.now(ctx, d)
	if err != nil {
		return nil, false, err
	}
	if e != nil {
		if now, _, err = x.compare(ctx, s, e); err == nil && now != nil {
			now, err = x.tryName(ctx, s, now)
		}
		return now, err == nil && (now == nil || now.Here), err
	}
	at, err := byID(ctx, s, d.id)
	if err != nil || at.ID == entry.Root {
		return nil, false, err // neither the directory nor the server has the entry
	}
	return &Difference{Name: at.Name.String(), Here: true, id: d.id}, false, nil
}

// tryName checks a difference in the name of an entry. It asks the server for the entry
// by the name that the directory has. If the server finds the entry by that name, tryName
// removes the name from the difference. It returns the rest, or nil if nothing else
// differs. The reason is that 389 has been seen to show an entry below the old name of
// its parent after the parent was renamed.
func (x *comparison) tryName(ctx context.Context, s *partition.Snapshot, d *Difference) (*Difference, error) {
	i := slices.Index(d.Attributes, itsName)
	if i < 0 {
		return d, nil
	}
	at, err := byID(ctx, s, d.id)
	if err != nil || at.ID == entry.Root {
		return d, err
	}
	e, err := x.m.link.ask.read(ctx, at.Name.String())
	if err != nil || e == nil {
		return d, err
	}
	if c, err := x.m.translation().translate(e); err != nil || c.id != d.id {
		return d, nil
	}
	if d.Attributes = slices.Delete(d.Attributes, i, i+1); len(d.Attributes) == 0 {
		return nil, nil
	}
	return d, nil
}

// itsName is what Difference.Attributes contains if the names of the entry differ.
const itsName = "its name"

// The method "now" reads the current form of a difference's entry from the server.
func (x *comparison) now(ctx context.Context, d *Difference) (*ldap.Entry, error) {
	e, err := x.m.link.ask.read(ctx, d.Name)
	if err != nil || d.id == entry.Root {
		return e, err
	}
	if e != nil {
		if c, err := x.m.translation().translate(e); err == nil && (c.id == d.id || c.id == entry.Root) {
			return e, nil
		}
	}
	return x.m.link.ask.find(ctx, d.id.String())
}

// explain adds, to each difference about an entry that only the server has, the reason why
// the directory refuses the entry.
func (x *comparison) explain(ctx context.Context) error {
	for _, d := range x.report.Differences {
		if d.Here || d.Why != "" {
			continue
		}
		e, err := x.m.link.ask.read(ctx, d.Name)
		if err != nil {
			return err
		}
		if e == nil {
			continue // the server has deleted the entry since
		}
		c, err := x.m.translation().translate(e)
		if err != nil {
			continue
		}
		_, err = write.Update(ctx, x.m.p, x.m.o.By, func(tx *partition.Tx) error {
			if _, err := put(ctx, tx, c); err != nil {
				return err
			}
			return errNothing
		})
		switch {
		case errors.Is(err, errNothing):
		case partition.Is(err, partition.NoSuchEntry):
			d.Why = "the entry above it is left out"
		case isRefusal(err):
			d.Why = err.Error()
		default:
			return err
		}
	}
	return nil
}

// compareChanged compares the entries that were changed by commits after x.checked. It adds to the
// report the entries that differ.
func (x *comparison) compareChanged(ctx context.Context) error {
	s := state.Newest(x.m.p)
	defer s.Close()
	known := map[entry.ID]bool{}
	for _, d := range x.report.Differences {
		known[d.id] = true
	}
	for c, err := range changestream.AllAfter(ctx, s, x.checked) {
		if err != nil {
			return err
		}
		for _, id := range c.IDs {
			if known[id] {
				continue
			}
			known[id] = true
			if err := x.compareID(ctx, s, id); err != nil {
				return err
			}
		}
	}
	x.checked = s.At.Decided() // later, this server may show older commits than s.Revision()
	return nil
}

// compareRefused compares the entries that the directory has refused. It adds to the report the
// entries that differ.
func (x *comparison) compareRefused(ctx context.Context) error {
	s := state.Newest(x.m.p)
	defer s.Close()
	for u := range x.m.left.refused {
		if slices.ContainsFunc(x.report.Differences, func(d *Difference) bool {
			return u.id != entry.Root && d.id == u.id || u.name != "" && d.Name == u.name
		}) {
			continue
		}
		if u.name == "" {
			if err := x.compareID(ctx, s, u.id); err != nil {
				return err
			}
			continue
		}
		d, _, err := x.compareAgain(ctx, s, &Difference{Name: u.name, id: u.id})
		if err != nil {
			return err
		}
		if d != nil {
			x.report.Differences = append(x.report.Differences, d)
		}
	}
	return nil
}

// compareID compares one entry of the directory with the server's entry. If the directory
// no longer has the entry, compareID looks for the id at the server.
func (x *comparison) compareID(ctx context.Context, s *partition.Snapshot, id entry.ID) error {
	if id == entry.Root {
		return nil
	}
	at, err := byID(ctx, s, id)
	if err != nil {
		return err
	}
	if at.ID == entry.Root {
		e, err := x.m.link.ask.find(ctx, id.String())
		if err != nil || e == nil {
			return err
		}
		d, _, err := x.compare(ctx, s, e)
		if err == nil && d != nil {
			x.report.Differences = append(x.report.Differences, d)
		}
		return err
	}
	if !within(at.Name.String(), x.m.link.src.Bases) {
		return nil
	}
	d, _, err := x.compareAgain(ctx, s, &Difference{Name: at.Name.String(), id: id})
	if err == nil && d != nil {
		x.report.Differences = append(x.report.Differences, d)
	}
	return err
}

// mend copies the entries of the report from the server, except those that the directory
// refuses, and compares them again. It repeats this as long as the number of differences
// falls, because an entry may be accepted only after another entry was copied.
func (x *comparison) mend(ctx context.Context) error {
	for before := len(x.report.Differences) + 1; 0 < len(x.report.Differences) && len(x.report.Differences) < before; {
		before = len(x.report.Differences)
		for _, d := range x.report.Differences {
			if err := x.copyAgain(ctx, d); err != nil {
				return err
			}
		}
		if err := x.recheck(ctx); err != nil {
			return err
		}
	}
	return nil
}

// copyAgain copies the entry of a difference from the server, or deletes it if the server
// no longer has it.
func (x *comparison) copyAgain(ctx context.Context, d *Difference) error {
	e, err := x.now(ctx, d)
	if err != nil {
		return err
	}
	a := action{del: d.id}
	if e != nil {
		if a.put, err = x.m.translation().translate(e); err != nil {
			return nil
		}
	}
	return x.m.writer.apply(ctx, []action{a}, nil)
}

// missed finds the changes that the server has not reported although the directory has caught
// up: it compares the ids, names, and modifyTimestamps of all entries. It copies or deletes
// the entries that differ. It adds refused entries to the report. 389 has been
// seen to omit entries that were added, renamed or deleted, both in a content synchronization and in
// a search of all entries.
func (x *comparison) missed(ctx context.Context) error {
	known := map[entry.ID]bool{}
	for u := range x.m.left.refused {
		known[u.id] = true
	}
	for _, d := range x.report.Differences {
		known[d.id] = true
	}
	found := &comparison{m: x.m, report: &Report{}}
	for _, base := range x.m.link.src.Bases {
		l := &lister{m: x.m, base: base}
		ds, err := l.missed(ctx, known)
		if err != nil {
			return err
		}
		found.report.Differences = append(found.report.Differences, ds...)
	}
	n := len(found.report.Differences)
	if n == 0 {
		return nil
	}
	if err := found.mend(ctx); err != nil {
		return err
	}
	x.m.o.Note(fmt.Sprintf("%s has not reported %d changes: they were found by a comparison of the names and times of all entries", x.m.link.src.Remote.URL, n))
	x.report.Differences = append(x.report.Differences, found.report.Differences...)
	return x.mend(ctx) // entries in x.report may be accepted now, because other entries were copied
}

// count updates the number of entries that both the directory and the server have,
// because entries were added and deleted since everything was compared.
func (x *comparison) count(ctx context.Context) error {
	s := state.Newest(x.m.p)
	defer s.Close()
	here, _, _ := x.report.Counts()
	x.report.Both = -here
	for _, base := range x.m.link.src.Bases {
		inner := x.m.link.src.inner(base)
		for e, err := range entriesBelow(ctx, s, base) {
			if err != nil {
				return err
			}
			if !within(e.Name.String(), inner) {
				x.report.Both++
			}
		}
	}
	return nil
}

// sameName reports whether two names name the same entry. It also returns true if a is
// nil.
func sameName(s *partition.Snapshot, a *dn.Name, b dn.DN) bool {
	if a == nil {
		return true // the entry was found by its name
	}
	parsed, err := a.DN()
	if err != nil {
		return false
	}
	x, err := parsed.Normalize(s.Schema())
	y, err2 := b.Normalize(s.Schema())
	return err == nil && err2 == nil && slices.Equal(x, y)
}

// unequal returns the attributes that the schema considers different, and the attributes of c
// that the schema lacks.
func unequal(s *partition.Snapshot, e *entry.Entry, c *copied) (names []string) {
	theirs, ours := c.byDescription(s.Schema()), ofEntry(e)
	for d, want := range theirs {
		have := ours[d]
		delete(ours, d)
		if d.typ.Name() == "objectClass" {
			want, have = withSuperclasses(s.Schema(), want), withSuperclasses(s.Schema(), have)
		}
		if d.compared() && !sameOctets(d.keys(want), d.keys(have)) {
			names = append(names, d.String())
		}
	}
	for d := range ours {
		if d.compared() && !d.stamp() {
			names = append(names, d.String())
		}
	}
	for _, a := range c.attributes {
		if t, _ := s.Schema().Describe(a.Description); t == nil {
			names = append(names, a.Description)
		}
	}
	slices.Sort(names)
	return names
}

// keys returns the keys by which the schema compares values.
func (d described) keys(values [][]byte) [][]byte {
	keys := slices.Clone(values)
	for i, v := range keys {
		if d.typ.Equality == nil {
			break
		}
		if k, err := d.typ.Equality.Key(v); err == nil {
			keys[i] = k
		}
	}
	slices.SortFunc(keys, bytes.Compare)
	return slices.CompactFunc(keys, bytes.Equal)
}

// entriesBelow streams the entries of a subtree, or none if there is no such subtree. From an
// entry with very many values it reads only modifyTimestamp.
func entriesBelow(ctx context.Context, s *partition.Snapshot, base string) iter.Seq2[*partition.Result, error] {
	none := func(func(*partition.Result, error) bool) {}
	name, err := dn.Parse(base)
	if err == nil {
		var at partition.Located
		if at, err = s.Find(ctx, name); err == nil {
			return search.Search(ctx, s, partition.Query{Base: at.ID, Scope: op.WholeSubtree, Filter: filter.Const(filter.True),
				Only: []*schema.AttributeType{s.Schema().Attribute(modifyTimestamp)}})
		}
	}
	if partition.Is(err, partition.NoSuchEntry) {
		return none
	}
	return func(yield func(*partition.Result, error) bool) { yield(nil, err) }
}
