package lsm

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A record is the unit that a load sorts. It contains some sorted cells of one row and
// group.
//
//	uvarint length of the key, of its row part, of the cells
//	key      image prefix of the row, family and qualifier of the first cell
//	cells    family, uvarint qualifier length and tombstone bit, uvarint value
//	         length, qualifier, value
//
// A record whose key consists only of the row part deletes the row.
type record struct {
	key    []byte
	prefix int // length of the row's part of key
	cells  []byte
}

// maxRecord is a size in bytes. When the cells of a record reach it, the next cells of
// the row begin another record. This bounds the memory for merging.
const maxRecord = 64 << 10

func appendRecord(dst []byte, r record) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(r.key)))
	dst = binary.AppendUvarint(dst, uint64(r.prefix))
	dst = binary.AppendUvarint(dst, uint64(len(r.cells)))
	return append(append(dst, r.key...), r.cells...)
}

func appendRecordCell(dst []byte, c *table.Cell) []byte {
	ql := uint64(len(c.Qualifier)) << 1
	if c.Tombstone {
		ql |= 1
	}
	dst = binary.AppendUvarint(append(dst, byte(c.Family)), ql)
	dst = binary.AppendUvarint(dst, uint64(len(c.Value)))
	return append(append(dst, c.Qualifier...), c.Value...)
}

// decode appends the record's cells to dst. The cells share the record's memory.
func (r *record) decode(dst []table.Cell, rev table.Revision) []table.Cell {
	for b := r.cells; len(b) > 0; {
		c := table.Cell{Family: table.Family(b[0]), Revision: rev}
		ql, k := binary.Uvarint(b[1:])
		b = b[1+k:]
		vl, k := binary.Uvarint(b)
		b = b[k:]
		c.Tombstone = ql&1 != 0
		ql >>= 1
		c.Qualifier, c.Value, b = b[:ql:ql], b[ql:ql+vl:ql+vl], b[ql+vl:]
		dst = append(dst, c)
	}
	return dst
}

// parseRecord decodes the record at the beginning of b.
func parseRecord(b []byte) (r record) {
	kl, n := binary.Uvarint(b)
	b = b[n:]
	pl, n := binary.Uvarint(b)
	b = b[n:]
	cl, n := binary.Uvarint(b)
	b = b[n:]
	return record{key: b[:kl], prefix: int(pl), cells: b[kl : kl+cl]}
}

// chunkSize is the size of the chunks of memory that are allocated for records.
const chunkSize = 1 << 20

// A ref refers to a record in memory. It contains no pointers, so that the garbage
// collector does not scan millions of them. It contains 16 bytes of the key, which decide
// most comparisons. Without these bytes, each comparison would read two records from
// memory, and the records are spread over memory. These reads took a fifth of the time of
// a load.
type ref struct {
	abbr, more uint64
	chunk, off uint32
}

func (a ref) compare(b ref) int {
	switch {
	case a.abbr != b.abbr:
		return cmp.Compare(a.abbr, b.abbr)
	case a.more != b.more:
		return cmp.Compare(a.more, b.more)
	case a.chunk != b.chunk:
		return cmp.Compare(a.chunk, b.chunk)
	}
	return cmp.Compare(a.off, b.off)
}

// A shard receives the records of one group of one table.
type shard struct {
	t *tableInfo
	g *group

	mu     sync.Mutex
	chunks [][]byte
	refs   []ref
}

// add stores a record and returns the number of bytes allocated for it.
func (s *shard) add(r record) int64 {
	n := len(r.key) + len(r.cells) + 3*binary.MaxVarintLen32
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.chunks) - 1
	var grown int64
	if last < 0 || cap(s.chunks[last])-len(s.chunks[last]) < n {
		size := chunkSize
		if last < 0 {
			size = 16 << 10 // the first chunk is small: in most loads, some tables receive few rows
		}
		s.chunks = append(s.chunks, make([]byte, 0, max(size, n)))
		last++
		grown = int64(cap(s.chunks[last]))
	}
	c := s.chunks[last]
	x := ref{chunk: uint32(last), off: uint32(len(c))}
	x.abbr, x.more = abbreviate(r.key[headLen:])
	s.refs = append(s.refs, x)
	s.chunks[last] = appendRecord(c, r)
	return grown + 2*24
}

const abbrLen = 16

// abbreviate returns the first 16 bytes of a key, padded with zeros.
func abbreviate(key []byte) (first, more uint64) {
	var b [abbrLen]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])
}

func (s *shard) record(r ref) record { return parseRecord(s.chunks[r.chunk][r.off:]) }

// sort sorts the records by key. Records with equal keys keep their order.
func (s *shard) sort() { s.order(s.refs, 0) }

