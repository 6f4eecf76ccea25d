// Package bulk takes LDIF files into a directory and a directory out into them.
//
// [Import] reads files of entries (content records, RFC 2849) through a
// transfer.Loader, on all cores, all visible at once or not at all; files of
// changes go through ordinary transactions. [Send] gives either to a running
// server over LDAP. [Export] writes entries in the order of the tree, such that
// Import makes the same directory of them: ids, timestamps and names included.
//
// Files are plain, or compressed by gzip or zstd, which their first bytes tell.
// What other servers export loads as it is: see [Foreign] for what is left out,
// and entries that stand before their parent wait for it, as in files by
// slapcat, which are in the order of the database.
//
// A bad record is an *ldif.Error that says where it stands and what is wrong.
// Unless told to go on, an import reads to the end, reports every bad record and
// leaves nothing behind.
package bulk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/seed-4dac0d86/ldapd/ldif"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Options of Import and Send.
type Options struct {
	// Files to read, in this order; "-" is Stdin.
	Files []string
	Stdin io.Reader
	// Open opens one of Files; nil: os.Open. Size, which counts with an Open, is
	// how many bytes all of them have; 0: unknown.
	Open func(name string) (*os.File, error)
	Size int64
	// Suffixes become naming contexts. Of a store without any, the first entry
	// is one.
	Suffixes []string
	// By is who creates entries that do not say it themselves.
	By partition.By
	// Continue goes on behind bad records. They are written to the file
	// Rejects, each under a comment that says what is wrong; "" is RejectsOf
	// Files. Create makes it; nil: CreateRejects.
	Continue bool
	Rejects  string
	Create   func(name string) (*os.File, error)
	// DropDuplicates drops values that an entry has twice by its schema; otherwise
	// they are an error.
	DropDuplicates bool
	// AllowFiles lets values come from files (package ldif).
	AllowFiles bool
	// Report gets every bad record, Note what else should be known. Both are
	// called by one goroutine at a time.
	Report func(*ldif.Error)
	Note   func(string)
	// Progress, if given, is told how far the work is.
	Progress *Progress
	// Workers is how many goroutines prepare entries; 0: one a core.
	Workers int
	// Memory is as in transfer.LoadOptions.
	Memory int64
}

func (o Options) withDefaults() Options {
	if o.Report == nil {
		o.Report = func(*ldif.Error) {}
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.Progress == nil {
		o.Progress = &Progress{}
	}
	if o.Rejects == "" {
		o.Rejects = RejectsOf(o.Files)
	}
	if o.Open == nil {
		o.Open, o.Size = os.Open, SizeOf(o.Files)
	}
	if o.Create == nil {
		o.Create = func(name string) (*os.File, error) { return CreateRejects(name, o.Files) }
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	return o
}

// Result says what was done.
type Result struct {
	Done     int // records that took effect
	Bad      int // records that did not
	Revision table.Revision
}

// ErrBad is what an import ends with that met bad records, all of which Report
// has got.
var ErrBad = errors.New("bad records")

// A refusal is an ErrBad in words.
type refusal struct{ text string }

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return ErrBad }

// ended returns the error for a number of bad records.
func (o *Options) ended(r Result) error {
	switch {
	case r.Bad == 0:
		return nil
	case o.Continue:
		return &refusal{fmt.Sprintf("%s bad, written to %s: mend and import that file", records(r.Bad), o.Rejects)}
	}
	return &refusal{fmt.Sprintf("%s bad, so nothing was imported: mend them, or use --continue to go on without them", records(r.Bad))}
}

func records(n int) string {
	if n == 1 {
		return "1 record is"
	}
	return fmt.Sprintf("%d records are", n)
}
