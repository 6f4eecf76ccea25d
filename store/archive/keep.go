package archive

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// allBases is an age. Thin keeps every base that Options.Keep requires and that is not older
// than allBases. Of the older bases, it keeps one per day.
const allBases = 48 * time.Hour

// Thinned counts the objects that were removed.
type Thinned struct {
	Bases, Pieces, Files int
	Bytes                int64
}

// The type dated is a base with its manifest, which contains the time at which the base was
// taken.
type dated struct {
	Base
	m *Manifest
}

// Thin removes objects that are not needed any more. Every moment of the last Options.Keep can
// still be restored afterwards.
func (a *Archiver) Thin(ctx context.Context) (Thinned, error) {
	a.turning.Lock()
	defer a.turning.Unlock()
	x, all, err := a.read(ctx)
	if err != nil {
		return Thinned{}, err
	}
	return a.remove(ctx, x, all, keepOf(all, a.o.Now(), a.o.Keep))
}

// read lists the archive and reads its manifests. If this store may not write to the
// archive, read returns an error.
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

// keepOf returns the names of the bases to keep. A moment can be restored from any earlier
// base of the same epoch. So in each epoch with moments to keep, keepOf keeps the newest
// base that is older than all these moments. Of the bases after that one, keepOf keeps
// the newest, every base younger than allBases, and one base per day of the rest.
func keepOf(all []dated, now time.Time, keep time.Duration) map[string]bool {
	stays := map[string]bool{}
	var last dated
	for i, b := range all {
		nextBefore := i+1 < len(all) && keep > 0 && !all[i+1].m.Taken.After(now.Add(-keep))
		switch {
		case nextBefore:
			// b is not needed: a later base is old enough to restore all moments to keep.
		case last.m == nil || last.Epoch != b.Epoch || i == len(all)-1,
			now.Sub(b.m.Taken) < allBases,
			b.m.Taken.UTC().Truncate(24*time.Hour) != last.m.Taken.UTC().Truncate(24*time.Hour):
			stays[b.Name], last = true, b
		}
	}
	return stays
}

// remove removes the bases that are not in the set kept. Then it removes the pieces and files
// that none of the remaining bases needs, except the pieces of the current epoch if the epoch
// has no base yet. It removes bases first, so that an interruption leaves no base that lacks
// files.
func (a *Archiver) remove(ctx context.Context, x *Index, all []dated, kept map[string]bool) (t Thinned, err error) {
	from := map[Epoch]dated{}
	files := map[string]bool{}
	for _, b := range all {
		if !kept[b.Name] {
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

// Forget begins an epoch and removes all earlier epochs, so that the archive no longer
// contains what was erased from the store.
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

// Older returns the bases of earlier epochs. They may contain data that was later erased
// from the store.
func (a *Archiver) Older(ctx context.Context) (older []*Manifest, err error) {
	_, all, err := a.read(ctx)
	for _, b := range all {
		if b.Epoch < a.epoch() {
			older = append(older, b.m)
		}
	}
	return older, err
}
