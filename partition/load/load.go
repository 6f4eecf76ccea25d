package load

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/load/spill"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// LoadOptions are the options of a load. The zero LoadOptions work.
type Options struct {
	// By is the creator of the entries that have no creatorsName.
	By write.By
	// Suffixes become naming contexts when the load commits.
	Suffixes []string
	// FirstSuffix makes the name of the first entry a naming context if the directory has
	// no naming context.
	FirstSuffix bool
	// Scopes contains the scopes of unique attributes whose base entry is part of the load. It
	// maps the id of the base entry to its name.
	Scopes map[entry.ID]dn.DN
	// Memory bounds the memory for names, in bytes. It also bounds the memory that the
	// store uses for sorting. Zero means 288 MiB for each. Names that do not fit in
	// memory are written to disk.
	Memory int64
	// Folder is the folder for the names that do not fit in memory. If Folder is empty, the
	// load uses the system's folder for temporary files.
	Folder string
	// Progress, if set, is called from time to time by Commit.
	Progress func(done, of float64)
	// CheckOnly makes the load check entries and write nothing. Other transactions can commit
	// meanwhile. The load does not notice changes that these transactions make after Load was
	// called. The caller must not call Write or Commit.
	CheckOnly bool
}

const DefaultLoadMemory = 288 << 20

// A Loader adds entries without a transaction for each entry. Either Commit makes all
// entries visible at once, or no entry ever becomes visible. Unless CheckOnly is set, no
// other transaction can commit during the load.
//
// An entry is added in three steps. Prepare checks the entry against the schema. Link finds
// the entry's parent, so the caller must link the parent first. Write writes the entry to the
// store. Different goroutines may call Prepare, Link and Write at the same time, for different
// entries. Add runs the three steps for one entry.
type Loader struct {
	p     *catalog.Partition
	o     Options
	bulk  *txn.Bulk
	first *state.Snapshot // the state before the load
	s     *state.Snapshot // the state before the load, with the changes of tx
	empty bool            // there were no entries before the load: do not read the store

	// names maps the hash of a name to the id of the name's entry. The id is zero if the entry
	// was refused, and aliasID if the entry is an alias. The map ids contains the entryUUIDs
	// that entries had before they were loaded. It also maps each value of a unique attribute
	// to the entry that has the value.
	names, ids *spill.Map
	awaited    awaited

	replaced []*Loading // entries that replace founding entries
	tx       *write.Tx  // writes the entries in replaced; nil if there are none

	stamps  []write.NewAttribute // operational attributes for the loaded entries that lack them
	rules   sync.Map             // entry.ID to *schema.StructureRule, for loaded entries
	count   atomic.Int64
	writers sync.Pool

	mu      sync.Mutex // protects changes of catalog, suffix and norms
	catalog atomic.Pointer[catalog.Catalog]
	suffix  dn.DN // the naming context that FirstSuffix made, or nil
	norms   []dn.Norm
	before  *catalog.Catalog // the catalog in force
	end     sync.Once
}

// A Loading is an entry that is being loaded.
type Loading struct {
	e      *write.NewEntry
	norms  []dn.Norm
	parent entry.ID
	rdn    dn.Norm

	attributes      []op.PartialAttribute
	there, replaces bool // the store has an equal entry; the entry replaces a founding entry
}

// There reports whether the store has an equal entry, so that Write will do nothing. It is valid
// after Link.
func (x *Loading) There() bool { return x.there }

// Load begins a load. The caller must end the load with Commit or Abort. Unless o.CheckOnly is
// set, no other transaction can commit until then.
func Load(ctx context.Context, p *catalog.Partition, o Options) (*Loader, error) {
	if o.Memory <= 0 {
		o.Memory = DefaultLoadMemory
	}
	if o.CheckOnly {
		return newLoader(ctx, p, o)
	}
	p.Changing.Lock()
	l, err := newLoader(ctx, p, o)
	if err != nil {
		p.Changing.Unlock()
		return nil, err
	}
	return l, nil
}

