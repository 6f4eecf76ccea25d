package migrate

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

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

// A lister lists the outlines of the entries of a subtree by id, and compares the two lists. A list
// needs some 60 octets of memory for each entry.
type lister struct {
	m     *Move
	base  string // the subtree
	s     *partition.Snapshot
	seed  maphash.Seed
	inner []string // bases below the subtree, which are listed separately
}

// missed returns the entries of the subtree that differ, except entries whose ids are in known.
func (l *lister) missed(ctx context.Context, known map[entry.ID]bool) (found []*Difference, err error) {
	l.s, l.seed, l.inner = state.Newest(l.m.p), maphash.MakeSeed(), l.m.link.src.inner(l.base)
	defer l.s.Close()
	var theirs, ours map[entry.ID]outline
	var both errgroup.Group
	both.Go(func() (err error) { theirs, err = l.there(ctx); return err })
	both.Go(func() (err error) { ours, err = l.here(ctx); return err })
	if err := both.Wait(); err != nil {
		return nil, err
	}
	if len(theirs) == 0 {
		return nil, nil // the server shows no ids
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
		e, err := l.m.link.ask.find(ctx, id.String())
		if err != nil {
			return nil, err
		}
		if e != nil {
			_, here := ours[id]
			found = append(found, &Difference{Name: e.DN, There: true, Here: here, id: id})
		}
	}
	for _, id := range sortedIDs(ours) {
		if _, there := theirs[id]; there || known[id] {
			continue
		}
		at, err := byID(ctx, l.s, id)
		if err != nil {
			return nil, err
		}
		found = append(found, &Difference{Name: at.Name.String(), Here: true, id: id})
	}
	return found, nil
}

func sortedIDs(list map[entry.ID]outline) []entry.ID {
	return slices.SortedFunc(maps.Keys(list), compareIDs)
}

// The method "there" lists the server's entries.
func (l *lister) there(ctx context.Context) (map[entry.ID]outline, error) {
	list := map[entry.ID]outline{}
	err := l.m.listIDs(ctx, l.m.link.ask, l.base, []string{modifyTimestamp}, func(c *copied) {
		if !within(c.name.String(), l.inner) {
			list[c.id] = l.outline(c.name, c.values(modifyTimestamp))
		}
	})
	return list, err
}

// The method "here" lists the directory's entries.
func (l *lister) here(ctx context.Context) (map[entry.ID]outline, error) {
	list := map[entry.ID]outline{}
	t := l.s.Schema().Attribute(modifyTimestamp)
	for x, err := range entriesBelow(ctx, l.s, l.base) {
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
