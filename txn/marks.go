package txn

import (
	"hash/maphash"
	"sync"
)

// MarkKind says what a transaction does to what a row stands for
// (transactions.md, "Marks per entry").
type MarkKind byte

const (
	// MarkExclusive (x): create, delete, rename; with Deletes it conflicts
	// with MarkChild.
	MarkExclusive MarkKind = 'x'
	// MarkUpdate (u): modify.
	MarkUpdate MarkKind = 'u'
	// MarkValue (v): one value added to or removed from a multi-valued
	// attribute; Hash is of attribute and value.
	MarkValue MarkKind = 'v'
	// MarkChild (c): a child added or moved in.
	MarkChild MarkKind = 'c'
)

// A Mark declares what a transaction does to a row, so that concurrent
// transactions that cannot both be right do not both commit.
type Mark struct {
	Kind    MarkKind
	Deletes bool
	Hash    uint64
}

// conflicts reports whether two commits with these marks on one row cannot both
// be right unless one sees the other: x with x, u, v; u with u, v; v with v of
// the same value; c with x that deletes.
func (m Mark) conflicts(o Mark) bool {
	switch {
	case m.Kind == MarkChild:
		return o.Kind == MarkExclusive && o.Deletes
	case o.Kind == MarkChild:
		return m.Kind == MarkExclusive && m.Deletes
	case m.Kind == MarkValue && o.Kind == MarkValue:
		return m.Hash == o.Hash
	}
	return true
}

// placed is a mark on a row of a table. The row is hashed: two that collide
// give a conflict too many, never one too few.
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

// A markKey is one thing that transactions can meet on: a row's marks of one
// class, or those of one value.
type markKey struct {
	row   uint64
	class byte
	hash  uint64
}

// Classes beside the kinds of marks themselves.
const (
	deleting = 'd' // x marks that delete
	oneValue = 'w' // v marks of one value; class v has those of all values
)

// sets returns the keys under which a mark is found by others.
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

// meets returns the keys of marks that a mark conflicts with: x with x, u, v; u
// with u, v; v with v of the same value; c with x that deletes.
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

// A stamp says when a key was last marked.
type stamp struct {
	shown   uint64 // ordinal of the newest state whose commits marked it
	pending int    // commits under way
}

// recent has the marks of recent commits. A transaction conflicts with every
// incompatible mark that its own snapshot does not show: those of commits shown
// later and those of commits not decided yet.
//
// Marks are kept in two generations. When the younger is full, the older one
// goes, except what a transaction under way may have to meet; if that is too
// much, horizon says from which ordinal on the answer is still known. Its user
// locks it.
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

// conflict looks for marks that a transaction on the state since may not
// ignore. It answers with the ordinal of the state to wait for, or pending if
// the other is undecided.
func (t *recent) conflict(marks []placed, since uint64) (ordinal uint64, pending, found bool) {
	if len(marks) > 0 && since < t.knownSince {
		return t.knownSince, false, true
	}
	var buf [4]markKey
	for _, m := range marks {
		for _, k := range m.meets(&buf) {
			s := t.get(k)
			pending = pending || s.pending > 0
			ordinal = max(ordinal, s.shown)
		}
	}
	return ordinal, pending, pending || ordinal > since
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

// begin notes marks of a commit under way.
func (t *recent) begin(marks []placed) { t.update(marks, func(s *stamp) { s.pending++ }) }

// abort forgets them.
func (t *recent) abort(marks []placed) { t.update(marks, func(s *stamp) { s.pending-- }) }

// commit notes marks of a commit that begin has not seen.
func (t *recent) commit(marks []placed, n uint64) {
	t.update(marks, func(s *stamp) { s.shown = max(s.shown, n) })
}

// commitBegun notes that a commit under way is shown from ordinal n on.
func (t *recent) commitBegun(marks []placed, n uint64) {
	t.update(marks, func(s *stamp) { s.shown = max(s.shown, n); s.pending-- })
}

// isFull reports that prune is due.
func (t *recent) isFull() bool { return len(t.young) >= t.full }

// prune forgets the older generation. The oldest state that a transaction under
// way began at has ordinal oldest.
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

// running counts the transactions under way by the ordinal they began at.
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

// oldest is the ordinal of the oldest, at most n.
func (r *running) oldest(n uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for o := range r.at {
		n = min(n, o)
	}
	return n
}
