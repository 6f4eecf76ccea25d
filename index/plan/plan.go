// Package plan turns a resolved filter into a tree of index cursors and runs that tree.
// [Build] returns an [Access], or nil if no index serves the filter and the entries in
// scope must be scanned. An Access yields candidates. A candidate marked Maybe must be
// tested against the whole filter. A candidate that is not marked Maybe matches the
// filter. Every candidate must still be tested for the scope of the search.
//
// The cost model uses no statistics, because statistics go stale and differ between servers. An
// intersection reads the candidates of its parts in growing pages, the cheapest kind of part
// first, until one part ends. So the part that ended is one of the shortest. Its candidates are
// then in memory. If there are several candidates, the intersection also reads each other part,
// but stops reading a part that has more than four times as many candidates. The caller tests
// the candidates' entries for the parts that were not read to their end.
//
// On a store where each read is a round trip, a plan has [Lists]: it reads the beginnings of the lists
// of all values at once. The beginnings show which list is much longer than another, and no more of such a
// list is read.
package plan

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Catalog returns the indexes that a plan can read.
type Catalog interface {
	Indexed(t *schema.AttributeType) (index.Index, bool)
}

// An Access is a way to find candidates.
type Access interface {
	// Run streams the candidates behind a position. An Access that Build does not return
	// itself, but uses as a part, may ignore the position and stream all its candidates. The
	// positions of one Access at one revision are stable.
	Run(ctx context.Context, r table.Reader, after []byte) index.Candidates
	// Describe prints the access and its parts, one line for each. If counted is set, it
	// includes the numbers of candidates that the parts have yielded so far.
	Describe(b *strings.Builder, indent int, counted bool)
	// Indexes appends the indexes whose candidates Run streams. For an intersection, these
	// are the indexes of the leading part. Before Run, the first part counts as leading.
	Indexes(uses []Use) []Use

	rank() rank
	// distinct reports whether Run yields each entry at most once.
	distinct() bool
}

// A Use records which index an access reads, and for what kind of search.
type Use struct {
	Attribute string
	Kind      string // value, range, scan, presence, references or journal
}

func (u Use) String() string { return u.Attribute + " " + u.Kind }

// A rank is a kind of part of an intersection. Ranks are ordered by the number of candidates
// that parts of the kind usually have.
type rank uint8

const (
	rankOne  rank = iota // at most one candidate
	rankFew              // one value in a selective index
	rankSome             // one value in an index that is not selective
	rankSpan             // a range bounded by a prefix, or a list of references
	rankMany             // a range, or presence
	rankAll              // all keys of an index, of which the filter may need few
)

// empty is the access for a filter that matches nothing.
type empty struct{}

func (empty) Run(context.Context, table.Reader, []byte) index.Candidates {
	return func(func(index.Candidate, error) bool) {}
}
func (empty) rank() rank     { return rankOne }
func (empty) distinct() bool { return true }

// byID is the access for an equality or approximate assertion on entryUUID. Its only candidate
// is the asserted id. The candidate's Parent is zero because the parent is unknown. There may
// be no entry with the id.
type byID struct{ id entry.ID }

func (a byID) Run(_ context.Context, _ table.Reader, after []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		if len(after) == 0 {
			yield(index.Candidate{ID: a.id, Maybe: true, Position: a.id[:]}, nil)
		}
	}
}
func (byID) rank() rank     { return rankOne }
func (byID) distinct() bool { return true }

// A lookup is a search in one index for a value, for a span or for presence.
type lookup struct {
	test  *filter.Test
	typ   *schema.AttributeType
	in    index.Index
	span  index.Span
	maybe bool // the index may return entries that do not match the test
	order rank
	seen  int
	// What was read, if the plan has Lists: the head of a lookup of one value, ranged of any other one.
	head   *head
	ranged *ranged
}

