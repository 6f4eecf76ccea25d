package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Difference is the sequence of changes that leads from the state From to the state To,
// for some of the entries.
//
// The records of a Difference can be applied one by one, in their order. First, trees
// that are deleted as a whole are deleted, the deepest entries first. Then every entry
// that is added, moved or changed follows, from the top of the new tree down. So the
// new superior of an entry is already in place, and no entry moves below itself. If the
// name that an entry needs still belongs to an entry that comes later, the later entry
// is first renamed temporarily. The remaining deletions come last.
type Difference struct {
	From, To *partition.Snapshot
	// IDs are the entries that may differ. An entry may be listed twice.
	IDs []entry.ID
	// Touched adds an empty modify for each entry of IDs that has the same place and the same
	// user attributes in both states. Such an entry may differ in secret attributes, or in
	// attributes that only the server writes.
	Touched bool
	// Below is for entries that must not get the parent that they have in To. It maps each of
	// these entries to its new parent.
	Below map[entry.ID]entry.ID
	// Follow is for changes of the state From itself, in which values follow the entries that they
	// name. A value of To then becomes the name that its entry has when the change is made. If the entry
	// is gone and another one has its name, the value is left out, and the walk adds a text to Strangers.
	Follow    bool
	Strangers []string
}

// ErrTaken means that an entry outside the difference is in the way: it has the name that
// another entry must get, or it is below an entry that must be deleted.
var ErrTaken = errors.New("another entry has the name")

// ErrParent means that the superior that an entry must get does not exist.
var ErrParent = errors.New("the entry above it does not exist")

