package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// An Index has the owner of an archive and lists its bases and pieces.
type Index struct {
	Owner  *Owner
	Bases  []Base  // sorted by epoch and position
	Pieces []Piece // sorted by epoch and position
}

// ReadIndex reads the owner of an archive and lists its bases and pieces. If there is neither
// an owner nor a base, it returns ErrNoState.
func ReadIndex(ctx context.Context, p Place) (*Index, error) {
	x := &Index{}
	var err error
	if x.Owner, err = ReadOwner(ctx, p); err != nil {
		return nil, err
	}
	if x.Bases, err = listOf(ctx, p, basePrefix, parseBase); err != nil {
		return nil, err
	}
	if x.Pieces, err = listOf(ctx, p, logPrefix, parsePiece); err != nil {
		return nil, err
	}
	slices.SortFunc(x.Bases, Base.compare)
	slices.SortFunc(x.Pieces, Piece.compare)
	if x.Owner == nil && len(x.Bases) == 0 {
		return nil, fmt.Errorf("%w: there is no archive at %s", ErrNoState, p)
	}
	return x, nil
}

func listOf[T any](ctx context.Context, p Place, prefix string, parse func(Object) (T, error)) ([]T, error) {
	objects, err := p.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var all []T
	for _, o := range objects {
		x, err := parse(o)
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

func (b Base) compare(c Base) int {
	return cmp.Or(cmp.Compare(b.Epoch, c.Epoch), cmp.Compare(b.Next, c.Next))
}

// compare orders pieces by epoch and position. If two pieces begin at the same
// position, the longer piece comes first.
func (p Piece) compare(q Piece) int {
	return cmp.Or(cmp.Compare(p.Epoch, q.Epoch), cmp.Compare(p.From, q.From), cmp.Compare(q.To, p.To))
}

// The method "behind" returns the pieces that follow a base without a gap. If the epoch has
// pieces after a gap, it returns the first gap too.
func (x *Index) behind(b Base) (chain []Piece, gap *Gap) {
	next := b.Next
	for _, p := range x.Pieces {
		switch {
		case p.Epoch != b.Epoch || p.To <= next:
		case p.From > next:
			return chain, &Gap{Epoch: p.Epoch, From: next, To: p.From}
		default:
			chain = append(chain, p)
			next = p.To
		}
	}
	return chain, nil
}

// A Gap is a part of an epoch's log that no piece contains.
type Gap struct {
	Epoch    Epoch
	From, To lsm.Position
}

// Error implements error.
func (g *Gap) Error() string {
	return fmt.Sprintf("the archive is damaged: the pieces of epoch %d from %016x to %016x are missing", g.Epoch, uint64(g.From), uint64(g.To))
}

// Unwrap returns ErrDamaged.
func (g *Gap) Unwrap() error { return ErrDamaged }

// newest returns the newest commit in a base and the pieces that follow it.
func newest(m *Manifest, chain []Piece) table.Revision {
	r := m.Newest
	for _, p := range chain {
		r = max(r, p.Newest)
	}
	return r
}