func newLoader(ctx context.Context, p *catalog.Partition, o Options) (*Loader, error) {
	l := &Loader{p: p, o: o}
	var err error
	if l.before, err = p.Latest(); err != nil {
		return nil, err
	}
	if err := l.before.Header.Writable(); err != nil {
		return nil, err
	}
	c, err := l.before.WithSuffixes(o.Suffixes)
	if err != nil {
		return nil, err
	}
	l.catalog.Store(c)
	if !o.CheckOnly {
		l.bulk, err = p.DB.Bulk(ctx, table.BulkOptions{Memory: o.Memory, Progress: o.Progress})
		if errors.Is(err, txn.ErrConflict) {
			err = catalog.Errorf(catalog.Busy, "%v", err)
		}
		if err != nil {
			return nil, err
		}
		now := o.By.Time
		if now.IsZero() {
			now = l.bulk.Stamp().Time()
		}
		l.stamps = write.StampsOf(c.Types, o.By.Name, schema.AppendTime(nil, now), write.Csn(l.bulk.Stamp()))
	}
	l.first, l.empty = state.Newest(p), true
	l.s = l.first
	for row, err := range l.s.Reader.Scan(ctx, p.Master, table.Range{}, table.Select{Families: []table.Family{master.TreeInfo}, MaxRows: 2}) {
		if err != nil {
			l.s.Close()
			return nil, errors.Join(err, l.drop(ctx))
		}
		l.empty = l.empty && bytes.Equal(row.Key, catalog.SubschemaID[:])
	}
	l.names = spill.New(o.Folder, o.Memory*3/4)
	l.ids = spill.New(o.Folder, o.Memory/4)
	return l, nil
}

// Add runs all steps for one entry. The entry keeps the given values of
// NO-USER-MODIFICATION attributes.
func (l *Loader) Add(ctx context.Context, name dn.DN, attributes []op.PartialAttribute) error {
	e, err := l.Prepare(name, attributes)
	if err == nil {
		err = l.Link(ctx, e)
	}
	if err == nil {
		err = l.Write(ctx, e)
	}
	return err
}

// Prepare checks an entry against the schema.
func (l *Loader) Prepare(name dn.DN, attributes []op.PartialAttribute) (*Loading, error) {
	e, err := write.Prepare(l.catalog.Load().Types, name, attributes, write.GivenByImport)
	if err != nil {
		return nil, err
	}
	x := &Loading{e: e, attributes: attributes}
	if x.norms, err = name.Normalize(l.catalog.Load().Schema); err != nil {
		return nil, catalog.Errorf(catalog.InvalidName, "name %s: %v", name, err)
	}
	e.Stamp(l.stamps)
	return x, nil
}

// Errors that Link returns or wraps.
var (
	ErrOutside = catalog.Errorf(catalog.NamingViolation, "the name is in no naming context of this directory")
	ErrRefused = catalog.Errorf(catalog.Unwilling, "was refused") // of the entry above
	// ErrOrder is not about one entry: the load cannot go on.
	ErrOrder = errors.New("which became the naming context because it came first: name the naming context")
)

// Link finds the entry's parent and claims the entry's name and id. If the parent does
// not exist yet, Link returns an *Error with the problem NoSuchEntry.
func (l *Loader) Link(ctx context.Context, x *Loading) error {
	c, err := l.contexts(x.e.Name, x.norms)
	if err != nil {
		return err
	}
	own := c.ContextOf(x.norms)
	switch {
	case own == nil && l.isAbove(x.norms):
		return fmt.Errorf("%s is above %s, %w", x.e.Name, l.suffix, ErrOrder)
	case own == nil:
		return ErrOutside
	case len(own.Norms) == len(x.norms):
		x.parent, x.rdn = catalog.Root, own.RDN
	default:
		if x.parent, err = l.parent(ctx, x); err != nil {
			return err
		}
		x.rdn = x.norms[0]
	}
	rule, err := l.govern(ctx, x)
	if err != nil {
		return err
	}
	if err := l.Claim(ctx, x); err != nil || rule == nil {
		return err
	}
	l.rules.Store(x.e.ID, rule)
	return nil
}

// govern returns the DIT structure rule of an entry. The rules of loaded entries are kept
// for the entries below them.
func (l *Loader) govern(ctx context.Context, x *Loading) (*schema.StructureRule, error) {
	c := l.catalog.Load()
	if len(c.Schema.NameForms()) == 0 {
		return nil, nil
	}
	var above *schema.StructureRule
	if rule, ok := l.rules.Load(x.parent); ok {
		above = rule.(*schema.StructureRule)
	} else if err := l.ruleBefore(ctx, x.parent, &above); err != nil {
		return nil, err
	}
	return write.Govern(c.Types, x.e.Classes, x.e.Name[0], x.parent == catalog.Root, above)
}

// ruleBefore finds the rule of an entry that existed before the load. A loaded entry that
// is not in l.rules has no rule.
func (l *Loader) ruleBefore(ctx context.Context, id entry.ID, rule **schema.StructureRule) error {
	if l.empty || id == catalog.Root {
		return nil
	}
	node, err := l.s.Node(ctx, id)
	if err != nil || node == nil {
		return err
	}
	*rule, err = write.GoverningRule(ctx, l.s, id)
	return err
}

