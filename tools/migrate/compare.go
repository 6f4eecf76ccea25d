package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/pause"
)

// A Difference is an entry that differs between the server and the directory.
type Difference struct {
	Name       string
	Here       bool     // the directory has the entry
	There      bool     // the server has the entry
	Attributes []string // if both have it: the attributes that differ
	Why        string   // if only the server has it: why the directory refuses the entry, or ""
	id         entry.ID
}

func (d *Difference) String() string {
	switch {
	case !d.There:
		return "here only: " + d.Name
	case !d.Here && d.Why != "":
		return "there only: " + d.Name + ": " + d.Why
	case !d.Here:
		return "there only: " + d.Name
	}
	return "different: " + d.Name + ": " + strings.Join(d.Attributes, ", ")
}

// A Report is the result of a comparison.
type Report struct {
	Both        int // entries that both the directory and the server have
	Differences []*Difference
}

// Counts returns three numbers of entries: those that only the directory has, those that only
// the server has, and those that differ.
func (r *Report) Counts() (here, there, different int) {
	for _, d := range r.Differences {
		switch {
		case !d.There:
			here++
		case !d.Here:
			there++
		default:
			different++
		}
	}
	return here, there, different
}

func (r *Report) String() string {
	here, there, different := r.Counts()
	return fmt.Sprintf("%d entries on both, %d here only, %d there only, %d different", r.Both, here, there, different)
}

// Compare compares the directory with the server. An entry that differs is read again from
// the directory and the server, up to tries times, because it may have been changed between
// the two reads.
func (m *Move) Compare(ctx context.Context, tries int) (*Report, error) {
	r := &Report{}
	for _, base := range m.src.Bases {
		if err := m.compareTree(ctx, base, r); err != nil {
			return nil, err
		}
	}
	for range tries {
		if len(r.Differences) == 0 {
			break
		}
		if err := pause.For(ctx, m.o.Every/8); err != nil {
			return nil, err
		}
		if err := m.recheck(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, m.explain(ctx, r)
}

// compareTree compares a subtree. It needs 16 octets of memory for each entry.
func (m *Move) compareTree(ctx context.Context, base string, r *Report) error {
	s := state.Newest(m.p)
	defer s.Close()
	var seen []entry.ID
	inner := m.src.inner(base)
	err := m.ask.All(ctx, base, wanted, func(e *ldap.Entry) error {
		for _, id := range m.ask.ids(e) {
			if c, err := m.translation().translate(e); err == nil && id != c.id {
				m.others[id] = c.id
			}
		}
		if within(e.DN, inner) {
			return nil
		}
		d, id, err := m.compare(ctx, s, e)
		if err != nil {
			return err
		}
		if id != entry.Root {
			seen = append(seen, id)
		}
		if d == nil || d.Here {
			r.Both++
		}
		if d != nil {
			r.Differences = append(r.Differences, d)
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.mapped = len(m.src.Bases) == 1
	slices.SortFunc(seen, compareIDs)
	return m.onlyHere(ctx, s, base, seen, r)
}

// onlyHere adds to the report the entries of a subtree that the server does not have.
func (m *Move) onlyHere(ctx context.Context, s *partition.Snapshot, base string, seen []entry.ID, r *Report) error {
	inner := m.src.inner(base)
	for x, err := range entriesBelow(ctx, s, base) {
		if err != nil {
			return err
		}
		if !has(seen, x.ID) && !within(x.Name.String(), inner) {
			r.Differences = append(r.Differences, &Difference{Name: x.Name.String(), Here: true, id: x.ID})
		}
	}
	return nil
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

// compare compares an entry of the server with the directory's entry. The first result is the
// difference, or nil if the two entries are equal. The second result is the id of the
// directory's entry, or entry.Root if the directory does not have the entry.
func (m *Move) compare(ctx context.Context, s *partition.Snapshot, e *ldap.Entry) (*Difference, entry.ID, error) {
	d := &Difference{Name: e.DN, There: true}
	c, err := m.translation().translate(e)
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

// recheck compares the entries of a report again, and removes those that are now equal.
func (m *Move) recheck(ctx context.Context, r *Report) error {
	s := state.Newest(m.p)
	defer s.Close()
	var still []*Difference
	for _, d := range r.Differences {
		now, both, err := m.compareAgain(ctx, s, d)
		if err != nil {
			return err
		}
		if both && !(d.Here && d.There) {
			r.Both++
		} else if !both && d.Here && d.There {
			r.Both--
		}
		if now != nil {
			still = append(still, now)
		}
	}
	r.Differences = still
	return nil
}

// compareAgain compares one entry again, and reports whether both the directory and the
// server have the entry now.
func (m *Move) compareAgain(ctx context.Context, s *partition.Snapshot, d *Difference) (now *Difference, both bool, err error) {
	e, err := m.now(ctx, d)
	if err != nil {
		return nil, false, err
	}
	if e != nil {
		if now, _, err = m.compare(ctx, s, e); err == nil && now != nil {
			now, err = m.tryName(ctx, s, now)
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
func (m *Move) tryName(ctx context.Context, s *partition.Snapshot, d *Difference) (*Difference, error) {
	i := slices.Index(d.Attributes, itsName)
	if i < 0 {
		return d, nil
	}
	at, err := byID(ctx, s, d.id)
	if err != nil || at.ID == entry.Root {
		return d, err
	}
	e, err := m.ask.read(ctx, at.Name.String())
	if err != nil || e == nil {
		return d, err
	}
	if c, err := m.translation().translate(e); err != nil || c.id != d.id {
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
func (m *Move) now(ctx context.Context, d *Difference) (*ldap.Entry, error) {
	e, err := m.ask.read(ctx, d.Name)
	if err != nil || d.id == entry.Root {
		return e, err
	}
	if e != nil {
		if c, err := m.translation().translate(e); err == nil && (c.id == d.id || c.id == entry.Root) {
			return e, nil
		}
	}
	return m.ask.find(ctx, d.id.String())
}

// explain adds, to each difference about an entry that only the server has, the reason why
// the directory refuses the entry.
func (m *Move) explain(ctx context.Context, r *Report) error {
	for _, d := range r.Differences {
		if d.Here || d.Why != "" {
			continue
		}
		e, err := m.ask.read(ctx, d.Name)
		if err != nil {
			return err
		}
		if e == nil {
			continue // the server has deleted the entry since
		}
		c, err := m.translation().translate(e)
		if err != nil {
			continue
		}
		_, err = write.Update(ctx, m.p, m.by, func(tx *partition.Tx) error {
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

// The function "since" returns the time that has passed since t, rounded for messages.
func since(t time.Time) time.Duration { return time.Since(t).Round(10 * time.Millisecond) }
