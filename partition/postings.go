package partition

import (
	"context"
	"hash/fnv"

	"github.com/maypok86/otter/v2"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// A posting is the candidates that an index has for one value, as they were at
// an ordinal. It is right as long as nothing touched what stands for the value
// (postingID), as entries are by their own ids.
type posting struct {
	asOf uint64
	list []index.Candidate
}

type postingKey struct {
	typ *schema.AttributeType
	key string
}

// maxPosting is the number of candidates above which a posting is not kept:
// what the index of a selective attribute is for has far fewer.
const maxPosting = 64

func newPostings(size uint64) *otter.Cache[postingKey, *posting] {
	return otter.Must(&otter.Options[postingKey, *posting]{
		MaximumWeight: size,
		Weigher: func(k postingKey, p *posting) uint32 {
			return uint32(200 + len(k.key) + len(p.list)*72)
		},
	})
}

// postingID stands for a value of an indexed type in what commits touch.
func postingID(t *schema.AttributeType, key []byte) entry.ID {
	h := fnv.New128a()
	h.Write([]byte(t.OID))
	h.Write([]byte{'='})
	h.Write(key)
	return entry.ID(h.Sum(nil))
}

// keptIndex keeps the postings of a selective index in memory.
type keptIndex struct {
	index.Index
	typ  *schema.AttributeType
	kept *otter.Cache[postingKey, *posting]
}

// Equal implements index.Index. Transactions, reads of the past and searches
// that go on read the store.
func (x keptIndex) Equal(ctx context.Context, r txn.Reader, key, after []byte) index.Candidates {
	s, ok := r.(*txn.Snapshot)
	if !ok || s.Ordinal() == 0 || len(after) > 0 {
		return x.Index.Equal(ctx, r, key, after)
	}
	k := postingKey{x.typ, string(key)}
	if p, ok := x.kept.GetIfPresent(k); ok && s.Unchanged(postingID(x.typ, key), p.asOf) {
		return stream(p.list)
	}
	return func(yield func(index.Candidate, error) bool) {
		p := &posting{asOf: s.Ordinal()}
		for c, err := range x.Index.Equal(ctx, r, key, nil) {
			if err == nil && len(p.list) <= maxPosting {
				p.add(c)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
		if len(p.list) <= maxPosting {
			x.kept.Set(k, p)
		}
	}
}

func stream(list []index.Candidate) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		for _, c := range list {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// add keeps a candidate; that its position is the row and the id, as the
// index's own are, is what lets a search go on behind it.
func (p *posting) add(c index.Candidate) {
	c.Position = append([]byte(nil), c.Position...)
	p.list = append(p.list, c)
}

// warmPostings keeps all postings of an index, until there is no room.
func (s *Snapshot) warmPostings(ctx context.Context, x *indexed) error {
	kept, ok := x.Values.(keptIndex)
	if !ok {
		return nil
	}
	enough := kept.kept.GetMaximum() / 10 * 9
	sel := table.Select{MaxCells: maxPosting + 1}
	n := 0
	for row, err := range s.r.Scan(ctx, x.Presence.Table, table.Prefix([]byte("=")), sel) {
		if err != nil {
			return err
		}
		key, cut, _, err := index.CutKey(row.Key)
		if err != nil {
			return err
		}
		if cut || len(row.Cells) > maxPosting {
			continue
		}
		p := &posting{asOf: s.at.Ordinal(), list: make([]index.Candidate, 0, len(row.Cells))}
		for i := range row.Cells {
			c := index.Candidate{Position: append(append([]byte(nil), row.Key...), row.Cells[i].Qualifier...)}
			copy(c.ID[:], row.Cells[i].Qualifier)
			if c.Parent, err = index.ParentOf(&row.Cells[i]); err != nil {
				return err
			}
			p.list = append(p.list, c)
		}
		kept.kept.Set(postingKey{x.typ, string(key)}, p)
		if n++; n%1024 == 0 && kept.kept.WeightedSize() > enough {
			break
		}
	}
	return nil
}