// contexts returns the catalog that contains the naming contexts of the load. If the directory
// has no naming context and FirstSuffix is set, contexts first makes the given name a naming
// context.
func (l *Loader) contexts(name dn.DN, norms []dn.Norm) (*catalog.Catalog, error) {
	if c := l.catalog.Load(); len(c.Contexts) > 0 || !l.o.FirstSuffix {
		return c, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.catalog.Load()
	if len(c.Contexts) > 0 {
		return c, nil
	}
	c, err := c.WithSuffixes([]string{name.String()})
	if err == nil {
		l.catalog.Store(c)
		l.suffix, l.norms = name, norms
	}
	return c, err
}

// isAbove reports whether a name is above the one that FirstSuffix made a naming context.
func (l *Loader) isAbove(norms []dn.Norm) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	below := len(l.norms) - len(norms)
	return below > 0 && slices.Equal(l.norms[below:], norms)
}

// hash returns the key of a name: 128 bits of a cryptographic hash. Even an attacker can hardly
// construct two names with the same key.
func hash(norms []dn.Norm) spill.Key { return hashOf([]byte(dn.Key(norms))) }

func hashOf(b []byte) spill.Key {
	h := sha256.Sum256(b)
	return spill.Key(h[:16])
}

func (l *Loader) parent(ctx context.Context, x *Loading) (entry.ID, error) {
	above := x.norms[1:]
	key := hash(above)
	id, ok, err := l.names.Get(key)
	if err != nil {
		return catalog.Root, err
	}
	if ok {
		switch entry.ID(id) {
		case catalog.Root:
			return catalog.Root, fmt.Errorf("the entry above it, %s, %w", x.e.Name.Parent(), ErrRefused)
		case l.aliasID():
			return catalog.Root, write.ErrBelowAlias
		}
		return entry.ID(id), nil
	}
	if !l.empty {
		pl, err := l.s.Locate(ctx, x.e.Name.Parent())
		if err != nil {
			return catalog.Root, err
		}
		if pl.Found {
			if err := write.NotAlias(ctx, l.s, pl.ID); err != nil {
				return catalog.Root, err
			}
			_, _, err := l.names.Put(key, spill.Value(pl.ID))
			return pl.ID, err
		}
	}
	return catalog.Root, catalog.Errorf(catalog.NoSuchEntry, "there is no entry %s to add it below: add that entry too", x.e.Name.Parent())
}

// aliasID is the id that names contains for every alias. The real id of an alias is not
// needed, because an alias has no entries below it.
func (l *Loader) aliasID() entry.ID { return catalog.ClassID(l.catalog.Load().Schema.Class("alias")) }

// Claim reserves the entry's name, id and unique values, or returns an error if another entry
// has one of them. It also looks up the entries that the entry's values must name.
func (l *Loader) Claim(ctx context.Context, x *Loading) error {
	if !l.empty {
		id, ok, err := l.s.Child(ctx, tree.Key(x.parent, x.rdn))
		if err == nil && ok {
			err = l.meet(ctx, x, id)
		}
		if err != nil || ok {
			return err
		}
	}
	given := x.e.ID != catalog.Root
	if given {
		if err := l.checkUnused(ctx, x.e.ID); err != nil {
			return err
		}
	} else {
		x.e.ID = entry.NewID()
	}
	name := hash(x.norms)
	if err := l.unique(ctx, x, name); err != nil {
		return err
	}
	had, found, err := l.names.Put(name, l.nameValue(x))
	switch {
	case err != nil:
		return err
	case found:
		return taken(had)
	}
	if given {
		if _, _, err = l.ids.Put(hashID(x.e.ID), spill.Value{}); err != nil {
			return err
		}
	}
	return l.refer(ctx, x)
}

// nameValue returns what names contains for an entry.
func (l *Loader) nameValue(x *Loading) spill.Value {
	if x.e.Classes.Has(l.catalog.Load().Schema.Class("alias")) {
		return spill.Value(l.aliasID())
	}
	return spill.Value(x.e.ID)
}

