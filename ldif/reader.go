package ldif

import (
	"bytes"
	"fmt"
	"io"
	"iter"

	"github.com/seed-4dac0d86/ldapd/op"
)

// Options of a Reader.
type Options struct {
	// File is the name that errors give.
	File string
	// MaxRecord bounds the bytes of a record, and of each file that it refers
	// to; 0 means 64 MiB.
	MaxRecord int
	// AllowFiles lets values come from files ("jpegPhoto:< file:///..."). Set it
	// only when who wrote the LDIF may read all that this process may.
	AllowFiles bool
	// AllowEmpty lets an entry have no attributes.
	AllowEmpty bool
}

const (
	defaultMaxRecord = 64 << 20
	firstBuffer      = 128 << 10
	// maxNames bounds the attribute descriptions that are kept to be used
	// again.
	maxNames = 4096
)

// A Reader reads records from a stream. Its memory is a small multiple of the
// largest record.
type Reader struct {
	in  io.Reader
	opt Options

	buf    []byte // buf[start:end] is read and not used yet
	start  int
	end    int
	line   int // of buf[start], from 1
	inErr  error
	begun  bool // the first block, which may have the version, is behind
	failed error

	raw   []byte
	names map[string]string // attribute descriptions seen

	// Memory of the record at hand, used again for the next.
	parser     parser
	joined     []byte // the folded line at hand
	lines      []valueLine
	attributes []op.PartialAttribute
}

// NewReader reads records from in.
func NewReader(in io.Reader, o Options) *Reader {
	if o.MaxRecord <= 0 {
		o.MaxRecord = defaultMaxRecord
	}
	return &Reader{in: in, opt: o, line: 1, names: map[string]string{}}
}

// Read returns the next record; io.EOF at the end. After an *Error about a record
// the next call goes on behind it; other errors stay.
func (r *Reader) Read() (*Record, error) {
	for r.failed == nil {
		block, line, err := r.block()
		if err != nil {
			return nil, err
		}
		r.raw = block
		rec, err := r.record(block, line)
		if rec != nil || err != nil {
			return rec, err
		}
	}
	return nil, r.failed
}

// Records yields what Read gives, to the end or an error that stays.
func (r *Reader) Records() iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for {
			rec, err := r.Read()
			if err == io.EOF || !yield(rec, err) || err != nil && r.failed != nil {
				return
			}
		}
	}
}

// Raw is the text of the record that Read gave or complained about last, comments
// among its lines included; of one larger than MaxRecord only its beginning. It
// is valid until the next Read.
func (r *Reader) Raw() []byte { return r.raw }

// fail makes err stay.
func (r *Reader) fail(err error) error {
	r.failed = err
	return err
}

// block returns the lines up to the next blank line, and the number of the first
// one. It is valid until the next call.
func (r *Reader) block() ([]byte, int, error) {
	size, lines := 0, 0
	for {
		line, fits := r.lineAt(size)
		switch {
		case !fits:
			return nil, 0, r.tooLarge()
		case len(line) == 0 && size > 0:
			return r.take(size, size, lines)
		case len(line) == 0 && r.inErr == io.EOF:
			return nil, 0, r.fail(io.EOF)
		case len(line) == 0:
			return nil, 0, r.fail(fmt.Errorf("reading %s after line %d: %w", r.opt.File, r.line-1, r.inErr))
		case !blank(line):
			size += len(line)
			lines++
		case size > 0:
			return r.take(size, size+len(line), lines+1)
		default:
			r.start += len(line)
			r.line++
		}
	}
}

// lineAt returns the line, its newline included, that is a number of bytes behind
// start; an empty one at the end. It is false when a record of these lines would
// be too large.
func (r *Reader) lineAt(offset int) ([]byte, bool) {
	searched := 0
	for {
		have := r.buf[r.start+offset : r.end]
		if i := bytes.IndexByte(have[searched:], '\n'); i >= 0 {
			return have[:searched+i+1], true
		}
		if r.inErr != nil {
			return have, true
		}
		searched = len(have)
		if offset+searched > r.opt.MaxRecord {
			return nil, false
		}
		r.fill()
	}
}

func blank(line []byte) bool {
	return line[0] == '\n' || line[0] == '\r' && (len(line) == 1 || line[1] == '\n')
}

// take returns a block and moves behind it and what follows it.
func (r *Reader) take(size, used, lines int) ([]byte, int, error) {
	if r.inErr != nil && r.inErr != io.EOF && used == r.end-r.start {
		// The record may be cut short by the failure: it must not be used.
		return nil, 0, r.fail(fmt.Errorf("reading %s in the record of line %d: %w", r.opt.File, r.line, r.inErr))
	}
	if size > r.opt.MaxRecord {
		return nil, 0, r.tooLarge()
	}
	block, line := r.buf[r.start:r.start+size], r.line
	r.start += used
	r.line += lines
	return block, line, nil
}

// fill reads more behind buf[start:end], which moves to the buffer's start.
func (r *Reader) fill() {
	first := r.buf == nil
	switch {
	case first:
		r.buf = make([]byte, firstBuffer)
	case r.start > 0:
		copy(r.buf, r.buf[r.start:r.end])
		r.end -= r.start
		r.start = 0
	}
	if r.end == len(r.buf) {
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	n := 0
	for tries := 0; n == 0 && r.inErr == nil; tries++ {
		if tries == 100 {
			r.inErr = io.ErrNoProgress
			return
		}
		n, r.inErr = r.in.Read(r.buf[r.end:])
	}
	if first {
		n = r.dropBOM(n)
	}
	r.end += n
}

// dropBOM removes the byte order mark that some editors put before UTF-8.
func (r *Reader) dropBOM(n int) int {
	bom := []byte("\ufeff")
	for n < len(bom) && r.inErr == nil && bytes.HasPrefix(bom, r.buf[:n]) {
		var m int
		m, r.inErr = r.in.Read(r.buf[n:])
		n += m
	}
	return copy(r.buf, bytes.TrimPrefix(r.buf[:n], bom))
}

// tooLarge passes over the record at hand, whose beginning Raw gives.
func (r *Reader) tooLarge() error {
	line := r.line
	r.raw = bytes.Clone(r.buf[r.start:min(r.end, r.start+1024)])
	atLineStart := true
	for {
		have := r.buf[r.start:r.end]
		i := bytes.IndexByte(have, '\n')
		if i < 0 {
			if len(have) > 1 || len(have) == 1 && have[0] != '\r' {
				atLineStart = false
				r.start = r.end
			}
			if r.inErr != nil {
				break
			}
			r.fill()
			continue
		}
		r.start += i + 1
		r.line++
		if atLineStart && blank(have[:i+1]) {
			break
		}
		atLineStart = true
	}
	return &Error{File: r.opt.File, Line: line, Text: fmt.Sprintf("the record is larger than %d bytes; raise the limit or split it", r.opt.MaxRecord)}
}
