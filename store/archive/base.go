package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Manifest lists the files of a base.
type Manifest struct {
	Format int
	Store  string
	Epoch  Epoch
	Next   lsm.Position   // the position at which the log after the base begins
	Newest table.Revision // the newest commit in the base
	Taken  time.Time
	Engine int // the engine's version of the file format
	Files  []File
}

// A File is a file of a base.
type File struct {
	Name string
	Size int64
	// SHA256 is the hash of the content, and is part of the object's name. An empty file
	// has no object.
	SHA256 string
	Stored string // SHA-256 of the object; if the object is sealed, it differs from the field SHA256
}

// Size returns the total size of the files in bytes.
func (m *Manifest) Size() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// ReadManifest reads the manifest of a base.
func ReadManifest(ctx context.Context, p Place, b Base) (*Manifest, error) {
	r, err := get(ctx, p, b.Name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name, err)
	}
	var m Manifest
	if shortSum(text) != b.hash {
		return nil, fmt.Errorf("%w: %s: checksum mismatch", ErrDamaged, b.Name)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, b.Name, err)
	}
	if m.Format > format {
		return nil, newer("the base", m.Format)
	}
	if i := slices.IndexFunc(m.Files, func(f File) bool { return f.Name == "" || f.Name != filepath.Base(f.Name) || f.Name[0] == '.' }); i >= 0 {
		return nil, fmt.Errorf("%w: %s lists a file with the invalid name %q", ErrDamaged, b.Name, m.Files[i].Name)
	}
	return &m, nil
}

// An upload writes the files of a copy to a place, except files that the place already
// has.
type upload struct {
	place Place
	seal  Seal
	known map[string]File // files in the place, by hash
	sums  *sums
	pace  pacer
	sent  func(octets int64)
}

// known returns the files that exist in the place and are listed in the map "sent" or in the
// manifest of a base. The keys of the result are hashes.
func known(ctx context.Context, p Place, bases []Base, sent map[string]File) (map[string]File, error) {
	objects, err := p.List(ctx, filePrefix)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, o := range objects {
		there[o.Name] = true
	}
	all := map[string]File{}
	for sum, f := range sent {
		if there[fileName(sum)] {
			all[sum] = f
		}
	}
	for _, b := range bases {
		m, err := ReadManifest(ctx, p, b)
		if errors.Is(err, ErrDamaged) {
			continue // Verify reports the damage; the base's files are sent again
		}
		if err != nil {
			return nil, err
		}
		for _, f := range m.Files {
			if there[fileName(f.SHA256)] {
				all[f.SHA256] = f
			}
		}
	}
	return all, nil
}

// files uploads the files of a copy that the place lacks, and returns a list of all
// files.
func (u *upload) files(ctx context.Context, c *lsm.Copy) ([]File, error) {
	var all []File
	for _, name := range c.Files {
		f, err := u.file(ctx, filepath.Join(c.Folder, name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, f)
	}
	return all, nil
}

func (u *upload) file(ctx context.Context, path string) (f File, err error) {
	f = File{Name: filepath.Base(path)}
	if f.SHA256, f.Size, err = u.sums.of(ctx, path, &u.pace); err != nil {
		return f, err
	}
	if f.Size == 0 {
		return f, nil // an empty file has no object
	}
	if k, ok := u.known[f.SHA256]; ok {
		f.Stored = k.Stored
		return f, nil
	}
	in, err := os.Open(path)
	if err != nil {
		return f, err
	}
	defer in.Close()
	sealed, err := u.seal.reader(u.pace.reader(ctx, in))
	if err != nil {
		return f, err
	}
	h := sha256.New()
	n := &counter{}
	if err := u.place.Put(ctx, fileName(f.SHA256), io.TeeReader(sealed, io.MultiWriter(h, n))); err != nil {
		return f, err
	}
	u.sent(n.n)
	f.Stored = hex.EncodeToString(h.Sum(nil))
	u.known[f.SHA256] = f
	return f, nil
}

type counter struct{ n int64 }

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

// put writes the manifest. The base is complete when its manifest exists.
func (m *Manifest) put(ctx context.Context, p Place) error {
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	return p.Put(ctx, baseName(m.Epoch, m.Next, shortSum(b)), bytes.NewReader(b))
}

// The type sums caches the hashes of tables (.sst), which never change while a store is open.
type sums struct{ known map[sumKey]string }

type sumKey struct {
	name string
	size int64
	at   time.Time
}

func (s *sums) of(ctx context.Context, path string, pace *pacer) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	key := sumKey{filepath.Base(path), info.Size(), info.ModTime()}
	if sum, ok := s.known[key]; ok {
		return sum, key.size, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, pace.reader(ctx, f)); err != nil {
		return "", 0, err
	}
	sum = hex.EncodeToString(h.Sum(nil))
	if filepath.Ext(path) == ".sst" {
		if s.known == nil {
			s.known = map[sumKey]string{}
		}
		s.known[key] = sum
	}
	return sum, key.size, nil
}
