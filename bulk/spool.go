package bulk

import (
	"bufio"
	"encoding/gob"
	"errors"
	"io"
	"iter"
	"os"

	"github.com/seed-4dac0d86/ldapd/ldif"
	"github.com/seed-4dac0d86/ldapd/op"
)

// A spool keeps waiting records on disk, in the order in which they were added.
type spool struct {
	n   int
	f   *os.File
	w   *bufio.Writer
	enc *gob.Encoder
}

// waiting is the form in which a spool writes a record.
type waiting struct {
	File, DN   string
	Line       int
	Attributes []op.PartialAttribute
}

func (s *spool) add(x *item) error {
	if s.f == nil {
		f, err := os.CreateTemp("", "ldapd-import-")
		if err != nil {
			return err
		}
		s.f, s.w = f, bufio.NewWriter(f)
		s.enc = gob.NewEncoder(s.w)
	}
	s.n++
	return s.enc.Encode(waiting{x.file, x.DN, x.Line, x.Attributes})
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
		dec := gob.NewDecoder(bufio.NewReader(s.f))
		for range s.n {
			var w waiting
			if err == nil {
				err = dec.Decode(&w)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			rec := &ldif.Record{Line: w.Line, DN: w.DN, Attributes: w.Attributes}
			if !yield(&item{Record: rec, file: w.File}, nil) {
				return
			}
		}
	}
}

// close removes the spool's file.
func (s *spool) close() error {
	if s.f == nil {
		return nil
	}
	return errors.Join(s.f.Close(), os.Remove(s.f.Name()))
}
