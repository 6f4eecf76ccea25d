package passwordlist

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/FastFilter/xorfilter"
)

// A Writer collects passwords and writes the file of a List. If there are more than a few million
// passwords, it keeps their hashes in temporary files, to bound the memory that it needs.
type Writer struct {
	keys  []uint64 // the hashes, while there are few
	parts []*part  // the hashes by their first bits, when there are many
	limit int      // number of hashes that are kept in memory
}

// part is a temporary file with hashes.
type part struct {
	file *os.File
	w    *bufio.Writer
	n    int
}

const (
	partBits  = 8
	inMemory  = 4 << 20
	octetsKey = 8 // octets of a key, the part of a password's hash that is kept
)

// NewWriter returns an empty Writer.
func NewWriter() *Writer { return &Writer{limit: inMemory} }

// Add adds a password.
func (w *Writer) Add(password []byte) error { return w.add(key(password)) }

// AddHash adds a password by its SHA-1 hash in hexadecimal digits. The number of its
// occurrences may follow behind a colon, as in the lists of Have I Been Pwned.
func (w *Writer) AddHash(text []byte) error {
	digits, _, _ := bytes.Cut(text, []byte(":"))
	var hash [sha1.Size]byte
	if len(digits) != hex.EncodedLen(len(hash)) {
		return fmt.Errorf("%q is no SHA-1 hash of 40 hexadecimal digits", cut(text))
	}
	if _, err := hex.Decode(hash[:], digits); err != nil {
		return fmt.Errorf("%q is no SHA-1 hash of 40 hexadecimal digits", cut(text))
	}
	return w.add(binary.BigEndian.Uint64(hash[:]))
}

// cut shortens a line for a message.
func cut(line []byte) []byte { return line[:min(len(line), 60)] }

// key returns a part of a password's SHA-1 hash. A List stores a fingerprint of this
// part. SHA-1 protects nothing here. It is used because published lists contain SHA-1
// hashes.
func key(password []byte) uint64 {
	hash := sha1.Sum(password)
	return binary.BigEndian.Uint64(hash[:])
}

func (w *Writer) add(k uint64) error {
	if w.parts == nil {
		if w.keys = append(w.keys, k); len(w.keys) < w.limit {
			return nil
		}
		return w.spill()
	}
	p := w.parts[k>>(64-partBits)]
	p.n++
	_, err := p.w.Write(binary.BigEndian.AppendUint64(make([]byte, 0, octetsKey), k))
	return err
}

// spill moves the hashes into temporary files.
func (w *Writer) spill() error {
	for range 1 << partBits {
		f, err := os.CreateTemp("", "ldapd-passwords-*")
		if err != nil {
			return err
		}
		os.Remove(f.Name()) // the open file remains usable without its name
		w.parts = append(w.parts, &part{file: f, w: bufio.NewWriterSize(f, 64<<10)})
	}
	keys := w.keys
	w.keys = nil
	for _, k := range keys {
		if err := w.add(k); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the temporary files.
func (w *Writer) Close() {
	for _, p := range w.parts {
		p.file.Close()
	}
}

// Save writes the file. It returns the number of different passwords.
func (w *Writer) Save(out io.Writer) (passwords int, err error) {
	sum := sha256.New()
	b := bufio.NewWriter(io.MultiWriter(out, sum))
	bits := byte(0)
	if w.parts != nil {
		bits = partBits
	}
	b.WriteString(magic)
	b.Write([]byte{version, bits})
	for i := range 1 << bits {
		keys, err := w.part(i)
		if err != nil {
			return 0, err
		}
		if err := writePart(b, keys); err != nil {
			return 0, err
		}
		passwords += len(keys)
	}
	if err := b.Flush(); err != nil {
		return 0, err
	}
	_, err = out.Write(sum.Sum(nil))
	return passwords, err
}

// part returns the hashes of a part, each once.
func (w *Writer) part(i int) ([]uint64, error) {
	keys := w.keys
	if w.parts != nil {
		var err error
		if keys, err = w.parts[i].read(); err != nil {
			return nil, err
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

func (p *part) read() ([]uint64, error) {
	if err := p.w.Flush(); err != nil {
		return nil, err
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	raw := make([]byte, p.n*octetsKey)
	if _, err := io.ReadFull(p.file, raw); err != nil {
		return nil, err
	}
	keys := make([]uint64, p.n)
	for i := range keys {
		keys[i] = binary.BigEndian.Uint64(raw[i*octetsKey:])
	}
	return keys, nil
}

// writePart writes the number of a part's passwords and, unless the part is empty, its
// filter.
func writePart(b *bufio.Writer, keys []uint64) error {
	b.Write(binary.BigEndian.AppendUint64(nil, uint64(len(keys))))
	if len(keys) == 0 {
		return nil
	}
	f, err := xorfilter.NewBinaryFuse[uint16](keys)
	if err != nil {
		return err
	}
	return f.Save(b)
}