func (a *lookup) Run(ctx context.Context, r table.Reader, after []byte) index.Candidates {
	var from index.Candidates
	switch {
	case a.head != nil:
		from = a.head.stream(ctx, r, after)
	case a.ranged != nil && len(after) == 0:
		from = a.ranged.stream(ctx, r)
	default:
		from = a.from(ctx, r, after, 0)
	}
	return func(yield func(index.Candidate, error) bool) {
		for c, err := range from {
			c.Maybe = c.Maybe || a.maybe
			a.seen++
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// from streams the candidates behind a position from the index. The caller will probably read so
// many of them; zero means that this is not known.
func (a *lookup) from(ctx context.Context, r table.Reader, after []byte, expect int) index.Candidates {
	switch {
	case a.presence():
		return a.in.Present(ctx, r, after, expect)
	case a.order == rankFew || a.order == rankSome:
		return a.in.Equal(ctx, r, a.test.Key, after)
	}
	span := a.span
	span.Expect = expect
	return a.in.Span(ctx, r, span, after)
}

func (a *lookup) rank() rank { return a.order }

func (a *lookup) distinct() bool {
	return a.order == rankFew || a.order == rankSome || a.presence()
}

// presence reports whether the index has rows that record which entries have any value, and the lookup is a search for
// these.
func (a *lookup) presence() bool { return a.test.Op == filter.TestPresent && index.HasPresence(a.typ) }

// A union yields the candidates of all its parts, one part after another.
type union struct {
	parts []Access
	seen  int
}

func (a *union) Run(ctx context.Context, r table.Reader, after []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		for i, p := range a.parts {
			if i%atOnce == 0 {
				next := a.parts[i:min(i+atOnce, len(a.parts))]
				if err := readTogether(ctx, r, wantsOf(next, true, firstOf)); err != nil {
					yield(index.Candidate{}, err)
					return
				}
			}
			for c, err := range p.Run(ctx, r, nil) {
				a.seen++
				if !yield(c, err) || err != nil {
					return
				}
			}
		}
	}
}

func (a *union) rank() rank {
	worst := rankSome
	for _, p := range a.parts {
		worst = max(worst, p.rank())
	}
	return worst
}

func (*union) distinct() bool { return false }

// Build plans a filter. It returns nil if only a scan can evaluate the filter. The plan keeps what
// it reads in l, which is nil if reads are not round trips.
func Build(f filter.Resolved, c Catalog, l *Lists) Access {
	a, _ := builder{c, l}.build(f)
	if a == nil || a.distinct() {
		return a
	}
	if x, ok := a.(*intersection); ok {
		x.root, x.byID = true, x.value() != nil
		return &common{x}
	}
	return &once{of: a}
}

// IsSelective reports whether an access probably has few candidates.
func IsSelective(a Access) bool { return a.rank() <= rankFew }

// ReadsAll reports whether a filter with this access makes a search read all keys of an index, or all
// entries if the access is nil.
func ReadsAll(a Access) bool { return a == nil || a.rank() == rankAll }

type builder struct {
	Catalog
	lists *Lists
}

// build plans a filter. If whole is true, every candidate of the access that is not marked
// Maybe matches the whole filter.
func (b builder) build(f filter.Resolved) (a Access, whole bool) {
	switch f := f.(type) {
	case filter.Const:
		if f == filter.Const(filter.True) {
			return nil, false
		}
		return empty{}, true
	case *filter.Test:
		return b.test(f)
	case *filter.OrNode:
		return b.or(f)
	case *filter.AndNode:
		return b.and(f)
	}
	return nil, false
}

func (b builder) or(f *filter.OrNode) (Access, bool) {
	u := &union{}
	for _, p := range f.Parts {
		a, whole := b.build(p)
		if a == nil {
			return nil, false
		}
		if !whole {
			a = &unsure{a}
		}
		u.parts = append(u.parts, a)
	}
	return u, true
}

func (b builder) and(f *filter.AndNode) (Access, bool) {
	x := &intersection{whole: true, lists: b.lists}
	for _, p := range f.Parts {
		a, whole := b.build(p)
		if a != nil {
			x.parts = append(x.parts, a)
		}
		x.whole = x.whole && a != nil && whole
	}
	switch len(x.parts) {
	case 0:
		return nil, false
	case 1:
		if !x.whole {
			return &unsure{x.parts[0]}, false
		}
		return x.parts[0], true
	}
	x.sort()
	return x, x.whole
}

// unsure marks all candidates of an access as Maybe.
type unsure struct{ Access }

func (a *unsure) Run(ctx context.Context, r table.Reader, after []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		for c, err := range a.Access.Run(ctx, r, after) {
			c.Maybe = true
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

func (b builder) test(t *filter.Test) (Access, bool) {
	if id, ok := idOf(t); ok {
		return byID{id}, true
	}
	if t.List() != nil {
		return &listed{test: t}, true
	}
	if t.DNAttrs || t.Op != filter.TestPresent && !t.ByKey || len(t.Types) == 0 {
		return nil, false
	}
	if len(t.Types) == 1 {
		a := b.lookup(t, t.Types[0])
		return a, a != nil
	}
	u := &union{}
	for _, at := range t.Types {
		a := b.lookup(t, at)
		if a == nil {
			return nil, false
		}
		u.parts = append(u.parts, a)
	}
	return u, true
}

// lookup returns nil if no index serves the test of the type.
func (b builder) lookup(t *filter.Test, at *schema.AttributeType) Access {
	in, ok := b.Indexed(at)
	if !ok {
		return nil
	}
	a := &lookup{test: t, typ: at, in: in, maybe: t.Options != ""}
	switch t.Op {
	case filter.TestPresent:
		a.order = rankMany
	case filter.TestEqual, filter.TestApprox, filter.TestExtensible:
		if t.Rule.Use != schema.Equality {
			return nil
		}
		a.order = rankSome
		if in.Selective() {
			a.order = rankFew
		}
		a.head = b.lists.of(at, in, t.Key)
	case filter.TestGreaterOrEqual:
		a.span, a.order = index.Span{From: t.Key}, rankMany
	case filter.TestLessOrEqual:
		a.span, a.order = index.Span{To: t.Key}, rankMany
	case filter.TestSubstrings:
		a.span, a.order = index.Span{Prefix: t.Initial, Parts: t.Any}, rankAll
		if t.Final != nil {
			a.span.Parts = append([][]byte(nil), t.Any...)
			a.span.Parts = append(a.span.Parts, t.Final)
			a.span.AtEnd = true
		}
		if len(t.Initial) > 0 {
			a.order = rankSpan
		}
	default:
		return nil
	}
	if a.head == nil {
		a.ranged = b.lists.in(a)
	}
	return a
}

// idOf returns the id that an equality or approximate assertion on entryUUID asserts.
func idOf(t *filter.Test) (id entry.ID, ok bool) {
	if len(t.Types) != 1 || t.Types[0].OID != schema.EntryUUIDOID || t.Options != "" || t.DNAttrs ||
		t.Op != filter.TestEqual && t.Op != filter.TestApprox || !t.ByKey {
		return id, false
	}
	if len(t.Key) == len(id) {
		return entry.ID(t.Key), true
	}
	id, err := entry.ParseID(string(bytes.TrimSpace(t.Key)))
	return id, err == nil
}

func (empty) Describe(b *strings.Builder, indent int, counted bool) {
	line(b, indent, "nothing can match")
}

func (a byID) Describe(b *strings.Builder, indent int, counted bool) {
	line(b, indent, "entry %s", a.id)
}

func (a *lookup) Describe(b *strings.Builder, indent int, counted bool) {
	kind := a.kind()
	in := "in"
	if kind == "range" || kind == "scan" {
		in = "of"
	}
	line(b, indent, "%s %s %s: %s%s", kind, in, index.TableName(a.typ), a.test, yielded(a.seen, counted))
}

func (a *lookup) kind() string {
	switch {
	case a.test.Op == filter.TestPresent:
		return "presence"
	case a.order == rankSpan:
		return "range"
	case a.order == rankMany, a.order == rankAll:
		return "scan"
	}
	return "value"
}

func (empty) Indexes(uses []Use) []Use { return uses }

func (byID) Indexes(uses []Use) []Use { return append(uses, Use{"entryUUID", "value"}) }

func (a *lookup) Indexes(uses []Use) []Use { return append(uses, Use{a.typ.Name(), a.kind()}) }

func (a *union) Indexes(uses []Use) []Use {
	for _, p := range a.parts {
		uses = p.Indexes(uses)
	}
	return uses
}

func (a *union) Describe(b *strings.Builder, indent int, counted bool) {
	line(b, indent, "any of%s", yielded(a.seen, counted))
	for _, p := range a.parts {
		p.Describe(b, indent+1, counted)
	}
}

func yielded(n int, counted bool) string {
	if !counted {
		return ""
	}
	return fmt.Sprintf(" (%d candidates)", n)
}

func line(b *strings.Builder, indent int, format string, args ...any) {
	b.WriteString(strings.Repeat("  ", indent))
	fmt.Fprintf(b, format, args...)
	b.WriteByte('\n')
}
