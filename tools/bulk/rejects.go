package bulk

import (
	"errors"
	"fmt"
	"os"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// The type "rejects" counts and reports bad records. If Continue is set and the records come
// from files, it also writes the bad records to a file.
type rejects struct {
	o   *Options
	n   int
	f   *os.File
	w   *ldif.Writer
	err error // error of writing the file

	schema  func() *schema.Schema // the schema in force; nil: not known
	summary *Summary              // nil if n is 0
}

// add adds one bad record. The error says why it is bad.
func (r *rejects) add(x *item, err error) {
	bad := x.wrong(err)
	if r.n++; r.n == 1 {
		r.summary = newSummary()
	}
	var s *schema.Schema
	if r.schema != nil {
		s = r.schema()
	}
	r.summary.add(x, err, s)
	r.o.Report(bad)
	if r.o.Continue && r.o.entries == nil && r.err == nil {
		r.err = r.write(x, bad)
	}
}

func (r *rejects) write(x *item, bad *ldif.Error) error {
	if r.f == nil {
		if err := r.create(); err != nil {
			return err
		}
	}
	if err := r.w.WriteComment(bad.Error()); err != nil {
		return err
	}
	if x.Record != nil {
		return r.w.Write(x.Record)
	}
	// A record that could not be parsed is written unchanged.
	if err := r.w.Flush(); err != nil {
		return err
	}
	_, err := r.f.Write(x.raw)
	return err
}

func (r *rejects) create() (err error) {
	if r.f, err = r.o.Create(r.o.Rejects); err == nil {
		r.w = ldif.NewWriter(r.f)
	}
	return err
}

// RejectsOf returns the name of the file to which the bad records of files are written.
func RejectsOf(files []string) string {
	if len(files) == 0 || files[0] == stdin {
		return "stdin.rejects"
	}
	return files[0] + ".rejects"
}

// CreateRejects creates the file to which the bad records of files are written. It
// returns an error if rejects is one of these files.
func CreateRejects(rejects string, files []string) (*os.File, error) {
	for _, name := range files {
		if a, err := os.Stat(name); err == nil {
			if b, err := os.Stat(rejects); err == nil && os.SameFile(a, b) {
				return nil, fmt.Errorf("rejects cannot be written to %s, which is being read", rejects)
			}
		}
	}
	return os.OpenFile(rejects, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600) // records may have passwords
}

// flush writes what is buffered to the file. Its error means that bad records may be
// missing in the file.
func (r *rejects) flush() error {
	if r.f == nil {
		return r.err
	}
	return errors.Join(r.err, r.w.Flush())
}

// close reports the summary and closes the file. Its error means that bad records may be missing
// in the file.
func (r *rejects) close() error {
	if r.n > 0 {
		r.o.Summary(r.summary)
	}
	if r.f == nil {
		return r.err
	}
	return errors.Join(r.err, r.w.Flush(), r.f.Close())
}
