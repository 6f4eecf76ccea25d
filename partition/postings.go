package partition

import (
	"bytes"
	"context"
	"hash/fnv"
	"io"

	"github.com/maypok86/otter/v2"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// A posting is the candidates that an index has for one value, as they were at
// an ordinal. It is right as long as nothing touched what stands for the value
// (postingHash), as entries are by their own ids.
type posting struct {
	asOf  uint64
	links []index.Link
	// first is the position of the first: the row of the value and the id, whatever
	// the index's layout. That is what lets a search go on behind one.
	first []byte
	// long says that there are too many to be kept, and so they are not gathered.
	long bool
}

type postingKey struct {
	typ *schema.AttributeType
	key string
}

// maxPosting is the number of candidates above which a posting is not kept, in
// memory that others could have: a search that looks at so many is slow anyway, and
// what it looks for is likely to change soon. warmPosting is the same where
// postings are read that nobody asked for.
const (
	maxPosting  = 4096
	warmPosting = 64
)

func newPostings(size uint64) *otter.Cache[postingKey, *posting] {
	return otter.Must(&otter.Options[postingKey, *posting]{
		MaximumWeight: size,
		Weigher: func(k postingKey, p *posting) uint32 {
			return uint32(200 + len(k.key) + len(p.first) + len(p.links)*32)
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

// Equal implements index.Index. Transactions, reads of the past and searches
// that go on read the store.
func (x keptIndex) Equal(ctx context.Context, r txn.Reader, key, after []byte) index.Candidates {
	s, ok := r.(*txn.Snapshot)
	if !ok || s.Ordinal() == 0 || len(after) > 0 {
		return x.Index.Equal(ctx, r, key, after)
	}
	if p := x.known(s, key); p != nil {
		if p.long {
			return x.Index.Equal(ctx, r, key, nil)
		}
		return p.stream
	}
	return func(yield func(index.Candidate, error) bool) {
		p := &posting{asOf: s.Ordinal()}
		for c, err := range x.Index.Equal(ctx, r, key, nil) {
			if err == nil {
				p.add(&c)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
		x.kept.Set(postingKey{x.typ, string(key)}, p)
	}
}

// known gives the posting of a value if it is right for a snapshot.
func (x keptIndex) known(s *txn.Snapshot, key []byte) *posting {
	p, ok := x.kept.GetIfPresent(postingKey{x.typ, string(key)})
	if !ok || !s.UnchangedKey(postingHash(x.typ, key), p.asOf) {
		return nil
	}
	return p
}

// Links implements index.Memory.
func (x keptIndex) Links(r txn.Reader, key []byte) ([]index.Link, bool) {
	s, ok := r.(*txn.Snapshot)
	if !ok || s.Ordinal() == 0 {
		return nil, false
	}
	p := x.known(s, key)
	if p == nil || p.long {
		return nil, false
	}
	return p.links, true
}

func (p *posting) stream(yield func(index.Candidate, error) bool) {
	position := p.first
	for i := range p.links {
		l := &p.links[i]
		if i == 1 {
			position = bytes.Clone(position) // the first one stays
		}
		if i > 0 {
			copy(position[len(position)-len(l.ID):], l.ID[:])
		}
		if !yield(index.Candidate{ID: l.ID, Parent: l.Parent, Position: position}, nil) {
			return
		}
	}
}

func (p *posting) add(c *index.Candidate) {
	switch {
	case p.long:
		return
	case len(p.links) == maxPosting:
		p.long, p.links, p.first = true, nil, nil
		return
	case len(p.links) == 0:
		p.first = bytes.Clone(c.Position)
	}
	p.links = append(p.links, index.Link{ID: c.ID, Parent: c.Parent})
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
		p := &posting{asOf: s.at.Ordinal(), links: make([]index.Link, len(row.Cells))}
		p.first = append(bytes.Clone(row.Key), row.Cells[0].Qualifier...)
		for i := range row.Cells {
			l := &p.links[i]
			copy(l.ID[:], row.Cells[i].Qualifier)
			if l.Parent, err = index.ParentOf(&row.Cells[i]); err != nil {
				return err
			}
		}
		kept.kept.Set(postingKey{x.typ, string(key)}, p)
		if n++; n%1024 == 0 && kept.kept.WeightedSize() > enough {
			break
		}
	}
	return nil
}
