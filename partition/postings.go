package partition

import (
	"context"
	"hash/fnv"
	"io"
	"math"

	"github.com/maypok86/otter/v2"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// A posting is the entries that an index has for one value, as they were at an
// ordinal. It is right as long as no commit touched the value (postingHash), as
// cached entries are by their own ids; after a few commits it is brought up to date.
//
// Without a set it only says that there were more than some number of entries.
type posting struct {
	asOf uint64
	*index.Set
	moreThan int
}

func (p *posting) size() int {
	if p.Set == nil {
		return 0
	}
	return p.Size()
}

type postingKey struct {
	typ *schema.AttributeType
	key string
}

// warmPosting is the number of entries above which a posting that no search has
// asked for is not kept.
const warmPosting = 64

// postingShare is the part of the postings' memory that one of them may have.
const postingShare = 8

func newPostings(size uint64) *otter.Cache[postingKey, *posting] {
	return otter.Must(&otter.Options[postingKey, *posting]{
		MaximumWeight: size,
		Weigher: func(k postingKey, p *posting) uint32 {
			return uint32(160 + len(k.key) + p.size())
		},
	})
}

// postingHash stands for a value of an indexed type in what commits touch.
func postingHash(t *schema.AttributeType, key []byte) uint64 {
	h := fnv.New64a()
	io.WriteString(h, t.OID)
	h.Write([]byte{'='})
	h.Write(key)
	return h.Sum64()
}

// keptIndex keeps the postings of an index in memory.
type keptIndex struct {
	index.Index
	typ  *schema.AttributeType
	kept *otter.Cache[postingKey, *posting]
}

// current returns r if it is a snapshot that postings can be right for: not a
// transaction and not of the past.
func current(r txn.Reader) (*txn.Snapshot, bool) {
	s, ok := r.(*txn.Snapshot)
	return s, ok && s.Ordinal() != 0
}

// Equal implements index.Index.
func (x keptIndex) Equal(ctx context.Context, r txn.Reader, key, after []byte) index.Candidates {
	s, ok := current(r)
	if !ok {
		return x.Index.Equal(ctx, r, key, after)
	}
	if p := x.known(ctx, s, key, math.MaxInt); p != nil {
		return p.stream(key, after)
	}
	if len(after) > 0 {
		return x.Index.Equal(ctx, r, key, after)
	}
	return x.keep(ctx, s, key)
}

// keep streams the candidates of a value and keeps them if the stream is read to its
// end, or else their least number.
func (x keptIndex) keep(ctx context.Context, s *txn.Snapshot, key []byte) index.Candidates {
	most := int(x.kept.GetMaximum() / postingShare)
	return func(yield func(index.Candidate, error) bool) {
		set, n := &index.Set{}, 0
		for c, err := range x.Index.Equal(ctx, s, key, nil) {
			if err == nil {
				if n++; set != nil {
					set.Append(c.ID, c.Parent)
				}
				if set != nil && set.Size() > most {
					set = nil
				}
			}
			if !yield(c, err) || err != nil {
				x.put(key, &posting{moreThan: n - 1})
				return
			}
		}
		if set == nil {
			x.put(key, &posting{moreThan: n - 1})
			return
		}
		set.Clip()
		x.put(key, &posting{asOf: s.Ordinal(), Set: set})
	}
}

func (x keptIndex) put(key []byte, p *posting) { x.kept.Set(postingKey{x.typ, string(key)}, p) }

// known returns the posting of a value as a snapshot shows it, nil if that is not in
// memory.
func (x keptIndex) known(ctx context.Context, s *txn.Snapshot, key []byte, upTo int) *posting {
	p, ok := x.kept.GetIfPresent(postingKey{x.typ, string(key)})
	if !ok || p.Set == nil {
		return nil
	}
	hash := postingHash(x.typ, key)
	if s.UnchangedKey(hash, p.asOf) {
		return p
	}
	ids, ok := s.TouchedWith(hash, p.asOf)
	if !ok || len(ids) > 0 && p.Len() > upTo || len(ids) > mostChanges(p.Len()) {
		return nil
	}
	p = x.upToDate(ctx, s, key, p, ids)
	if p != nil {
		x.put(key, p)
	}
	return p
}

// mostChanges is the number of entries above which a posting is sooner read again
// than brought up to date.
func mostChanges(entries int) int { return 8 + entries/8 }

// upToDate returns a posting as it is after commits that touched some entries.
func (x keptIndex) upToDate(ctx context.Context, s *txn.Snapshot, key []byte, p *posting, ids []entry.ID) *posting {
	if len(ids) == 0 {
		return &posting{asOf: s.Ordinal(), Set: p.Set}
	}
	changes, err := x.Index.Among(ctx, s, key, ids)
	if err != nil {
		return nil // reading it anew says why
	}
	return &posting{asOf: s.Ordinal(), Set: p.With(changes)}
}

// Known implements index.Memory.
func (x keptIndex) Known(ctx context.Context, r txn.Reader, key []byte, upTo int) (*index.Set, bool) {
	s, ok := current(r)
	if !ok {
		return nil, false
	}
	p := x.known(ctx, s, key, upTo)
	if p == nil {
		return nil, false
	}
	return p.Set, true
}

// Longer implements index.Memory.
func (x keptIndex) Longer(key []byte, n int) bool {
	p, ok := x.kept.GetIfPresent(postingKey{x.typ, string(key)})
	return ok && p.Set == nil && p.moreThan >= n
}

// stream yields the candidates behind a position: the row of the value and the id,
// whatever the layout of the index.
func (p *posting) stream(key, after []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		row := index.AppendKey(nil, key)
		position := append(row, make([]byte, len(entry.ID{}))...)
		for i := p.Behind(after); i < p.Len(); i++ {
			id := p.ID(i)
			copy(position[len(row):], id[:])
			if !yield(index.Candidate{ID: id, Parent: p.Parent(i), Position: position}, nil) {
				return
			}
		}
	}
}

// warmPostings keeps all postings of a selective index, until there is no room.
func (s *Snapshot) warmPostings(ctx context.Context, x *indexed) error {
	kept, ok := x.Values.(keptIndex)
	if !ok {
		return nil
	}
	enough := kept.kept.GetMaximum() / 10 * 9
	sel := table.Select{MaxCells: warmPosting + 1}
	n := 0
	for row, err := range s.r.Scan(ctx, x.Presence.Table, table.Prefix([]byte("=")), sel) {
		if err != nil {
			return err
		}
		key, cut, _, err := index.CutKey(row.Key)
		if err != nil {
			return err
		}
		if cut || len(row.Cells) > warmPosting {
			continue
		}
		p := &posting{asOf: s.at.Ordinal(), Set: &index.Set{}}
		for i := range row.Cells {
			parent, err := index.ParentOf(&row.Cells[i])
			if err != nil {
				return err
			}
			p.Append(entry.ID(row.Cells[i].Qualifier), parent)
		}
		p.Clip()
		kept.put(key, p)
		if n++; n%1024 == 0 && kept.kept.WeightedSize() > enough {
			break
		}
	}
	return nil
}