// meet links an entry whose name an existing entry has: the two are equal, or the new entry
// replaces a founding entry. Otherwise meet returns an error.
func (l *Loader) meet(ctx context.Context, x *Loading, id entry.ID) error {
	if slices.ContainsFunc(l.replaced, func(r *Loading) bool { return slices.Equal(r.norms, x.norms) }) {
		return taken(spill.Value(id))
	}
	replaces, err := write.Meet(ctx, l.s, l.first, id, x.e)
	if err != nil {
		return err
	}
	name := hash(x.norms)
	_, above, err := l.names.Get(name)
	if err != nil {
		return err
	}
	// If entries were linked below the existing entry, it must keep its id.
	if x.there = !replaces; x.there || above || l.o.CheckOnly || x.e.ID == catalog.Root {
		x.e.ID = id
	}
	if replaces && !l.o.CheckOnly {
		if err := l.replace(ctx, x); err != nil {
			return err
		}
	}
	_, _, err = l.names.Put(name, l.nameValue(x))
	return err
}

// replace puts an entry in the place of a founding entry. All replacements are made in one
// transaction, and made again for each new one, so that a refused one leaves nothing behind.
func (l *Loader) replace(ctx context.Context, x *Loading) error {
	if err := l.claimUnique(ctx, x); err != nil {
		return err
	}
	if err := l.refer(ctx, x); err != nil {
		return err
	}
	x.replaces = true
	if err := l.replaceAll(ctx, append(l.replaced, x)); err != nil {
		return errors.Join(err, l.replaceAll(ctx, l.replaced))
	}
	l.replaced = append(l.replaced, x)
	return nil
}

func (l *Loader) replaceAll(ctx context.Context, all []*Loading) error {
	l.dropTx()
	l.tx = write.Begin(l.p, l.bulk.Begin(), l.before, l.o.By)
	l.tx.Rules.Together = true // refer and checkArrived check what the values name
	l.s = &l.tx.Snapshot
	for _, x := range all {
		if err := l.tx.Replace(ctx, x.e.Name, x.attributes, x.e.ID); err != nil {
			return err
		}
	}
	return nil
}

func (l *Loader) dropTx() {
	if l.tx != nil {
		l.bulk.Drop(l.tx.Txn)
	}
}

// taken returns the error for a record whose name an earlier record has.
func taken(by spill.Value) error {
	if entry.ID(by) == catalog.Root {
		return catalog.Errorf(catalog.EntryExists, "an earlier record of this name was refused")
	}
	return catalog.Errorf(catalog.EntryExists, "an earlier record has this name already: leave one of them out")
}

// checkUnused returns an error if an entry with the id exists.
func (l *Loader) checkUnused(ctx context.Context, id entry.ID) error {
	_, taken, err := l.ids.Get(hashID(id))
	if err != nil {
		return err
	}
	if !taken && !l.empty {
		node, err := l.s.Node(ctx, id)
		if err != nil {
			return err
		}
		taken = node != nil
	}
	if taken {
		return catalog.Errorf(catalog.EntryExists, "another entry has the entryUUID %s: remove it from one of them", id)
	}
	return nil
}

func hashID(id entry.ID) spill.Key { return hashOf(id[:]) }

// Refuse notes that the caller has refused the record with this name. For an entry below this
// name, Link then returns an error that says that the superior was refused. With FirstSuffix, a
// refused name can be the naming context as well, unless it looks like cn=config or cn=schema.
func (l *Loader) Refuse(name dn.DN) error {
	norms, err := name.Normalize(l.catalog.Load().Schema)
	if err != nil || len(norms) == 0 {
		return nil // Link looks up no superior by an empty or invalid name
	}
	if !strings.EqualFold(name[len(name)-1][0].Type, "cn") {
		if _, err := l.contexts(name, norms); err != nil {
			return err
		}
	}
	_, _, err = l.names.Put(hash(norms), spill.Value{})
	return err
}

// Write writes linked entries to the store. After an error the caller must call Abort.
func (l *Loader) Write(ctx context.Context, xs ...*Loading) error {
	w := l.writer()
	defer l.writers.Put(w)
	c := l.catalog.Load()
	n := 0
	for _, x := range xs {
		if x.there {
			continue
		}
		if n++; x.replaces {
			continue // the transaction writes it
		}
		x.e.Write(l.p, c, w, x.parent, x.rdn)
	}
	if err := w.Flush(ctx, l.bulk); err != nil {
		return err
	}
	l.count.Add(int64(n))
	return nil
}

// writer returns a writer from the pool or, if the pool is empty, a new writer. The buffers of
// writers in the pool have already grown.
func (l *Loader) writer() LoadWriter {
	if w, ok := l.writers.Get().(LoadWriter); ok {
		return w
	}
	return LoadWriter{}
}

// Count returns the number of entries that were written so far.
func (l *Loader) Count() int { return int(l.count.Load()) }

// A LoadWriter collects mutations by table.
type LoadWriter map[table.Table][]table.Mutation

