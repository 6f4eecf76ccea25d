package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// RestoreOptions configure a restore.
type RestoreOptions struct {
	To    string         // a folder that does not exist or is empty
	Until table.Revision // the newest commit to restore; 0: the newest in the archive
	Keys  Keys
	// Copy makes a store that does not continue the archive of the original store.
	Copy bool
}

// Restored describes a restored store.
type Restored struct {
	Base     *Manifest
	Newest   table.Revision // the newest commit in the restored store
	Commits  int            // number of commits that were replayed on the base
	Warnings []string
}

// errUntil ends a replay before the first commit that is later than Until.
var errUntil = errors.New("the next commit is later")

// Restore creates a store from an archive.
func Restore(ctx context.Context, p Place, o RestoreOptions) (*Restored, error) {
	if o.Until == 0 {
		o.Until = math.MaxUint64
	}
	if err := emptyFolder(o.To); err != nil {
		return nil, err
	}
	x, err := ReadIndex(ctx, p)
	if err != nil {
		return nil, err
	}
	b, m, err := x.choose(ctx, p, o.Until)
	if err != nil {
		return nil, err
	}
	chain, gap := x.behind(b)
	if gap != nil && newest(m, chain) < o.Until {
		return nil, fmt.Errorf("%w: commits up to %s, revision %s, can be restored", gap, at(newest(m, chain)), newest(m, chain))
	}
	done := &Restored{Base: m, Newest: m.Newest, Warnings: x.warnings(b)}
	if err := m.fetch(ctx, p, o.Keys, o.To); err != nil {
		return nil, err
	}
	if err := done.replay(ctx, p, o, chain); err != nil {
		return nil, fmt.Errorf("%w (the store in %s is incomplete)", err, o.To)
	}
	if o.Copy {
		return done, nil
	}
	st := &state{Store: m.Store, Place: p.String(), TakeOver: true}
	return done, st.save(o.To)
}

func at(r table.Revision) string { return r.Time().UTC().Format(time.RFC3339) }

// emptyFolder creates a folder. If the folder exists and is not empty, it returns an
// error.
func emptyFolder(path string) error {
	names, err := os.ReadDir(path)
	if err == nil && len(names) > 0 {
		return fmt.Errorf("%s: the folder is not empty: a store is restored to a new one", path)
	}
	if err := ignoreMissing(err); err != nil {
		return err
	}
	return os.MkdirAll(path, 0o700)
}

// choose returns the newest base that contains no commit later than the revision until.
func (x *Index) choose(ctx context.Context, p Place, until table.Revision) (Base, *Manifest, error) {
	oldest := ""
	for _, b := range slices.Backward(x.Bases) {
		m, err := ReadManifest(ctx, p, b)
		if err != nil {
			return b, nil, err
		}
		if m.Newest <= until {
			return b, m, nil
		}
		oldest = at(m.Newest)
	}
	if oldest == "" {
		return Base{}, nil, fmt.Errorf("%w: it has no base yet", ErrNoState)
	}
	return Base{}, nil, fmt.Errorf("%w: it begins at %s", ErrNoState, oldest)
}

// warnings returns a warning if a later epoch has pieces but no base, because a restore
// from base b leaves out the commits of that epoch.
func (x *Index) warnings(b Base) (all []string) {
	for _, p := range x.Pieces {
		if p.Epoch > b.Epoch && !slices.ContainsFunc(x.Bases, func(c Base) bool { return c.Epoch == p.Epoch }) {
			return append(all, fmt.Sprintf("epoch %d has pieces but no base: its commits are not restored", p.Epoch))
		}
	}
	return nil
}

// fetch writes the files of a base into a folder.
func (m *Manifest) fetch(ctx context.Context, p Place, keys Keys, to string) error {
	for _, f := range m.Files {
		if err := f.fetch(ctx, p, keys, to); err != nil {
			return fmt.Errorf("%s (%s): %w", fileName(f.SHA256), f.Name, err)
		}
	}
	return syncFolder(to)
}

func (f *File) fetch(ctx context.Context, p Place, keys Keys, to string) (err error) {
	var r io.ReadCloser = io.NopCloser(strings.NewReader(""))
	if f.Size > 0 {
		if r, err = get(ctx, p, fileName(f.SHA256)); err != nil {
			return err
		}
	}
	defer r.Close()
	in, err := keys.open(r)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(to, f.Name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h), cancelable{ctx, in})
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	if n != f.Size || hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%w: checksum mismatch", ErrDamaged)
	}
	return nil
}

// The type cancelable is a reader that fails between two reads when ctx ends.
type cancelable struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (c cancelable) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.Reader.Read(b)
}

// replay applies pieces to a restored base.
func (d *Restored) replay(ctx context.Context, p Place, o RestoreOptions, chain []Piece) error {
	in, err := newPieceReader(p, o.Keys)
	if err != nil {
		return err
	}
	defer in.close()
	r, err := lsm.Replay(o.To, d.Base.Next)
	if err != nil {
		return err
	}
	for _, x := range chain {
		err = in.each(ctx, d.Base.Store, x, func(repr []byte) error { return d.apply(ctx, r, o.Until, repr) })
		if errors.Is(err, errUntil) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return errors.Join(err, r.Abandon())
		}
	}
	return r.Finish()
}

func (d *Restored) apply(ctx context.Context, r *lsm.Replayer, until table.Revision, repr []byte) error {
	commit, err := newestIn(ctx, r.Store(), repr)
	if err != nil {
		return err
	}
	if commit > until {
		return errUntil
	}
	if commit > d.Newest {
		d.Newest = commit
		d.Commits++
	}
	return r.Apply(repr)
}
