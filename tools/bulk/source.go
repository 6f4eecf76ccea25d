package bulk

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// stdin is the file name of the standard input.
const stdin = "-"

// counted counts the bytes that are read from a file, before decompression.
type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// open opens a file, and decompresses it if it is compressed.
func (o *Options) open(name string) (io.Reader, func(), error) {
	var in io.Reader = o.Stdin
	closeFile := func() {}
	if name != stdin {
		f, err := o.Open(name)
		if err != nil {
			return nil, nil, err
		}
		in, closeFile = f, func() { f.Close() }
	}
	r, closeReader, err := decompress(counted{in, &o.Progress.bytes})
	if err != nil {
		closeFile()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, func() { closeReader(); closeFile() }, nil
}

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

func decompress(in io.Reader) (io.Reader, func(), error) {
	b := bufio.NewReaderSize(in, 256<<10)
	head, _ := b.Peek(4) // an error of Peek is ignored here: Read returns it again
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		z, err := gzip.NewReader(b)
		return z, func() {}, err
	case bytes.HasPrefix(head, zstdMagic):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(512<<20))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return b, func() {}, nil
}

// SizeOf returns the total size of files in bytes, or 0 if the size is unknown.
func SizeOf(files []string) (n int64) {
	for _, name := range files {
		info, err := os.Stat(name)
		if name == stdin || err != nil || !info.Mode().IsRegular() {
			return 0
		}
		n += info.Size()
	}
	return n
}

// An item is a record with its position, or the reason why it cannot be read.
type item struct {
	*ldif.Record
	file string
	bad  *ldif.Error
	cut  bool // the file cannot be opened, or not be read to its end
	// raw is the text of the record. It is set for a file's first records, and for bad
	// records that will be written to Rejects.
	raw []byte
}

// heads is the largest number of records in a head.
const heads = 2

// The method "changes" reports whether the record is a change. If the first record of the first
// file is a change, all files are read as files of changes.
func (x *item) changes() bool { return x.Record != nil && x.Change != nil }

// items yields the records of all files. If reading a file fails, the last item of that
// file is a bad item. It leaves out, with a note, entries that were deleted at the old server,
// which keeps them for its replication.
func (o *Options) items() iter.Seq[item] {
	return func(yield func(item) bool) {
		deleted := 0
		defer func() {
			if deleted > 0 {
				o.Note(fmt.Sprintf("%d entries that were deleted at the old server are left out", deleted))
			}
		}()
		every := yield
		yield = func(x item) bool {
			if x.deleted() {
				deleted++
				return true
			}
			return every(x)
		}
		if o.entries != nil {
			for rec := range o.entries {
				if !yield(item{Record: rec}) {
					return
				}
			}
			return
		}
		for _, name := range o.Files {
			if !o.file(name, yield) {
				return
			}
		}
	}
}

func (o *Options) file(name string, yield func(item) bool) bool {
	in, done, err := o.open(name)
	if err != nil {
		return yield(item{file: name, bad: unreadable(name, 1, err), cut: true})
	}
	defer done()
	label := name
	if name == stdin {
		label = "standard input"
	}
	r := ldif.NewReader(in, ldif.Options{File: label, AllowFiles: o.AllowFiles, Note: o.Note})
	line, n := 1, 0
	for rec, err := range r.Records() {
		x := item{Record: rec, file: label}
		if n++; n <= heads {
			x.raw = bytes.Clone(r.Raw())
		}
		switch {
		case err == nil:
			line = rec.Line
		case !errors.As(err, &x.bad):
			x.bad, x.cut = unreadable(label, line, err), true
		case o.Continue:
			x.raw = bytes.Clone(r.Raw())
		}
		if !yield(x) {
			return false
		}
	}
	if state, deleted := r.State(); state > 0 {
		o.Note(fmt.Sprintf("%s: the state of replication of 389 Directory Server is left out, with %d values that were deleted there", label, deleted))
	}
	return true
}

// The method "deleted" reports whether a record is an entry that was deleted at the server that
// wrote it: a tombstone of 389 Directory Server, Active Directory or ApacheDS, or an entry that
// PingDirectory keeps to be undeleted.
func (x *item) deleted() bool {
	if x.Record == nil {
		return false
	}
	if _, adds := x.Change.(*op.Add); x.Change != nil && !adds {
		return false
	}
	for a := range x.descriptions() {
		switch {
		case strings.EqualFold(a.Description, "objectClass"):
			for _, v := range a.Values {
				if strings.EqualFold(string(v), "nsTombstone") || strings.EqualFold(string(v), "ds-soft-delete-entry") {
					return true
				}
			}
		case (strings.EqualFold(a.Description, "isDeleted") || strings.EqualFold(a.Description, "entryDeleted")) && isTrue(a.Values):
			return true
		}
	}
	return false
}

// unreadable returns the error for a file that cannot be opened or cannot be read to its
// end, for example because it is cut short or damaged.
func unreadable(name string, line int, err error) *ldif.Error {
	text := err.Error()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		text = "the compressed file is cut short somewhere after this line: copy it again"
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, zstd.ErrCRCMismatch):
		text = "the compressed file is damaged somewhere after this line: copy it again"
	}
	return &ldif.Error{File: name, Line: line, Text: text}
}

// wrong returns err as an ldif.Error with the position of the record.
func (x *item) wrong(err error) *ldif.Error {
	var e *ldif.Error
	if errors.As(err, &e) {
		return e
	}
	return &ldif.Error{File: x.file, Line: x.Line, DN: x.DN, Text: err.Error()}
}

// misplaced returns the error for a change in a file of entries.
func (x *item) misplaced() error {
	return x.wrong(errors.New("a change among entries: put changes into a file of their own and import it afterwards"))
}

// size returns the approximate size of a record in bytes.
func (x *item) size() int {
	n := len(x.raw)
	count := func(a *op.PartialAttribute) {
		for _, v := range a.Values {
			n += len(v)
		}
	}
	if x.Record == nil {
		return n
	}
	attributes := x.Attributes
	switch c := x.Change.(type) {
	case *op.Add:
		attributes = c.Attributes
	case *op.Modify:
		for i := range c.Changes {
			count(&c.Changes[i].PartialAttribute)
		}
	}
	for i := range attributes {
		count(&attributes[i])
	}
	return n
}
