// Package bulk imports LDIF files into a directory, and exports a directory into them.
//
// [Import] loads files of entries (content records, RFC 2849) through a transfer.Loader,
// on all cores. They become visible all at once or not at all. Files of changes go
// through ordinary transactions. [Send] sends either kind to a running server over LDAP.
// [Export] writes entries in tree order, such that Import makes the same directory of
// them, including ids, timestamps and names.
//
// Files are plain, or compressed by gzip or zstd, which is detected from their first
// bytes. Exports of other servers can be loaded unchanged: see [Foreign] for what is left
// out. Entries that come before their parents wait for these. Files by slapcat need that,
// as they are in database order.
//
// A bad record is reported as an *ldif.Error with its position and what is wrong. Unless
// Continue is set, an import reads to the end, reports every bad record and leaves
// nothing behind.
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
	// Files are the files to read, in this order; "-" is Stdin.
	Files []string
	Stdin io.Reader
	// Open opens one of Files; nil: os.Open. If Open is set, Size is the size of all
	// files in bytes; 0: unknown.
	Open func(name string) (*os.File, error)
	Size int64
	// Suffixes become naming contexts. If the store has none, the first entry becomes
	// one.
	Suffixes []string
	// By is the creator of entries that do not name one.
	By partition.By
	// Continue continues after bad records. It writes them to the file Rejects, each
	// after a comment that says what is wrong; "" is RejectsOf Files. Create creates the
	// file; nil: CreateRejects.
	Continue bool
	Rejects  string
	Create   func(name string) (*os.File, error)
	// DropDuplicates drops values that an entry has twice according to the schema.
	// Otherwise they are an error.
	DropDuplicates bool
	// AllowFiles lets values come from files (package ldif).
	AllowFiles bool
	// Report receives every bad record, and Note other remarks. Only one goroutine calls
	// them at a time.
	Report func(*ldif.Error)
	Note   func(string)
	// Progress, if not nil, shows the progress.
	Progress *Progress
	// Workers is the number of goroutines that prepare entries; 0: one for each core.
	Workers int
	// Memory is that of transfer.LoadOptions.
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

// Result is the result of an import.
type Result struct {
	Done     int // records that took effect
	Bad      int // records that did not
	Revision table.Revision
}

// ErrBad is the error of an import with bad records. Report has received all of them.
var ErrBad = errors.New("bad records")

// A refusal is an ErrBad with a text.
type refusal struct{ text string }

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return ErrBad }

// ended returns the error for the number of bad records.
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
