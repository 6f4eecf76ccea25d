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
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
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

// pieceWindow is the distance in bytes within which a piece is searched for repetitions. The
// buffers of both the writer and the readers of a piece have twice this size.
const pieceWindow = 1 << 20

// A draft is a piece that is being written. Its content is compressed and then sealed.
//
// A draft is used for one piece after another, because the buffers of the compression are
// large. While the garbage collector marks a large cache, the allocation of a buffer waits
// until a proportional part of the cache is marked. Such a wait took more than a second.
type draft struct {
	head   pieceHead
	to     lsm.Position
	newest table.Revision
	size   int
	buf    bytes.Buffer
	sealed io.WriteCloser
	zip    *zstd.Encoder
}

func newDraft() (*draft, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(pieceWindow))
	return &draft{zip: z}, err
}

// begin begins a piece. The content of the previous piece becomes invalid.
func (d *draft) begin(h pieceHead, s Seal, newest table.Revision) (err error) {
	d.head, d.to, d.newest, d.size = h, h.From, newest, 0
	d.buf.Reset()
	if d.sealed, err = s.writer(&d.buf); err != nil {
		return err
	}
	d.zip.Reset(d.sealed)
	line, err := json.Marshal(h)
	if err == nil {
		_, err = d.zip.Write(append(line, '\n'))
	}
	return err
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

// finish completes the piece and returns its name and content. The content is valid until
// the next piece begins.
func (d *draft) finish() (name string, content []byte, err error) {
	if err := errors.Join(d.zip.Close(), d.sealed.Close()); err != nil {
		return "", nil, err
	}
	b := d.buf.Bytes()
	return pieceName(d.head.Epoch, d.head.From, d.to, d.newest, shortSum(b)), b, nil
}

// A pieceReader reads pieces. It uses its buffers for one piece after another, like a
// draft.
type pieceReader struct {
	place Place
	keys  Keys
	zip   *zstd.Decoder
	raw   bytes.Buffer
	repr  []byte
}

func newPieceReader(p Place, keys Keys) (*pieceReader, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	return &pieceReader{place: p, keys: keys, zip: z}, err
}

// close releases the buffers.
func (r *pieceReader) close() { r.zip.Close() }

// The method "each" reads a piece of a store and calls f with each batch in it. The batch is
// valid until f returns.
func (r *pieceReader) each(ctx context.Context, store string, x Piece, f func(repr []byte) error) error {
	in, err := get(ctx, r.place, x.Name)
	if err != nil {
		return err
	}
	defer in.Close()
	h := sha256.New()
	r.raw.Reset()
	_, err = r.raw.ReadFrom(io.TeeReader(cancelable{ctx, in}, h)) // a piece has a few megabytes
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", x.Name, err)
	case shortHash(h) != x.hash:
		return fmt.Errorf("%w: %s: checksum mismatch", ErrDamaged, x.Name)
	}
	if err := r.batches(store, x, f); err != nil {
		return fmt.Errorf("%s: %w", x.Name, err)
	}
	return nil
}

// batches calls f with each batch in r.raw.
func (r *pieceReader) batches(store string, x Piece, f func(repr []byte) error) error {
	open, err := r.keys.open(&r.raw)
	if err == nil {
		err = r.zip.Reset(open)
	}
	if err != nil {
		return err
	}
	in := bufio.NewReader(r.zip)
	if err := checkHead(in, store, x); err != nil {
		return err
	}
	for {
		n, err := binary.ReadUvarint(in)
		if err == io.EOF {
			return nil
		}
		if err == nil && n > 1<<31 {
			err = errors.New("a batch has no size")
		}
		if err == nil {
			r.repr = slices.Grow(r.repr[:0], int(n))[:n]
			_, err = io.ReadFull(in, r.repr)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if err := f(r.repr); err != nil {
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
