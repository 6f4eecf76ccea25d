package bulk

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// A spool keeps records on disk, in the order in which they were added.
type spool struct {
	n int
	f *os.File
	w *bufio.Writer
}

func (s *spool) add(x *item) error {
	if s.f == nil {
		f, err := os.CreateTemp("", "ldapd-import-")
		if err != nil {
			return err
		}
		s.f, s.w = f, bufio.NewWriter(f)
		_ = os.Remove(f.Name()) // on systems where an open file needs no name, a crash then leaves nothing behind
	}
	s.n++
	_, err := s.w.Write(appendWaiting(nil, x))
	return err
}

// appendWaiting appends a record in the form in which a spool stores it: each string after
// its length, and numbers as varints.
func appendWaiting(b []byte, x *item) []byte {
	b = appendText(b, x.file)
	b = appendText(b, x.DN)
	b = binary.AppendUvarint(b, uint64(x.Line))
	b = binary.AppendUvarint(b, uint64(len(x.Attributes)))
	for _, a := range x.Attributes {
		b = appendText(b, a.Description)
		b = binary.AppendUvarint(b, uint64(len(a.Values)))
		for _, v := range a.Values {
			b = appendText(b, v)
		}
	}
	return b
}

func appendText[S string | []byte](b []byte, s S) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// items yields the records of the spool.
func (s *spool) items() iter.Seq2[*item, error] {
	return func(yield func(*item, error) bool) {
		if s.f == nil {
			return
		}
		err := s.w.Flush()
		if err == nil {
			_, err = s.f.Seek(0, io.SeekStart)
		}
		r := &spoolReader{r: bufio.NewReader(s.f), err: err}
		for range s.n {
			x := r.item()
			if r.err != nil {
				yield(nil, r.err)
				return
			}
			if !yield(x, nil) {
				return
			}
		}
	}
}

// A spoolReader reads what appendWaiting has written. It keeps the first error.
type spoolReader struct {
	r   *bufio.Reader
	err error
}

func (r *spoolReader) item() *item {
	x := &item{file: string(r.text()), Record: &ldif.Record{}}
	x.DN, x.Line = string(r.text()), r.number()
	for range r.number() {
		a := op.PartialAttribute{Description: string(r.text())}
		for range r.number() {
			a.Values = append(a.Values, r.text())
		}
		x.Attributes = append(x.Attributes, a)
	}
	return x
}

func (r *spoolReader) text() []byte {
	b := make([]byte, r.number())
	if r.err == nil {
		_, r.err = io.ReadFull(r.r, b)
	}
	return b
}

// number returns 0 after an error.
func (r *spoolReader) number() int {
	if r.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(r.r)
	if r.err = err; err != nil {
		return 0
	}
	return int(n)
}

// close removes the spool's file.
func (s *spool) close() error {
	if s.f == nil {
		return nil
	}
	err := s.f.Close()
	if e := os.Remove(s.f.Name()); !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}
