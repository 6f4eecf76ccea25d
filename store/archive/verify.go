package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A State describes the moments that can be restored from one base and its pieces.
type State struct {
	Base   *Manifest
	Newest table.Revision // the last commit that can be restored
	Pieces int
	Bytes  int64 // total size of the base and its pieces
	Gap    *Gap  // the gap after Newest; nil: there is none
}

// List returns a State for each base of an archive, the oldest base first.
func List(ctx context.Context, p Place) (owner *Owner, states []State, err error) {
	x, err := ReadIndex(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	for _, b := range x.Bases {
		m, err := ReadManifest(ctx, p, b)
		if err != nil {
			return nil, nil, err
		}
		s := State{Base: m, Bytes: m.Size()}
		chain, gap := x.behind(b)
		s.Newest, s.Pieces, s.Gap = newest(m, chain), len(chain), gap
		for _, piece := range chain {
			s.Bytes += piece.Size
		}
		states = append(states, s)
	}
	return x.Owner, states, nil
}

// Verified is the result of Verify: what it has read, and what can be restored.
type Verified struct {
	Objects int
	Bytes   int64
	Bases   int
	Since   time.Time // the oldest moment that can be restored
	Newest  table.Revision
}

// Verify reads the manifests, the files of the bases, and the pieces, and compares their hashes
// with the hashes in names and manifests. It needs no key. Verify calls report with each fault.
func Verify(ctx context.Context, p Place, report func(error)) (*Verified, error) {
	x, err := ReadIndex(ctx, p)
	if err != nil {
		return nil, err
	}
	v := &verifier{p: p, found: report, checked: map[string]bool{}}
	for _, b := range x.Bases {
		if err := v.base(ctx, x, b); err != nil {
			return nil, err
		}
	}
	for _, piece := range x.Pieces {
		h := sha256.New()
		if err := v.object(ctx, piece.Name, h, func() bool { return shortHash(h) == piece.hash }); err != nil {
			return nil, err
		}
	}
	return &v.Verified, nil
}

type verifier struct {
	Verified
	p       Place
	found   func(error)
	checked map[string]bool
}

func (v *verifier) base(ctx context.Context, x *Index, b Base) error {
	m, err := ReadManifest(ctx, v.p, b)
	if errors.Is(err, ErrDamaged) {
		v.found(err)
		return nil
	}
	if err != nil {
		return err
	}
	chain, gap := x.behind(b)
	if gap != nil {
		v.found(gap)
	}
	if v.Bases++; v.Since.IsZero() {
		v.Since = m.Newest.Time()
	}
	v.Newest = max(v.Newest, newest(m, chain))
	for _, f := range m.Files {
		if v.checked[f.SHA256] || f.Size == 0 {
			continue
		}
		v.checked[f.SHA256] = true
		h := sha256.New()
		if err := v.object(ctx, fileName(f.SHA256), h, func() bool { return hex.EncodeToString(h.Sum(nil)) == f.Stored }); err != nil {
			return err
		}
	}
	return nil
}

// object reads an object and calls isValid to check its content. It calls v.found if
// there is a fault, and returns an error only if the place cannot be read.
func (v *verifier) object(ctx context.Context, name string, h hash.Hash, isValid func() bool) error {
	r, err := get(ctx, v.p, name)
	if errors.Is(err, ErrDamaged) {
		v.found(err)
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := io.Copy(h, r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	v.Objects++
	v.Bytes += n
	if !isValid() {
		v.found(fmt.Errorf("%w: %s: checksum mismatch", ErrDamaged, name))
	}
	return nil
}
