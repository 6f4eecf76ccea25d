package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A folder is a place in a file system.
type folder string

// beginning is the prefix of the names of files that are being written.
const beginning = ".new-"

func (f folder) path(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }

// String implements Place.
func (f folder) String() string { return string(f) }

// List implements Place.
func (f folder) List(ctx context.Context, prefix string) (all []Object, err error) {
	err = f.list(ctx, prefix[:strings.LastIndexByte(prefix, '/')+1], prefix, func(o Object) { all = append(all, o) })
	slices.SortFunc(all, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// listedAtOnce is the number of names that are read from a folder at once.
const listedAtOnce = 1000

// list calls add with each object below the subfolder sub if the object's name begins with
// prefix. sub is empty or ends with a slash. list skips other names without looking at their
// files, because a standby often looks for one piece among hundreds of thousands.
func (f folder) list(ctx context.Context, sub, prefix string, add func(Object)) error {
	d, err := os.Open(f.path(sub))
	if err != nil {
		return ignoreMissing(err)
	}
	defer d.Close()
	begin := prefix[min(len(sub), len(prefix)):] // how the wanted names in the subfolder begin
	for {
		names, err := d.Readdirnames(listedAtOnce)
		for _, name := range names {
			if !strings.HasPrefix(name, begin) {
				continue
			}
			if err := f.listOne(ctx, sub, name, prefix, add); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return ctx.Err()
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// listOne does what list does, for one name in the subfolder.
func (f folder) listOne(ctx context.Context, sub, name, prefix string, add func(Object)) error {
	info, err := os.Lstat(f.path(sub + name))
	switch {
	case err != nil:
		return ignoreMissing(err) // the file was deleted meanwhile
	case info.IsDir():
		return f.list(ctx, sub+name+"/", prefix, add)
	case !strings.HasPrefix(name, "."):
		add(Object{sub + name, info.Size()})
	}
	return ctx.Err()
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Get implements Place.
func (f folder) Get(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(f.path(name))
}

// Put implements Place.
func (f folder) Put(ctx context.Context, name string, r io.Reader) error {
	dir := filepath.Dir(f.path(name))
	if err := makeFolders(dir); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, beginning)
	if err != nil {
		return err
	}
	_, err = io.Copy(tmp, r)
	err = errors.Join(err, tmp.Sync(), tmp.Close(), ctx.Err())
	if err == nil {
		err = os.Rename(tmp.Name(), f.path(name))
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp.Name())))
	}
	return syncFolder(dir)
}

// makeFolders creates a folder and its missing parents, durably.
func makeFolders(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	above := filepath.Dir(dir)
	if err := makeFolders(above); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(above)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Read implements Place.
func (f folder) Read(_ context.Context, name string) ([]byte, string, error) {
	b, err := os.ReadFile(f.path(name))
	if err != nil {
		return nil, "", ignoreMissing(err)
	}
	sum := sha256.Sum256(b)
	return b, hex.EncodeToString(sum[:]), nil
}

// Swap implements Place.
func (f folder) Swap(ctx context.Context, name, tag string, data []byte) error {
	if err := makeFolders(string(f)); err != nil {
		return err
	}
	unlock, err := lockFile(f.path(".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	_, now, err := f.Read(ctx, name)
	if err != nil {
		return err
	}
	if now != tag {
		return ErrChanged
	}
	return f.Put(ctx, name, bytes.NewReader(data))
}

// Conditions implements Place.
func (f folder) Conditions(context.Context) (bool, error) { return canLock, nil }

// Delete implements Place.
func (f folder) Delete(_ context.Context, name string) error {
	return ignoreMissing(os.Remove(f.path(name)))
}
