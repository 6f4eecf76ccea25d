package txn

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"sync"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// MarkKind is a kind of change to what a row represents, which is usually an entry
// (transactions.md, "Marks per entry").
type MarkKind byte

const (
	// MarkExclusive (x) is for create, delete and rename. If Deletes is set, the mark
	// also conflicts with MarkChild.
	MarkExclusive MarkKind = 'x'
	// MarkUpdate (u) is for modify.
	MarkUpdate MarkKind = 'u'
	// MarkValue (v) is for one value added to or removed from a multi-valued attribute.
	// Mark.Hash is the hash of the attribute and the value.
	MarkValue MarkKind = 'v'
	// MarkChild (c) is for a child that is added or moved below the entry.
	MarkChild MarkKind = 'c'
)

// A Mark declares what a transaction does to a row. Of concurrent transactions whose marks
// conflict, only one commits.
type Mark struct {
	Kind    MarkKind
	Deletes bool
	Hash    uint64
}

// conflicts reports whether two marks on one row conflict. If two commits place such
// marks and neither commit sees the other, only one of the two can be committed. A mark
// x conflicts with x, u and v; u conflicts with u and v; v conflicts with v of the same
// value; and c conflicts with an x that deletes.
func (m Mark) conflicts(o Mark) bool {
	switch {
	case m.Kind == MarkChild:
		return o.Kind == MarkExclusive && o.Deletes //rule:child
	case o.Kind == MarkChild:
		return m.Kind == MarkExclusive && m.Deletes //rule:child-parent
	case m.Kind == MarkValue && o.Kind == MarkValue:
		return m.Hash == o.Hash //rule:same-value
	}
	return true
}

// placed is a mark on a row of a table. It contains a hash of the row: a collision of
// hashes causes a needless conflict, but never a missed one.
type placed struct {
	row uint64
	Mark
}

var seed = maphash.MakeSeed()

func place(t string, row []byte, m Mark) placed {
	var h maphash.Hash
	h.SetSeed(seed)
	h.WriteString(t)
	h.WriteByte(0)
	h.Write(row)
	return placed{h.Sum64(), m}
}

// A markKey is the key under which marks are looked up. It consists of a row and a class
// of marks and, for the class oneValue, the hash of the value.
type markKey struct {
	row   uint64
	class byte
	hash  uint64
}

// Each MarkKind is a class of marks. These are the other classes.
const (
	deleting = 'd' // x marks that delete; also the value of the cell of such a mark
	oneValue = 'w' // v marks of one value; the class MarkValue contains v marks of all values
)

// sets returns the keys under which a mark is recorded.
func (p placed) sets(buf *[2]markKey) []markKey {
	buf[0] = markKey{row: p.row, class: byte(p.Kind)}
	switch {
	case p.Kind == MarkExclusive && p.Deletes:
		buf[1] = markKey{row: p.row, class: deleting}
	case p.Kind == MarkValue:
		buf[1] = markKey{row: p.row, class: oneValue, hash: p.Hash}
	default:
		return buf[:1]
	}
	return buf[:2]
}

// meets returns the keys of all marks that conflict with p (see Mark.conflicts).
func (p placed) meets(buf *[4]markKey) []markKey {
	of := func(class byte) markKey { return markKey{row: p.row, class: class} }
	switch p.Kind {
	case MarkChild:
		buf[0] = of(deleting)
		return buf[:1]
	case MarkValue:
		buf[0], buf[1] = of(byte(MarkExclusive)), of(byte(MarkUpdate))
		buf[2] = markKey{p.row, oneValue, p.Hash}
		return buf[:3]
	}
	buf[0], buf[1], buf[2] = of(byte(MarkExclusive)), of(byte(MarkUpdate)), of(byte(MarkValue))
	if p.Kind == MarkExclusive && p.Deletes {
		buf[3] = of(byte(MarkChild))
		return buf[:4]
	}
	return buf[:3]
}

// A stamp records when a key was last marked.
type stamp struct {
	shown   uint64 // ordinal of the first state that shows the last commit that marked the key
	pending int    // number of pending commits that mark the key
}

// recent contains the marks of this server's recent commits. A transaction conflicts with every
// incompatible mark that its own snapshot does not show. These are the marks of commits
// shown after the snapshot and the marks of undecided commits.
//
// The marks are kept in two generations. When the younger generation is full, the older
// generation is dropped, except marks that a running transaction may still conflict
// with. If there are too many such marks, some of them are dropped too. All marks of
// commits shown after the state of ordinal knownSince are still recorded. Callers of the
// methods of recent must hold a lock.
type recent struct {
	young, old map[markKey]stamp
	full       int
	knownSince uint64
}

const (
	minMarks = 1 << 15
	maxMarks = 1 << 20
)

func newRecent() *recent {
	return &recent{young: map[markKey]stamp{}, full: minMarks}
}