// A Filling writes cells outside transactions. It is either a load or a fill of indexes
// during which other writers continue.
type Filling interface {
	Write(ctx context.Context, ws ...table.Write) error
}

// Flush writes the collected mutations to b and keeps the buffers.
func (w LoadWriter) Flush(ctx context.Context, b Filling) error {
	var ws []table.Write
	for t, ms := range w {
		if len(ms) > 0 {
			ws = append(ws, table.Write{Table: t.Name(), Mutations: ms})
		}
	}
	if err := b.Write(ctx, ws...); err != nil {
		return err
	}
	for t, ms := range w {
		clear(ms)
		w[t] = ms[:0]
	}
	return nil
}

func (w LoadWriter) Write(t table.Table, ms ...table.Mutation) {
	w[t] = append(w[t], ms...)
}

// InvalidatePosting does nothing: a load makes all caches invalid, and no cache contains postings of an
// index that is being filled.
func (w LoadWriter) InvalidatePosting(uint64) {}

// Claim does nothing, because Link has already made the claims of a load.
func (w LoadWriter) Claim(*catalog.Indexed, []byte, entry.ID, entry.ID) {}

// Refer does nothing, because Link has already checked the references of a load.
func (w LoadWriter) Refer(*catalog.Indexed, []byte, []byte) {}

// Commit makes all written entries durable and visible at one revision.
func (l *Loader) Commit(ctx context.Context) (r table.Revision, err error) {
	err = fmt.Errorf("load: %w", table.ErrClosed)
	l.end.Do(func() {
		defer l.done()
		r, err = l.commit(ctx)
	})
	return r, err
}

func (l *Loader) commit(ctx context.Context) (table.Revision, error) {
	last := context.WithoutCancel(ctx)
	if err := l.checkArrived(); err != nil {
		return 0, errors.Join(err, l.bulk.Abort(last))
	}
	if after := l.catalog.Load(); after != l.before { // the load adds naming contexts
		m, err := after.Header.Mutation()
		if err == nil {
			err = l.bulk.Write(ctx, table.Write{Table: l.p.SettingsTable.Name(), Mutations: []table.Mutation{m}})
		}
		if err != nil {
			return 0, errors.Join(err, l.bulk.Abort(last))
		}
	}
	if l.tx != nil {
		if err := l.bulk.Take(ctx, l.tx.Txn); err != nil {
			return 0, errors.Join(err, l.bulk.Abort(last))
		}
	}
	message := l.o.By.Append(nil)
	message = fmt.Appendf(message, "\nimport %d entries", l.count.Load())
	r, err := l.bulk.Commit(ctx, message)
	if err != nil {
		return 0, errors.Join(err, l.bulk.Abort(last))
	}
	return r, nil
}

// Abort discards everything that the load has written. After Commit, Abort does nothing.
func (l *Loader) Abort(ctx context.Context) (err error) {
	l.end.Do(func() {
		defer l.done()
		err = l.drop(ctx)
	})
	return err
}

// drop discards what the load has written. With CheckOnly it does nothing.
func (l *Loader) drop(ctx context.Context) error {
	if l.o.CheckOnly {
		return nil
	}
	return l.bulk.Abort(context.WithoutCancel(ctx))
}

// Suffixes returns the naming contexts that the directory has after the load.
func (l *Loader) Suffixes() []string { return slices.Clone(l.catalog.Load().Header.Suffixes) }

// Revision returns the revision of the state before the load.
func (l *Loader) Revision() table.Revision { return l.first.Revision() }

// Check makes the last check. The caller must have linked all entries. Check returns an error
// if a value must name an entry and names none, neither in the directory nor in the load.
func (l *Loader) Check() error { return l.checkArrived() }

func (l *Loader) done() {
	l.dropTx()
	l.first.Close()
	// Scratch files that cannot be removed stay in a temporary folder, so an error is
	// only logged.
	if err := errors.Join(l.names.Close(), l.ids.Close()); err != nil {
		l.p.Log.Warn("removing scratch files", "error", err)
	}
	if !l.o.CheckOnly {
		l.p.Changing.Unlock()
	}
}

// CommitSize returns the number of records to import in one commit while others write to the
// directory. On an embedded store, other commits wait while the changes of a commit are made.
// With 100 entries in a commit, one update in a hundred waited 55 ms. With 25 entries, one in a
// hundred waited 17 to 31 ms, and the import took a tenth longer. On a shared store, each
// commit takes several round trips, and other commits do not wait.
func CommitSize(p *catalog.Partition) int {
	if p.DB.Shared() {
		return 100
	}
	return 25
}
