// Package index contains the code that all kinds of index share: the [Index] contract, the
// codec of value keys, and the cell of every index row. A new kind of index needs a package
// that implements the contract, and an element in the map kinds of package
// partition/catalog.
//
// The table of an attribute's index is called index_ATTR and has one family,
//
//	i  info   the value of a cell is the id of the *parent* of the entry, so
//	          that testing a one-level scope costs nothing, and testing a
//	          subtree scope needs no read of the entry
//
// A row that begins with "=" belongs to a value (packages rowindex and colindex). A row that
// begins with "*" records that an entry has the attribute (package existence, which rowindex
// and colindex embed); not all types have such rows (see [HasPresence]). The key of a value is the key that the type's equality rule computes. A
// row contains the escaped key: 00 is written as 00 FF, and the key ends with 00 01. So rows
// sort like keys, and no escaped key is a prefix of another. A key of more than MaxKey bytes
// is cut after MaxKey bytes and ends with 00 02 and a hash of the whole key. An equality test
// of a cut key has an exact result. Other tests of a cut key may have an uncertain result.
package index

import (
	"bytes"
	"context"
	"crypto/sha256"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Info is the family of index tables.
const Info table.Family = 'i'

// TableName returns the name of the index table of a type.
func TableName(t *schema.AttributeType) string { return TablePrefix + t.Name() }

// TablePrefix is the beginning of the names of all index tables.
const TablePrefix = "index_"

// Spec describes the index table of a type. In a column index, commits add small cells to a row,
// and readers usually read the whole row. The engine may therefore keep a row as one image, but
// only up to a size at which rewriting the image is cheap.
func Spec(t *schema.AttributeType) table.Spec {
	s := table.Spec{
		Name:     TableName(t),
		Families: []table.FamilySpec{{Name: Info, ImageLimit: 512}},
		Splits:   Halves(nil, t),
		Spread:   true,
	}
	if HasPresence(t) {
		s.Splits = append(s.Splits, []byte{presenceRow, 0x80}, []byte{ValueRow})
	}
	return s
}

// middles has a value for each form of keys, by the name of the form: about half of the values of a
// type are usually less. First letters are those of names and of addresses of people. It has none for
// times, which only grow, for names of entries, whose keys all begin with the naming context, and for
// forms with few keys.
var middles = map[string]string{
	"caseIgnore":       "k",
	"caseExact":        "k",
	"caseIgnoreList":   "k",
	"numericString":    "5",
	"telephoneNumber":  "+4",
	"integer":          "10000", // uidNumber, gidNumber
	"uuid":             "80000000-0000-0000-0000-000000000000",
	"octetString":      "\x80",
	"objectIdentifier": "organizationalPerson", // the codes of top and person are less, those of inetOrgPerson and most others greater
}

// Halves returns the row key, behind a prefix, that divides the values of a type about in halves. It
// returns none if nothing is known of the values. A distributed engine begins with regions at such
// keys; a region that gets too large is split at any key.
func Halves(prefix []byte, t *schema.AttributeType) [][]byte {
	if t.Equality == nil {
		return nil
	}
	v, ok := middles[t.Equality.Form.Name]
	if !ok {
		return nil
	}
	key, err := t.Equality.Key([]byte(v))
	if err != nil {
		return nil
	}
	return [][]byte{AppendKey(slices.Clip(prefix), key)}
}

// HasPresence reports whether the index of a type has rows that record which entries have any value. In stores with
// codes, that of objectClass has none: each entry has values of it.
func HasPresence(t *schema.AttributeType) bool { return t.OID != objectClass || t.InKeys() == t.OID }

const objectClass = "2.5.4.0"

// A Candidate is an entry that may match. Position is the candidate's position in its
// stream. The bytes of Position are valid until the next candidate is read.
type Candidate struct {
	ID, Parent entry.ID
	Maybe      bool // the index cannot decide: the entry must be tested
	Position   []byte
}

// Candidates is a stream of candidates. The positions in the stream of an Index ascend, except
// in a reversed InOrder. An entry with several matching values occurs several times.
type Candidates = iter.Seq2[Candidate, error]

// An Index finds entries by the values of one attribute type. The parameter after is a
// position in a stream. The stream then begins behind that position, or at its start if
// after is empty.
type Index interface {
	// Table returns the table of the index. The table contains nothing else.
	Table() table.Table
	// Selective reports whether each value is expected to have few entries.
	Selective() bool
	// Equal streams the entries that have a value with this key.
	Equal(ctx context.Context, r table.Reader, key, after []byte) Candidates
	// Postings returns, for each key, the entries that have a value with this key. It reads
	// the rows of all keys in one round trip if the layout of the index allows it.
	Postings(ctx context.Context, r table.Reader, keys [][]byte) ([]*Set, error)
	// Head extends a set, which contains the first entries that have a value with this key or is
	// empty, to n entries or to all. It reports whether there may be more.
	Head(ctx context.Context, r table.Reader, key []byte, set *Set, n int) (more bool, err error)
	// Span streams the entries that have a value with a key in the span.
	Span(ctx context.Context, r table.Reader, s Span, after []byte) Candidates
	// InOrder streams the candidates of all values, sorted by key and then by id. The
	// order is descending if reverse is set. A position consists of the row of the value
	// and the id. The caller will probably read expect of them, or an unknown number if expect
	// is zero.
	InOrder(ctx context.Context, r table.Reader, reverse bool, after []byte, expect int) Candidates
	// Among returns a Change for each of the ids. The Change reports whether the index
	// contains the entry for the value with this key.
	Among(ctx context.Context, r table.Reader, key []byte, ids []entry.ID) ([]Change, error)
	// Present streams the entries that have any value, each entry once, if the type has rows for that (see HasPresence). The caller will probably read
	// expect of them, or an unknown number if expect is zero.
	Present(ctx context.Context, r table.Reader, after []byte, expect int) Candidates
	// Warm streams the values that are worth loading into memory in advance. Each of them has
	// at most limit entries.
	Warm(ctx context.Context, r table.Reader, limit int) iter.Seq2[Value, error]
	// Mutation returns the mutation that adds one value or, if gone is set, removes it.
	Mutation(key []byte, id, parent entry.ID, gone bool) table.Mutation
	// Presence returns the mutation that records that an entry has any value or, if gone
	// is set, removes that record.
	Presence(id, parent entry.ID, gone bool) table.Mutation
}

// A Value is a key and the entries that have a value with that key.
type Value struct {
	Key []byte
	Set *Set
}

// A Memory is an index that may keep the entries of some values in memory.
type Memory interface {
	// Known returns the entries that have a value with this key, if these entries are in
	// memory. If commits have changed the entries since they were read, Known returns an
	// updated copy of the set. It returns false instead if the set has more than upTo entries,
	// or if too many entries have changed.
	Known(ctx context.Context, r table.Reader, key []byte, upTo int) (*Set, bool)
	// Longer reports whether the value with this key is known to have had more than n entries
	// when it was last read, or NoteLonger said so. It returns false if the entries are in memory.
	Longer(key []byte, n int) bool
	// NoteLonger says that the value with this key seems to have more than n entries.
	NoteLonger(key []byte, n int)
}

// A Span is a range of keys that includes both ends. If From or To is nil, the range has
// no bound at that end. Prefix and Parts restrict the range to keys that begin with
// Prefix and then contain each of Parts, one after another. If AtEnd is set, the last
// part must be at the end of the key.
type Span struct {
	From, To []byte
	Prefix   []byte
	Parts    [][]byte
	AtEnd    bool
	Expect   int // the caller will probably read so many candidates; zero: unknown
}

// MaxKey is the length of the longest key that is stored whole.
const MaxKey = 256

const hashLen = 16

// These are the first bytes of rows.
const (
	ValueRow    = '=' // of a value
	presenceRow = '*' // of an entry that has any value
)

// AppendKey appends the row key of a value: "=", the escaped key and its end.
func AppendKey(b, key []byte) []byte {
	b = append(b, ValueRow)
	if len(key) <= MaxKey {
		return append(escape(b, key), 0, 1)
	}
	h := sha256.Sum256(key)
	b = append(escape(b, key[:MaxKey]), 0, 2)
	return append(b, h[:hashLen]...)
}

// CutKey parses a row key that begins with the output of AppendKey. It returns the
// value's key, whether the key was cut, and the rest of the row key.
func CutKey(row []byte) (key []byte, cut bool, rest []byte, err error) {
	if len(row) == 0 || row[0] != ValueRow {
		return nil, false, nil, table.ErrCorrupt
	}
	key, rest, ok := unescape(row[1:])
	if !ok || len(rest) == 0 {
		return nil, false, nil, table.ErrCorrupt
	}
	end, rest := rest[0], rest[1:]
	switch {
	case end == 1:
		return key, false, rest, nil
	case end == 2 && len(rest) >= hashLen:
		return key, true, rest[hashLen:], nil
	}
	return nil, false, nil, table.ErrCorrupt
}

// CutHash returns the hash in the row key of a value whose key was cut. rest is the rest of the row key that CutKey
// returned.
func CutHash(row, rest []byte) []byte {
	end := len(row) - len(rest)
	return row[end-hashLen : end]
}

// escape writes 00 as 00 FF.
func escape(b, key []byte) []byte {
	for {
		i := bytes.IndexByte(key, 0)
		if i < 0 {
			return append(b, key...)
		}
		b = append(append(b, key[:i]...), 0, 0xff)
		key = key[i+1:]
	}
}

// unescape decodes a key up to the 00 of its end and returns the bytes after that 00. The
// key shares the bytes of b unless it contains escapes.
func unescape(b []byte) (key, rest []byte, ok bool) {
	i := bytes.IndexByte(b, 0)
	if i < 0 || i+1 == len(b) {
		return nil, nil, false
	}
	if b[i+1] != 0xff {
		return b[:i], b[i+1:], true
	}
	for {
		key = append(append(key, b[:i]...), 0)
		b = b[i+2:]
		if i = bytes.IndexByte(b, 0); i < 0 || i+1 == len(b) {
			return nil, nil, false
		}
		if b[i+1] != 0xff {
			return append(key, b[:i]...), b[i+1:], true
		}
	}
}

// Rows returns the range of rows that may contain keys of the span.
func (s Span) Rows() table.Range {
	r := table.Prefix([]byte{ValueRow})
	if p := s.Prefix; len(p) > 0 {
		r = table.Prefix(escape([]byte{ValueRow}, p[:min(len(p), MaxKey)]))
	}
	if f := s.From; f != nil {
		r.Start = later(r.Start, escape([]byte{ValueRow}, f[:min(len(f), MaxKey)]))
	}
	if t := s.To; t != nil {
		end := table.PrefixEnd(append(escape([]byte{ValueRow}, t[:min(len(t), MaxKey)]), 0))
		if bytes.Compare(end, r.End) < 0 {
			r.End = end
		}
	}
	return r
}

// Filter returns a filter that the rows of all keys of the span pass, or nil if all rows in Rows pass it.
func (s Span) Filter() table.Filter {
	if len(s.Parts) == 0 {
		return nil
	}
	prefix := escape([]byte{ValueRow}, s.Prefix[:min(len(s.Prefix), MaxKey)])
	parts := make([][]byte, len(s.Parts))
	for i, p := range s.Parts {
		parts[i] = escape(nil, p)
	}
	if s.AtEnd {
		last := &parts[len(parts)-1]
		*last = append(*last, 0, 1)
	}
	// The second alternative is for keys that were cut.
	return table.Any{table.KeyMatch{Prefix: prefix, Parts: parts}, table.KeyMatch{Prefix: prefix, Parts: [][]byte{{0, 2}}}}
}

func later(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}

// Holds reports whether the span contains a key. The result maybe is set if the key is cut. In
// this case, the result holds may be true although the span does not contain the key.
func (s Span) Holds(key []byte, cut bool) (holds, maybe bool) {
	if cut {
		return s.mayHoldCut(key), true
	}
	if s.From != nil && bytes.Compare(key, s.From) < 0 || s.To != nil && bytes.Compare(key, s.To) > 0 {
		return false, false
	}
	if !bytes.HasPrefix(key, s.Prefix) {
		return false, false
	}
	return table.Contains(key[len(s.Prefix):], s.Parts, s.AtEnd), false
}

// mayHoldCut returns false only if the bytes of a cut key already exclude the key.
func (s Span) mayHoldCut(key []byte) bool {
	n := min(len(key), len(s.Prefix))
	return bytes.Equal(key[:n], s.Prefix[:n])
}

// Continue returns the part of a range that is behind a position.
func Continue(r table.Range, after []byte) table.Range {
	if len(after) > 0 {
		r.Start = later(r.Start, append(append([]byte(nil), after...), 0))
	}
	return r
}

// Values returns the range of all rows of values behind a position. If reverse is set, it
// returns the rows before the position.
func Values(reverse bool, after []byte) table.Range {
	r := table.Prefix([]byte{ValueRow})
	if !reverse {
		return Continue(r, after)
	}
	if len(after) > 0 {
		r.End = after
	}
	return r
}

// ParentOf decodes the parent's id from an index cell.
func ParentOf(c *table.Cell) (p entry.ID, err error) {
	if copy(p[:], c.Value) != len(p) {
		return p, table.ErrCorrupt
	}
	return p, nil
}

// PresenceRow returns the row that records that an entry has the attribute.
func PresenceRow(id entry.ID) []byte { return append([]byte{presenceRow}, id[:]...) }