// Records streams the changes in the order described at Difference.
func (d *Difference) Records(ctx context.Context) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		w := &walk{
			Difference: d, yield: yield,
			moved: map[entry.ID]*spot{}, taken: map[slot]entry.ID{}, come: map[entry.ID]int{},
			attributes: map[entry.ID][]entry.Attribute{}, mine: map[entry.ID]bool{},
		}
		if err := w.run(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// errStopped ends a walk when the consumer of its records has stopped.
var errStopped = errors.New("stopped")

// A walk produces the changes from the state From to the state To. It keeps track of how
// the changes produced so far affect From.
type walk struct {
	*Difference

	yield func(*Record, error) bool
	mine  map[entry.ID]bool // the entries that may be changed
	// moved maps entries to their new places, and deleted entries to nil. taken contains the
	// names that entries have received or lost. Each of these names is mapped to the entry
	// that has the name now, or to entry.Root if no entry has it.
	moved map[entry.ID]*spot
	taken map[slot]entry.ID
	// come counts, for each parent, the added and moved entries directly below the parent.
	come map[entry.ID]int
	// attributes contains the attributes of entries that the walk has renamed.
	attributes map[entry.ID][]entry.Attribute
	undefine   []op.Modification // the last changes of the subschema
}

// A spot is the place of an entry in the tree: its parent and its RDN.
type spot struct {
	slot
	rdn string // the RDN as spelled; for a naming context, its whole name
}

type slot struct {
	parent entry.ID
	norm   dn.Norm
}

// A task is an entry that the walk has to process.
type task struct {
	id    entry.ID
	kind  changestream.EffectKind
	depth int
}

func (w *walk) run(ctx context.Context) error {
	gone, others, err := w.tasks(ctx)
	if err != nil {
		return err
	}
	var rest []task
	for _, t := range gone {
		if went, err := w.remove(ctx, t); err != nil {
			return err
		} else if !went {
			rest = append(rest, t)
		}
	}
	for _, t := range others {
		if err := w.update(ctx, t); err != nil {
			return err
		}
	}
	for _, t := range rest {
		went, err := w.remove(ctx, t)
		if err == nil && !went {
			name, _ := w.name(ctx, t.id) // the name is only for the message
			err = fmt.Errorf("%w: %s has entries below it that are not part of this", ErrTaken, name)
		}
		if err != nil {
			return err
		}
	}
	if len(w.undefine) > 0 {
		return w.redefine(w.undefine)
	}
	return nil
}

// tasks returns the entries to delete, the deepest first, and the other entries, from
// the top of the new tree down.
func (w *walk) tasks(ctx context.Context) (gone, others []task, err error) {
	var ids []entry.ID
	for _, id := range w.IDs {
		if !w.mine[id] {
			w.mine[id] = true
			ids = append(ids, id)
		}
	}
	for e, err := range changestream.Effects(ctx, w.From, w.To, ids) {
		if err != nil {
			return nil, nil, err
		}
		t := task{id: e.ID, kind: e.Kind}
		if e.Kind == changestream.Deleted && e.ID != catalog.SubschemaID {
			t.depth, err = depth(ctx, w.From, e.ID)
			gone = append(gone, t)
		} else {
			t.depth, err = depth(ctx, w.To, e.ID)
			others = append(others, t)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	slices.SortStableFunc(gone, func(a, b task) int { return cmp.Compare(b.depth, a.depth) })
	slices.SortStableFunc(others, func(a, b task) int { return cmp.Compare(a.depth, b.depth) })
	return gone, others, nil
}

// depth returns the number of entries from the top of the tree down to an entry, including
// that entry. The depth of the subschema is -1. So the subschema comes first, because other
// entries need its definitions.
func depth(ctx context.Context, s *partition.Snapshot, id entry.ID) (n int, err error) {
	if id == catalog.SubschemaID {
		return -1, nil
	}
	for id != entry.Root {
		node, err := changestream.Node(ctx, s, id)
		if err != nil || node == nil {
			return n, err
		}
		id = node.Parent
		n++
	}
	return n, nil
}

// emit yields a record. It returns errStopped if the consumer stops.
func (w *walk) emit(id entry.ID, name string, r op.Request) error {
	x := &Record{ID: id, Name: name, Request: r}
	if at := w.moved[id]; at != nil {
		x.Parent = at.parent
	}
	if !w.yield(x, nil) {
		return errStopped
	}
	return nil
}

// remove deletes an entry. If there are still entries below that entry, remove returns false
// and does nothing.
func (w *walk) remove(ctx context.Context, t task) (bool, error) {
	if has, err := w.hasChildren(ctx, t.id); err != nil || has {
		return false, err
	}
	name, err := w.name(ctx, t.id)
	if err != nil {
		return false, err
	}
	if err := w.put(ctx, t.id, nil); err != nil {
		return false, err
	}
	return true, w.emit(t.id, name, &op.Delete{Name: name})
}

// hasChildren reports whether an entry has children at this point of the walk.
func (w *walk) hasChildren(ctx context.Context, id entry.ID) (bool, error) {
	if w.come[id] > 0 {
		return true, nil
	}
	all := partition.Query{Base: id, Scope: op.SingleLevel, Filter: filter.Const(filter.True)}
	for r, err := range search.Search(ctx, w.From, all) {
		if err != nil {
			return false, err
		}
		if _, moved := w.moved[r.ID]; !moved {
			return true, nil
		}
	}
	return false, nil
}

// update adds, moves or changes the entry of a task.
func (w *walk) update(ctx context.Context, t task) error {
	after, err := w.To.Entry(ctx, t.id, false)
	if err != nil {
		return err
	}
	if t.id == catalog.SubschemaID {
		return w.subschema(ctx, after)
	}
	if t.kind != changestream.Modified || w.moved[t.id] != nil {
		at, err := w.goal(ctx, t.id)
		if err != nil {
			return err
		}
		if err := w.checkParent(ctx, t.id, at); err != nil {
			return err
		}
		if err := w.freeName(ctx, t.id, at); err != nil {
			return err
		}
		if t.kind == changestream.Added {
			return w.add(ctx, t.id, at, after)
		}
		if err := w.move(ctx, t.id, at, after); err != nil {
			return err
		}
	}
	return w.modify(ctx, t, after)
}

// goal returns the place that an entry gets: its place in the state To, or below the parent
// that Below names. An entry whose name was erased in To keeps its present place.
func (w *walk) goal(ctx context.Context, id entry.ID) (*spot, error) {
	node, err := changestream.Node(ctx, w.To, id)
	if err != nil {
		return nil, err
	}
	if changestream.Nameless(w.To, id, node) { // the entry's name was erased
		if now, err := w.spot(ctx, id); now != nil || err != nil {
			return now, err
		}
	}
	at := &spot{slot{node.Parent, node.NormRDN}, node.UpRDN}
	if p, ok := w.Below[id]; ok {
		at.parent = p
	}
	return at, nil
}

// checkParent returns an error if the superior of a place does not exist.
func (w *walk) checkParent(ctx context.Context, id entry.ID, place *spot) error {
	if place.parent == entry.Root {
		return nil
	}
	if above, err := w.spot(ctx, place.parent); above != nil || err != nil {
		return err
	}
	name, err := w.To.Name(ctx, id)
	return errors.Join(err, fmt.Errorf("%w: what was above %s is gone", ErrParent, name))
}

// freeName makes the name of a place available to the entry id. If another entry has the
// name, freeName renames that entry aside, or returns ErrTaken if the walk may not change
// that entry.
func (w *walk) freeName(ctx context.Context, id entry.ID, place *spot) error {
	holder, taken, err := w.holder(ctx, place.slot)
	if err != nil || !taken || holder == id {
		return err
	}
	if !w.mine[holder] {
		name, err := w.name(ctx, holder)
		return errors.Join(err, fmt.Errorf("%w: %s", ErrTaken, name))
	}
	return w.renameAside(ctx, holder)
}

// renameAside renames an entry temporarily.
func (w *walk) renameAside(ctx context.Context, id entry.ID) error {
	now, err := w.spot(ctx, id)
	if err != nil {
		return err
	}
	name, err := dn.Parse(now.rdn)
	if err != nil {
		return err
	}
	for i := 1; ; i++ {
		rdn := dn.RDN{{Type: name[0][0].Type, Value: fmt.Appendf(slices.Clip(name[0][0].Value), "-%s-%d", id.String()[:8], i)}}
		at := &spot{slot{parent: now.parent}, rdn.String()}
		whole := append(dn.DN{rdn}, name[1:]...)
		norms, err := whole.Normalize(w.From.Schema())
		if err != nil {
			return err
		}
		if at.norm = norms[0]; now.parent == entry.Root { // a naming context
			at.rdn, at.norm = whole.String(), dn.Norm(dn.Key(norms))
		}
		if _, taken, err := w.holder(ctx, at.slot); err != nil || taken {
			if err != nil {
				return err
			}
			continue
		}
		return w.rename(ctx, id, now, at, false)
	}
}

func (w *walk) add(ctx context.Context, id entry.ID, at *spot, after *entry.Entry) error {
	if err := w.put(ctx, id, at); err != nil {
		return err
	}
	name, err := w.name(ctx, id)
	if err != nil {
		return err
	}
	as, err := w.follow(ctx, w.To, id, after.Attributes, nil)
	if err != nil {
		return err
	}
	return w.emit(id, name, &op.Add{Name: name, Attributes: userAttributes(as)})
}

// move moves or renames an entry to a place.
func (w *walk) move(ctx context.Context, id entry.ID, place *spot, after *entry.Entry) error {
	now, err := w.spot(ctx, id)
	if err != nil || *now == *place {
		return err
	}
	old, err := dn.Parse(now.rdn)
	if err != nil {
		return err
	}
	rdn, err := dn.Parse(place.rdn)
	if err != nil {
		return err
	}
	return w.rename(ctx, id, now, place, keepsNone(after.Attributes, w.To.Schema(), old[0], rdn[0]))
}

func (w *walk) rename(ctx context.Context, id entry.ID, now, at *spot, deleteOld bool) error {
	name, err := w.name(ctx, id)
	if err != nil {
		return err
	}
	as, err := w.attributesOf(ctx, id)
	if err != nil {
		return err
	}
	if err := w.put(ctx, id, at); err != nil {
		return err
	}
	became, err := w.name(ctx, id)
	if err != nil {
		return err
	}
	old, err := dn.Parse(name)
	if err != nil {
		return err
	}
	new, err := dn.Parse(became)
	if err != nil {
		return err
	}
	w.attributes[id] = renamed(as, w.From.Schema(), old[0], new[0], deleteOld)
	r := &op.ModifyDN{Name: name, NewRDN: new[0].String(), DeleteOldRDN: deleteOld}
	if now.parent != at.parent || old.Parent().String() != new.Parent().String() {
		superior := new.Parent().String()
		r.NewSuperior = &superior
	}
	return w.emit(id, name, r)
}

// attributesOf returns the attributes that an entry has at this point of the walk.
func (w *walk) attributesOf(ctx context.Context, id entry.ID) ([]entry.Attribute, error) {
	if as, ok := w.attributes[id]; ok {
		return as, nil
	}
	e, err := w.From.Entry(ctx, id, false)
	if err != nil || e == nil {
		return nil, err
	}
	return e.Attributes, nil
}

func (w *walk) modify(ctx context.Context, t task, after *entry.Entry) error {
	was, err := w.attributesOf(ctx, t.id)
	if err != nil {
		return err
	}
	before, err := w.follow(ctx, w.From, t.id, was, after.Attributes)
	if err != nil {
		return err
	}
	becomes, err := w.follow(ctx, w.To, t.id, after.Attributes, was)
	if err != nil {
		return err
	}
	delta := delta(before, becomes)
	if len(delta) == 0 && (!w.Touched || t.kind == changestream.Moved) {
		return nil
	}
	name, err := w.name(ctx, t.id)
	if err != nil {
		return err
	}
	return w.emit(t.id, name, &op.Modify{Name: name, Changes: delta})
}

// subschema emits the differences between the definitions of the two states. What is only removed comes last, because entries
// may need it until then.
func (w *walk) subschema(ctx context.Context, after *entry.Entry) error {
	before, err := w.From.Entry(ctx, catalog.SubschemaID, false)
	if err != nil {
		return err
	}
	// A state from before the first definition of the directory's own has no such entry.
	if before == nil {
		before = &entry.Entry{}
	}
	if after == nil {
		after = &entry.Entry{}
	}
	var changes []op.Modification
	for _, m := range delta(definitions(before), definitions(after)) {
		// A replace would contain all definitions, even the built-in ones, and a delete without values takes those away.
		now, last := definitionChanges(before, after, m.Description)
		changes, w.undefine = append(changes, now...), append(w.undefine, last...)
	}
	if w.Touched {
		changes, w.undefine = append(changes, w.undefine...), nil
	}
	if len(changes) == 0 && !w.Touched {
		return nil
	}
	return w.redefine(changes)
}

func (w *walk) redefine(changes []op.Modification) error {
	return w.emit(catalog.SubschemaID, catalog.SubschemaName, &op.Modify{Name: catalog.SubschemaName, Changes: changes})
}
