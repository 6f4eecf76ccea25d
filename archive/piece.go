package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/table/lsm"
)

// pieceSize is the size in bytes, before compression, at which a piece ends.
const pieceSize = 8 << 20

// pieceHead is the first line of a piece, encoded in JSON.
type pieceHead struct {
	Format int
	Store  string
	Epoch  Epoch
	From   lsm.Position
}

// A draft is a piece that is being written. Its content is compressed and then sealed.
type draft struct {
	head   pieceHead
	to     lsm.Position
	newest table.Revision
	size   int
	buf    bytes.Buffer
	sealed io.WriteCloser
	zip    *zstd.Encoder
}

func newDraft(h pieceHead, s Seal, newest table.Revision) (*draft, error) {
	d := &draft{head: h, to: h.From, newest: newest}
	var err error
	if d.sealed, err = s.writer(&d.buf); err != nil {
		return nil, err
	}
	if d.zip, err = zstd.NewWriter(d.sealed, zstd.WithEncoderConcurrency(1)); err != nil {
		return nil, err
	}
	line, err := json.Marshal(h)
	if err == nil {
		_, err = d.zip.Write(append(line, '\n'))
	}
	return d, err
}

func (d *draft) add(b lsm.LogBatch) error {
	n := binary.AppendUvarint(nil, uint64(len(b.Repr)))
	_, err := d.zip.Write(n)
	if err == nil {
		_, err = d.zip.Write(b.Repr)
	}
	d.size += len(b.Repr)
	d.to = b.Next
	return err
}

// finish completes the piece and returns its name and content.
func (d *draft) finish() (name string, content []byte, err error) {
	if err := errors.Join(d.zip.Close(), d.sealed.Close()); err != nil {
		return "", nil, err
	}
	b := d.buf.Bytes()
	return pieceName(d.head.Epoch, d.head.From, d.to, d.newest, shortSum(b)), b, nil
}

// getPiece reads a piece and calls f with each batch in it.
func getPiece(ctx context.Context, p Place, keys Keys, store string, x Piece, f func(repr []byte) error) error {
	h := sha256.New()
	r, err := get(ctx, p, x.Name)
	if err != nil {
		return err
	}
	defer r.Close()
	b, err := io.ReadAll(io.TeeReader(cancelable{ctx, r}, h)) // a piece has a few megabytes
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", x.Name, err)
	case shortHash(h) != x.hash:
		return fmt.Errorf("%w: %s is not what was put there", ErrDamaged, x.Name)
	}
	if err := readPiece(bytes.NewReader(b), keys, store, x, f); err != nil {
		return fmt.Errorf("%s: %w", x.Name, err)
	}
	return nil
}

func readPiece(r io.Reader, keys Keys, store string, x Piece, f func(repr []byte) error) error {
	open, err := keys.open(r)
	if err != nil {
		return err
	}
	z, err := zstd.NewReader(open, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	in := bufio.NewReader(z)
	if err := checkHead(in, store, x); err != nil {
		return err
	}
	var repr []byte
	for {
		n, err := binary.ReadUvarint(in)
		if err == io.EOF {
			return nil
		}
		if err == nil && n > 1<<31 {
			err = errors.New("a batch has no size")
		}
		if err == nil {
			repr = append(repr[:0], make([]byte, n)...)
			_, err = io.ReadFull(in, repr)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if err := f(repr); err != nil {
			return err
		}
	}
}

func checkHead(in *bufio.Reader, store string, x Piece) error {
	line, err := in.ReadBytes('\n')
	var h pieceHead
	if err == nil {
		err = json.Unmarshal(line, &h)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case h.Format > format:
		return newer("the piece", h.Format)
	case h.Store != store || h.Epoch != x.Epoch || h.From != x.From:
		return fmt.Errorf("%w: it is a piece of another store or epoch", ErrDamaged)
	}
	return nil
}

func newer(what string, f int) error {
	return fmt.Errorf("%w: %s has format %d, this program knows formats up to %d: use a newer program", table.ErrNewer, what, f, format)
}

// get opens an object. If the object is missing, get returns ErrDamaged.
func get(ctx context.Context, p Place, name string) (io.ReadCloser, error) {
	r, err := p.Get(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is missing", ErrDamaged, name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}