// order sorts refs whose keys are equal up to depth. It first sorts by the next 16 bytes.
// Refs that are equal in these bytes are then sorted by the following 16 bytes, and so
// on.
func (s *shard) order(refs []ref, depth int) {
	slices.SortFunc(refs, ref.compare)
	for len(refs) > 1 {
		n := 1
		for n < len(refs) && refs[n].abbr == refs[0].abbr && refs[n].more == refs[0].more {
			n++
		}
		if n > 1 {
			s.tie(refs[:n], depth+abbrLen)
		}
		refs = refs[n:]
	}
}

// fewTied is the largest number of refs with equal bytes that are sorted by comparing
// their whole keys.
const fewTied = 4

func (s *shard) tie(refs []ref, depth int) {
	longest := 0
	for i := range refs {
		key := s.record(refs[i]).key[headLen:]
		longest = max(longest, len(key))
		refs[i].abbr, refs[i].more = abbreviate(key[min(depth, len(key)):])
	}
	if len(refs) > fewTied && longest > depth {
		s.order(refs, depth)
		return
	}
	slices.SortFunc(refs, func(a, b ref) int {
		if d := bytes.Compare(s.record(a).key, s.record(b).key); d != 0 {
			return d
		}
		return cmp.Or(cmp.Compare(a.chunk, b.chunk), cmp.Compare(a.off, b.off))
	})
}

func (s *shard) reset() { s.chunks, s.refs = nil, nil }

// A source returns records in order. A record is valid until the next call.
type source interface {
	next() (record, bool, error)
}

// memSource reads a sorted shard.
type memSource struct {
	s *shard
	i int
}

func (m *memSource) next() (record, bool, error) {
	if m.i == len(m.s.refs) {
		return record{}, false, nil
	}
	m.i++
	return m.s.record(m.s.refs[m.i-1]), true, nil
}

// A run is a file of sorted records. It has a section for each shard.
type run struct {
	file     vfs.File
	sections map[*shard]section64
}

type section64 struct{ off, n int64 }

// writeRun writes the records of sorted shards to a file and empties the shards.
func writeRun(fs vfs.FS, name string, shards []*shard) (r *run, err error) {
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	r = &run{sections: map[*shard]section64{}}
	var off int64
	var buf []byte
	for _, s := range shards {
		if len(s.refs) == 0 {
			continue
		}
		start := off
		for _, x := range s.refs {
			buf = appendRecord(buf[:0], s.record(x))
			off += int64(len(buf))
			if _, err = w.Write(buf); err != nil {
				return nil, errors.Join(err, f.Close())
			}
		}
		r.sections[s] = section64{start, off - start}
		s.reset()
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return nil, err
	}
	r.file, err = fs.Open(name)
	return r, err
}

// fileSource reads a shard's section of a run.
type fileSource struct {
	r   *bufio.Reader
	buf []byte
}

func (r *run) source(s *shard) *fileSource {
	x := r.sections[s]
	return &fileSource{r: bufio.NewReaderSize(io.NewSectionReader(r.file, x.off, x.n), 128<<10)}
}

func (f *fileSource) next() (record, bool, error) {
	kl, err := binary.ReadUvarint(f.r)
	if err == io.EOF {
		return record{}, false, nil
	}
	pl, err2 := binary.ReadUvarint(f.r)
	cl, err3 := binary.ReadUvarint(f.r)
	if err := errors.Join(err, err2, err3); err != nil {
		return record{}, false, err
	}
	f.buf = slices.Grow(f.buf[:0], int(kl+cl))[:kl+cl]
	if _, err := io.ReadFull(f.r, f.buf); err != nil {
		return record{}, false, err
	}
	return record{key: f.buf[:kl], prefix: int(pl), cells: f.buf[kl:]}, true, nil
}

// A merger merges sources. Of records with equal keys, the record of the earlier source
// comes first.
type merger struct {
	heads   []head // a heap
	started bool   // next has returned the record of heads[0]
}

// A head is the next record of a source.
type head struct {
	record
	from  source
	order int // index of the source
}

func newMerger(sources []source) (*merger, error) {
	m := &merger{}
	for i, s := range sources {
		r, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if ok {
			m.heads = append(m.heads, head{r, s, i})
		}
	}
	for i := len(m.heads)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return m, nil
}

func (m *merger) next() (record, bool, error) {
	if m.started {
		first := &m.heads[0]
		r, ok, err := first.from.next()
		if err != nil {
			return record{}, false, err
		}
		if first.record = r; !ok {
			last := len(m.heads) - 1
			m.heads[0] = m.heads[last]
			m.heads = m.heads[:last]
		}
		m.down(0)
	}
	if m.started = len(m.heads) > 0; !m.started {
		return record{}, false, nil
	}
	return m.heads[0].record, true, nil
}

// down moves the head at i down to its place in the heap.
func (m *merger) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(m.heads); c++ {
			if m.heads[c].before(&m.heads[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		m.heads[i], m.heads[least] = m.heads[least], m.heads[i]
		i = least
	}
}

func (h *head) before(o *head) bool {
	if d := bytes.Compare(h.key, o.key); d != 0 {
		return d < 0
	}
	return h.order < o.order
}