// conflict looks for conflicts with the marks of a transaction. The transaction began at the
// state with the ordinal since. conflict returns the ordinal of the state to wait for, and one of the
// marks that conflict, or nil. pending is true if a conflicting commit is undecided.
func (t *recent) conflict(marks []placed, since uint64) (ordinal uint64, pending bool, met *placed) {
	if len(marks) > 0 && since < t.knownSince {
		return t.knownSince, false, &marks[0]
	}
	var buf [4]markKey
	for i := range marks {
		for _, k := range marks[i].meets(&buf) {
			s := t.get(k)
			pending = pending || s.pending > 0
			if ordinal = max(ordinal, s.shown); s.pending > 0 || s.shown > since {
				met = &marks[i]
			}
		}
	}
	return ordinal, pending, met
}

func (t *recent) get(k markKey) stamp {
	s, ok := t.young[k]
	if !ok {
		s = t.old[k]
	}
	return s
}

// update changes the stamps of marks.
func (t *recent) update(marks []placed, change func(*stamp)) {
	var buf [2]markKey
	for _, m := range marks {
		for _, k := range m.sets(&buf) {
			s := t.get(k)
			change(&s)
			t.young[k] = s
		}
	}
}

// begin records the marks of a commit that is now pending.
func (t *recent) begin(marks []placed) { t.update(marks, func(s *stamp) { s.pending++ }) }

// abort removes the marks that were recorded by the method begin.
func (t *recent) abort(marks []placed) { t.update(marks, func(s *stamp) { s.pending-- }) }

// commit records the marks of a commit that were not recorded by the method begin. The state of
// ordinal n is the first one that shows the commit.
func (t *recent) commit(marks []placed, n uint64) {
	t.update(marks, func(s *stamp) { s.shown = max(s.shown, n) })
}

// commitBegun is for a commit whose marks were recorded by the method begin. It records that
// this commit is no longer pending. The state of ordinal n is the first one that shows the
// commit.
func (t *recent) commitBegun(marks []placed, n uint64) {
	t.update(marks, func(s *stamp) { s.shown = max(s.shown, n); s.pending-- })
}

// isFull reports whether prune is due.
func (t *recent) isFull() bool { return len(t.young) >= t.full }

// prune drops the older generation of marks. oldest is the ordinal of the state at which
// the oldest running transaction began.
func (t *recent) prune(oldest uint64) {
	next := map[markKey]stamp{}
	room := maxMarks - len(t.young)
	for k, s := range t.old {
		if _, newer := t.young[k]; newer {
			continue
		}
		if s.pending > 0 || s.shown > oldest && len(next) < room {
			next[k] = s
			continue
		}
		t.knownSince = max(t.knownSince, s.shown)
	}
	t.old, t.young = t.young, next
	t.full = max(minMarks, 2*len(next))
}

// running counts the running transactions. The key is the ordinal of the state at which
// a transaction began.
type running struct {
	mu sync.Mutex
	at map[uint64]int
}

func (r *running) begin(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = map[uint64]int{}
	}
	r.at[n]++
}

func (r *running) end(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at[n]--; r.at[n] == 0 {
		delete(r.at, n)
	}
}

// oldest returns the ordinal of the state at which the oldest running transaction began,
// or n if that is smaller.
func (r *running) oldest(n uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for o := range r.at {
		n = min(n, o)
	}
	return n
}

// noteDeletes is the bit of an encoded note's kind that stands for Mark.Deletes.
const noteDeletes = 0x80

// rowHash returns the hash of a row in notes. It is the same in every process.
func rowHash(name string, row []byte) uint64 {
	h := fnv.New64a()
	h.Write(append([]byte(name), 0))
	h.Write(row)
	return h.Sum64()
}

// appendNotes appends the notes of marks to b. A note is the form of a mark in the
// journal of a store of one server that has branches. It consists of the hash of the
// row, the kind and, for MarkValue, the last 32 bits of Mark.Hash. A collision of hashes
// causes a needless clash, but never a missed one.
func appendNotes(b []byte, marks []markRow) []byte {
	for _, m := range marks {
		b = binary.BigEndian.AppendUint64(b, rowHash(m.table, m.row))
		kind := byte(m.mark.Kind)
		if m.mark.Deletes {
			kind |= noteDeletes
		}
		if b = append(b, kind); m.mark.Kind == MarkValue {
			b = binary.BigEndian.AppendUint32(b, uint32(m.mark.Hash))
		}
	}
	return b
}

// notesOf decodes the marks of a commit.
func notesOf(rec *journal.Record) (marks []placed, err error) {
	for b := rec.Marks; len(b) > 0; {
		if len(b) < 9 {
			return nil, fmt.Errorf("marks of %s: %w", rec.Revision, table.ErrCorrupt)
		}
		m := placed{row: binary.BigEndian.Uint64(b), Mark: Mark{Kind: MarkKind(b[8] &^ noteDeletes), Deletes: b[8]&noteDeletes != 0}}
		if b = b[9:]; m.Kind == MarkValue {
			if len(b) < 4 {
				return nil, fmt.Errorf("marks of %s: %w", rec.Revision, table.ErrCorrupt)
			}
			m.Hash, b = uint64(binary.BigEndian.Uint32(b)), b[4:]
		}
		marks = append(marks, m)
	}
	return marks, nil
}
