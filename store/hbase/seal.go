package hbase

import (
	"bufio"
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// markSealed is the first byte of a stored value that is sealed. The id of the key follows, a nonce, and the value
// encrypted with AES-256-GCM. The additional data are the row, the family and the qualifier, so a value that somebody
// copies to another cell cannot be opened there.
const markSealed = 2

const (
	keyIDSize = 4
	keySize   = 32
)

// A Seal encrypts the values of some cells before they are sent to HBase. Values that are not sealed can still be read.
type Seal struct {
	covers func(t string, f table.Family, qualifier []byte) bool
	first  *sealKey // nil: new values are not sealed
	keys   map[[keyIDSize]byte]*sealKey
}

type sealKey struct {
	id   [keyIDSize]byte
	aead cipher.AEAD
}

// ReadSeal reads keys: a line each, 32 octets in base64. The first key seals, and all of them open. If the first line is
// the word plain, new values are not sealed. Empty lines and lines that begin with # are ignored. The function covers
// reports which cells are sealed.
func ReadSeal(r io.Reader, covers func(t string, f table.Family, qualifier []byte) bool) (*Seal, error) {
	s := &Seal{covers: covers, keys: map[[keyIDSize]byte]*sealKey{}}
	lines, begun := bufio.NewScanner(r), false
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		if text == "plain" && !begun {
			begun = true
			continue
		}
		octets, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(octets) != keySize {
			return nil, fmt.Errorf("line %d is no key: want %d octets in base64, as of openssl rand -base64 %d", n, keySize, keySize)
		}
		k, err := newSealKey(octets)
		if err != nil {
			return nil, err
		}
		if s.keys[k.id] = k; !begun {
			s.first, begun = k, true
		}
	}
	if len(s.keys) == 0 && lines.Err() == nil {
		return nil, fmt.Errorf("there is no key: make one with openssl rand -base64 %d", keySize)
	}
	return s, lines.Err()
}

func newSealKey(octets []byte) (*sealKey, error) {
	block, err := aes.NewCipher(octets)
	if err != nil {
		return nil, err
	}
	k := &sealKey{}
	sum := sha256.Sum256(octets)
	copy(k.id[:], sum[:])
	k.aead, err = cipher.NewGCM(block)
	return k, err
}

// sealContext returns the additional data of a cell: the length of the row, the row, the family and the qualifier.
func sealContext(row []byte, f table.Family, stored []byte) []byte {
	b := binary.AppendUvarint(make([]byte, 0, 3+len(row)+1+len(stored)), uint64(len(row)))
	return append(append(append(b, row...), byte(f)), stored...)
}

// An opener opens the sealed values of a row. The Seal may be nil.
type opener struct {
	seal *Seal
	row  []byte
}

func (t *Table) opener(row []byte) opener { return opener{t.store.seal, row} }

// storeIn returns the stored form of a cell's value in a row.
func (t *Table) storeIn(row []byte, c *table.Cell) []byte {
	s := t.store.seal
	if c.Tombstone || s == nil || s.first == nil || !s.covers(t.name, c.Family, c.Qualifier) {
		return storeValue(c)
	}
	k := s.first
	b := make([]byte, 1+keyIDSize+k.aead.NonceSize(), 1+keyIDSize+k.aead.NonceSize()+len(c.Value)+k.aead.Overhead())
	b[0] = markSealed
	copy(b[1:], k.id[:])
	nonce := b[1+keyIDSize:]
	rand.Read(nonce)
	return k.aead.Seal(b, nonce, c.Value, sealContext(row, c.Family, storeQualifier(c.Qualifier)))
}

// open returns the value of a version that is sealed.
func (o opener) open(v *version) ([]byte, error) {
	id, box := [keyIDSize]byte{}, v.value[1:]
	if len(box) >= keyIDSize {
		id, box = [keyIDSize]byte(box), box[keyIDSize:]
	}
	var k *sealKey
	if o.seal != nil {
		k = o.seal.keys[id]
	}
	if k == nil {
		return nil, fmt.Errorf("hbase: %w: it was sealed with the key %x, which secrets.seal does not have", table.ErrKey, id)
	}
	if len(box) < k.aead.NonceSize() {
		return nil, fmt.Errorf("hbase: %w: a sealed value is cut off", table.ErrCorrupt)
	}
	n := k.aead.NonceSize()
	plain, err := k.aead.Open(nil, box[:n], box[n:], sealContext(o.row, v.family, v.qualifier))
	if err != nil {
		return nil, fmt.Errorf("hbase: %w: a sealed value was changed, or copied from another cell", table.ErrCorrupt)
	}
	return plain, nil
}

// current reports whether a version is stored as it would be stored now.
func (s *Seal) current(v *version) bool {
	if s.first == nil {
		return v.value[0] != markSealed
	}
	return len(v.value) > keyIDSize && v.value[0] == markSealed && bytes.Equal(v.value[1:1+keyIDSize], s.first.id[:])
}

// testable returns a filter that HBase can test: of a value that may be sealed, only whether it is there.
func (t *Table) testable(f table.Filter) table.Filter {
	if t.store.seal == nil {
		return f
	}
	all := func(fs []table.Filter) []table.Filter {
		out := make([]table.Filter, len(fs))
		for i := range fs {
			out[i] = t.testable(fs[i])
		}
		return out
	}
	switch f := f.(type) {
	case table.All:
		return table.All(all(f))
	case table.Any:
		return table.Any(all(f))
	case table.HasValue:
		if t.store.seal.covers(t.name, f.Family, f.Qualifier) {
			return table.Has{Family: f.Family, Qualifier: f.Qualifier}
		}
	}
	return f
}

var _ table.Resealer = (*Table)(nil)

// Reseals implements table.Resealer.
func (t *Table) Reseals() bool { return t.store.seal != nil }

// ResealCell implements table.Resealer.
func (t *Table) ResealCell(ctx context.Context, row []byte, f table.Family, q []byte) error {
	s := t.store.seal
	if s == nil {
		return nil
	}
	v, value, err := t.raw(ctx, row, f, q)
	if err != nil || v == nil || s.current(v) {
		return err
	}
	cols := columns{}
	cols.set(f, storeQualifier(q), t.storeIn(row, &table.Cell{Family: f, Qualifier: q, Value: value}))
	_, err = t.swap(ctx, row, f, q, v.value, cols) // if it is false, another server was faster
	return err
}

// raw returns the stored version of a cell of an unversioned table, and its value. It returns nil if there is none.
func (t *Table) raw(ctx context.Context, row []byte, f table.Family, q []byte) (*version, []byte, error) {
	vs, err := t.readSpan(ctx, row, nil, f, storeSpan(table.Column(f, q)), 1, 0)
	if err != nil {
		return nil, nil, err
	}
	cells, err := allCells(vs, t.opener(row))
	if err != nil || len(cells) == 0 || cells[0].Tombstone {
		return nil, nil, err
	}
	return &vs[0], cells[0].Value, nil
}

// Sealed implements table.Resealer.
func (t *Table) Sealed(ctx context.Context, r table.Range, f table.Family) (current, old int, err error) {
	s := t.store.seal
	if s == nil {
		return 0, 0, nil
	}
	x := historian{t: t, see: func(_ []byte, vs []version) error {
		for i := range vs {
			v := &vs[i]
			switch {
			case len(v.value) == 0 || v.value[0] == markTombstone || !s.covers(t.name, f, loadQualifier(v.qualifier)):
			case s.current(v):
				current++
			default:
				old++
			}
		}
		return nil
	}}
	err = x.run(ctx, r, []table.Family{f})
	return current, old, err
}
