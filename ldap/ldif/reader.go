package ldif

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// Options are the options of a Reader.
type Options struct {
	// File is the file name that errors contain.
	File string
	// MaxRecord is the largest size in bytes of a record, and of each file that a record
	// refers to. 0 means 64 MiB.
	MaxRecord int
	// AllowFiles allows values from files ("jpegPhoto:< file:///..."). Set it only if the
	// author of the LDIF may read everything that this process may.
	AllowFiles bool
	// AllowEmpty allows entries without attributes.
	AllowEmpty bool
	// Note, if not nil, is called with remarks about what the Reader leaves out.
	Note func(string)
}

const (
	defaultMaxRecord = 64 << 20
	firstBuffer      = 128 << 10
	// maxNames is the largest number of attribute descriptions that are kept for reuse.
	maxNames = 4096
)

// A Reader reads records from a stream. Apart from values that it reads from files, it uses
// memory in proportion to the size of the largest record.
type Reader struct {
	in  io.Reader
	opt Options

	buf    []byte // buf[start:end] was read and is not yet used
	start  int
	end    int
	line   int // number of the line at buf[start], from 1
	inErr  error
	failed error

	raw   []byte
	names map[string]string // attribute descriptions, for reuse

	states, deleted int // see State

	// Memory for the current record, which is reused for the next record.
	parser     parser
	joined     []byte // the current folded line
	lines      []valueLine
	attributes []op.PartialAttribute
}

// NewReader returns a Reader that reads the records of a stream.
func NewReader(in io.Reader, o Options) *Reader {
	if o.MaxRecord <= 0 {
		o.MaxRecord = defaultMaxRecord
	}
	return &Reader{in: in, opt: o, line: 1, names: map[string]string{}}
}

// Read returns the next record, or io.EOF at the end. If Read returns an *Error about a
// record, the next call continues after that record. Any other error is final.
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

// Records yields the results of Read, until the end of the stream or a final error.
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

// Raw returns the text of the record that Read last returned or reported, including
// comments that no blank line separates from the record. If the record is larger than
// MaxRecord, Raw returns only its beginning. The text is valid until the next call of Read.
func (r *Reader) Raw() []byte { return r.raw }

// State returns how many lines had options for the state of replication in 389 Directory Server,
// which exports them for other replicas ("sn;vucsn-5f...: Oakes"). The Reader drops these
// options. It leaves out the values of such lines that were deleted there. Their number is
// deleted.
func (r *Reader) State() (lines, deleted int) { return r.states, r.deleted }

// fail makes all later calls of Read return err.
func (r *Reader) fail(err error) error {
	r.failed = err
	return err
}

// block returns the lines up to the next blank line, and the number of the first line.
// The lines are valid until the next call.
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

// lineAt returns the line at an offset after start, with its newline. The last line of the
// stream may lack the newline. At the end of the stream it returns an empty line. It returns
// false if the record would be too large.
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

// take returns the next bytes, and the number of their first line. The parameter size is the
// number of bytes to return. Then take moves the position of the Reader forward, by as many
// bytes as used says, and by as many lines as lines says.
func (r *Reader) take(size, used, lines int) ([]byte, int, error) {
	if r.inErr != nil && r.inErr != io.EOF && used == r.end-r.start {
		// The failure may have cut the record short, so the record is not returned.
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

// fill moves buf[start:end] to the start of the buffer and reads more after it.
func (r *Reader) fill() {
	switch {
	case r.buf == nil:
		r.buf = make([]byte, firstBuffer)
		r.in = UTF8(r.in)
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
	r.end += n
}

// UTF8 returns a reader of text as UTF-8 without a byte order mark. Some programs of Windows
// write UTF-16, with or without the mark. Neither UTF-8 nor UTF-16 that is LDIF begins with a
// NUL character.
func UTF8(in io.Reader) io.Reader {
	b := bufio.NewReader(in)
	head, _ := b.Peek(3) // an error of Peek is ignored here: Read returns it again
	order := unicode.LittleEndian
	switch {
	case bytes.Equal(head, []byte("\ufeff")):
		_, _ = b.Discard(len(head))
		return b
	case len(head) < 2, !isUTF16(head):
		return b
	case head[0] == 0:
		order = unicode.BigEndian
	}
	return transform.NewReader(b, unicode.UTF16(order, unicode.UseBOM).NewDecoder())
}

// isUTF16 reports whether a text begins with the mark of UTF-16, or with an ASCII character in
// UTF-16.
func isUTF16(head []byte) bool {
	return bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff}) || (head[0] == 0) != (head[1] == 0)
}

// tooLarge skips the current record and keeps its beginning for Raw.
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
