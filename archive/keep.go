package archive

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// allBases is how long every base is kept. Of older bases one a day is kept.
const allBases = 48 * time.Hour

// Thinned counts what was removed.
type Thinned struct {
	Bases, Pieces, Files int
	Bytes                int64
}

// A dated base has its manifest.
type dated struct {
	Base
	m *Manifest
}

// Thin removes what is not needed to restore any moment within Keep, and all but one base a
// day of those older than allBases.
func (a *Archiver) Thin(ctx context.Context) (Thinned, error) {
	a.turning.Lock()
	defer a.turning.Unlock()
	x, all, err := a.read(ctx)
	if err != nil {
		return Thinned{}, err
	}
	return a.remove(ctx, x, all, keepOf(all, a.o.Now(), a.o.Keep))
}

// read lists the archive and reads its manifests. It returns an error if this store may not
// write to it.
func (a *Archiver) read(ctx context.Context) (*Index, []dated, error) {
	if err := a.Check(ctx); err != nil {
		return nil, nil, err
	}
	x, err := ReadIndex(ctx, a.o.Place)
	if err != nil {
		return nil, nil, err
	}
	var all []dated
	for _, b := range x.Bases {
		m, err := ReadManifest(ctx, a.o.Place, b)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, dated{b, m})
	}
	return x, all, nil
}

// keepOf chooses the bases to keep. A moment is restored from the last base before it, or
// from an earlier one in the same epoch. So in each epoch with a moment to keep, the newest
// base stays that precedes all these moments, and after it one a day.
func keepOf(all []dated, now time.Time, keep time.Duration) map[string]bool {
	stays := map[string]bool{}
	var last dated
	for i, b := range all {
		nextBefore := i+1 < len(all) && keep > 0 && !all[i+1].m.Taken.After(now.Add(-keep))
		switch {
		case nextBefore:
			// All moments to keep can be restored from the next base or a later one.
		case last.m == nil || last.Epoch != b.Epoch || i == len(all)-1,
			now.Sub(b.m.Taken) < allBases,
			b.m.Taken.UTC().Truncate(24*time.Hour) != last.m.Taken.UTC().Truncate(24*time.Hour):
			stays[b.Name], last = true, b
		}
	}
	return stays
}

// remove removes the bases that do not stay, and the pieces and files that no other base
// needs. Bases go first, so that an interruption leaves no base that lacks files.
func (a *Archiver) remove(ctx context.Context, x *Index, all []dated, stays map[string]bool) (t Thinned, err error) {
	from := map[Epoch]dated{}
	files := map[string]bool{}
	for _, b := range all {
		if !stays[b.Name] {
			t.Bases++
			err = errors.Join(err, a.delete(ctx, b.Object, &t))
			continue
		}
		if _, ok := from[b.Epoch]; !ok {
			from[b.Epoch] = b
		}
		for _, f := range b.m.Files {
			files[fileName(f.SHA256)] = true
		}
	}
	if err != nil {
		return t, err
	}
	now := a.epoch()
	for _, p := range x.Pieces {
		first, ok := from[p.Epoch]
		if p.Epoch >= now && !ok || ok && p.To > first.Next {
			continue
		}
		t.Pieces++
		err = errors.Join(err, a.delete(ctx, p.Object, &t))
	}
	return t, errors.Join(err, a.removeFiles(ctx, files, &t))
}

func (a *Archiver) removeFiles(ctx context.Context, stay map[string]bool, t *Thinned) error {
	objects, err := a.o.Place.List(ctx, filePrefix)
	for _, o := range objects {
		if !stay[o.Name] {
			t.Files++
			err = errors.Join(err, a.delete(ctx, o, t))
		}
	}
	return err
}

func (a *Archiver) delete(ctx context.Context, o Object, t *Thinned) error {
	t.Bytes += o.Size
	if err := a.o.Place.Delete(ctx, o.Name); err != nil {
		return fmt.Errorf("remove %s: %w", o.Name, err)
	}
	return nil
}

func (a *Archiver) epoch() Epoch {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.st.Epoch
}

// Forget begins an epoch and removes all earlier ones, so that the archive no longer has
// what was erased in the store.
func (a *Archiver) Forget(ctx context.Context) (Thinned, error) {
	if err := a.Begin(ctx); err != nil {
		return Thinned{}, err
	}
	a.turning.Lock()
	defer a.turning.Unlock()
	x, all, err := a.read(ctx)
	if err != nil {
		return Thinned{}, err
	}
	stays := map[string]bool{}
	for _, b := range all {
		stays[b.Name] = b.Epoch == a.epoch()
	}
	return a.remove(ctx, x, all, stays)
}

// Older returns the bases of earlier epochs, which still have what was erased later.
func (a *Archiver) Older(ctx context.Context) (older []*Manifest, err error) {
	_, all, err := a.read(ctx)
	for _, b := range all {
		if b.Epoch < a.epoch() {
			older = append(older, b.m)
		}
	}
	return older, err
}
