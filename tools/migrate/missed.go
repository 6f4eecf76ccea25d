package migrate

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// missed finds the changes that the server has not reported although the directory has caught
// up: it compares the ids, names, and modifyTimestamps of all entries. It copies or deletes
// the entries that differ. It adds refused entries to the report r. 389 has
// been seen to omit entries that were added, renamed or deleted, both in a content
// synchronization and in a search of all entries.
func (m *Move) missed(ctx context.Context, r *Report) error {
	known := map[entry.ID]bool{}
	for x := range m.refused {
		known[x.id] = true
	}
	for _, d := range r.Differences {
		known[d.id] = true
	}
	found := &Report{}
	for _, base := range m.src.Bases {
		if err := m.missedBelow(ctx, base, known, found); err != nil {
			return err
		}
	}
	n := len(found.Differences)
	if n == 0 {
		return nil
	}
	if err := m.mend(ctx, found); err != nil {
		return err
	}
	m.o.Note(fmt.Sprintf("%s has not reported %d changes: they were found by a comparison of the names and times of all entries", m.src.Remote.URL, n))
	r.Differences = append(r.Differences, found.Differences...)
	return m.mend(ctx, r) // entries in r may be accepted now, because other entries were copied
}

// missedBelow adds to found the entries of a subtree that differ, except entries whose ids are
// in known.
func (m *Move) missedBelow(ctx context.Context, base string, known map[entry.ID]bool, found *Report) error {
	s := state.Newest(m.p)
	defer s.Close()
	l := &lister{m: m, s: s, seed: maphash.MakeSeed(), inner: m.src.inner(base)}
	var theirs, ours map[entry.ID]outline
	var both errgroup.Group
	both.Go(func() (err error) { theirs, err = l.there(ctx, base); return err })
	both.Go(func() (err error) { ours, err = l.here(ctx, base); return err })
	if err := both.Wait(); err != nil {
		return err
	}
	if len(theirs) == 0 {
		return nil // the server shows no ids
	}
	for id, o := range ours {
		if there, ok := theirs[id]; ok && o.agrees(there) {
			delete(theirs, id)
			delete(ours, id)
		}
	}
	// Copying an entry moves or deletes any other entry that has the same name. So the server's
	// entries come first. Entries that only the directory has come last.
	for _, id := range sortedIDs(theirs) {
		if known[id] {
			continue
		}
		e, err := m.ask.find(ctx, id.String())
		if err != nil {
			return err
		}
		if e != nil {
			_, here := ours[id]
			found.Differences = append(found.Differences, &Difference{Name: e.DN, There: true, Here: here, id: id})
		}
	}
	for _, id := range sortedIDs(ours) {
		if _, there := theirs[id]; there || known[id] {
			continue
		}
		at, err := byID(ctx, s, id)
		if err != nil {
			return err
		}
		found.Differences = append(found.Differences, &Difference{Name: at.Name.String(), Here: true, id: id})
	}
	return nil
}

func sortedIDs(list map[entry.ID]outline) []entry.ID {
	return slices.SortedFunc(maps.Keys(list), compareIDs)
}

// An outline of an entry changes when the entry is renamed or modified.
type outline struct {
	name uint64 // hash of the normalized name
	time uint64 // hash of modifyTimestamp, or 0 if the entry has none
}

// agrees reports whether the outline of an entry of the directory agrees with that of the
// server's entry. The directory generates a modifyTimestamp if the server shows none.
func (o outline) agrees(there outline) bool {
	return o.name == there.name && (o.time == there.time || there.time == 0)
}

// A lister lists the outlines of the entries of a subtree by id. A list needs some 60 octets
// of memory for each entry.
type lister struct {
	m     *Move
	s     *partition.Snapshot
	seed  maphash.Seed
	inner []string // bases below the subtree, which are listed separately
}

// The method "there" lists the server's entries.
func (l *lister) there(ctx context.Context, base string) (map[entry.ID]outline, error) {
	list := map[entry.ID]outline{}
	err := l.m.ids(ctx, l.m.ask, base, []string{modifyTimestamp}, func(c *copied) {
		if !within(c.name.String(), l.inner) {
			list[c.id] = l.outline(c.name, c.values(modifyTimestamp))
		}
	})
	return list, err
}

// The method "here" lists the directory's entries.
func (l *lister) here(ctx context.Context, base string) (map[entry.ID]outline, error) {
	list := map[entry.ID]outline{}
	t := l.s.Schema().Attribute(modifyTimestamp)
	for x, err := range entriesBelow(ctx, l.s, base) {
		if err != nil {
			return nil, err
		}
		if within(x.Name.String(), l.inner) {
			continue
		}
		name, err := x.Name.DN()
		if err != nil {
			return nil, err
		}
		list[x.ID] = l.outline(name, x.Entry.Values(t))
	}
	return list, nil
}

const modifyTimestamp = "modifyTimestamp"

// outline returns the outline of an entry. The outline is zero if the schema lacks an
// attribute type in the name.
func (l *lister) outline(name dn.DN, modified [][]byte) outline {
	normalized, err := name.Normalize(l.s.Schema())
	if err != nil {
		return outline{}
	}
	o := outline{name: maphash.Bytes(l.seed, dn.Key(normalized))}
	d := described{typ: l.s.Schema().Attribute(modifyTimestamp)}
	for _, key := range d.keys(modified) {
		o.time = maphash.Bytes(l.seed, key)
	}
	return o
}
