// Package bulk imports LDIF files into a directory, and exports a directory to LDIF
// files.
//
// [Import] loads files of entries (content records, RFC 2849) through a transfer.Loader, on all
// cores. Unless Options.Batches or Options.Branch is set, the imported entries become visible
// together. Import applies files of changes in ordinary transactions. [Send] sends
// files of either kind to a running server over LDAP. [Export] writes entries in tree order. An
// import of an export restores the same directory, including ids, timestamps and names.
//
// Files are plain text, or compressed by gzip or zstd. The package detects the
// compression from a file's first bytes. Exports of other servers can be loaded
// unchanged; [Foreign] lists the attributes that are left out. An entry that is read
// before its parent waits for the parent. The files of slapcat need this, because they
// are in database order.
//
// A bad record is reported as an *ldif.Error with its position and what is wrong. Unless
// Continue, Branch or Batches is set, [Import] reads files with bad records to their end,
// reports every bad record, and imports nothing.
package bulk

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"sync"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Options are the options of Import and Send.
type Options struct {
	// Files are the files to read, in this order. The name "-" means Stdin.
	Files []string
	Stdin io.Reader
	// Open opens a file of Files; nil means os.Open. If Open is set, Size must be the
	// size of all files in bytes, or 0 if it is unknown.
	Open func(name string) (*os.File, error)
	Size int64
	// Suffixes become naming contexts. If neither the store nor Suffixes has a naming context,
	// an import of entries makes the name of the first entry a naming context. Send ignores
	// Suffixes.
	Suffixes []string
	// By is the author of the changes, and the creator of entries that do not name their
	// creator.
	By partition.By
	// Continue makes an import continue after bad records. The import writes each bad record
	// to the file Rejects, after a comment that says what is wrong. If Rejects is "",
	// RejectsOf returns the file's name. Create creates the file; if Create is nil,
	// CreateRejects does.
	Continue bool
	Rejects  string
	Create   func(name string) (*os.File, error)
	// DropDuplicates drops values that the schema considers equal to another value of
	// the same attribute. Without DropDuplicates, equal values are an error.
	DropDuplicates bool
	// Concurrent is set if others write to the directory through the same partition. Import then
	// adds entries to a new branch and merges the branch, instead of loading them. It does the
	// same without Concurrent if other servers of the store, or branches of the directory, prevent a
	// load. If Batches is set, Import uses no branch in these cases: it adds the entries in
	// batches, and each batch is a transaction that becomes visible by itself. If Together is set,
	// Import loads all entries at once, or returns an error if a load is not possible. Callers
	// must not set Together with Concurrent or Batches.
	Concurrent, Batches, Together bool
	// Branch, if not nil, is a branch that takes the records. They become visible when the
	// branch is merged. Callers must leave Suffixes empty then. An import of changes without
	// Continue stops at the batch of the first bad record, and leaves the batches before it in
	// the branch. An import of entries adds nothing to the branch if a record is malformed or
	// of a kind that cannot be imported into a branch. If the branch refuses some entries, the
	// import leaves all other entries in the branch.
	Branch *branch.Branch
	// AllowFiles allows values that are read from files (see package ldif).
	AllowFiles bool
	// Report is called with every bad record, and Note with every other remark. Neither
	// of them is called by two goroutines at once.
	Report func(*ldif.Error)
	Note   func(string)
	// Summary is called once, at the end, if records were bad.
	Summary func(*Summary)
	// Progress, if not nil, shows the progress of the import.
	Progress *Progress
	// Workers is the number of goroutines that prepare entries; 0 means one for each
	// core.
	Workers int
	// Memory is passed on as the field Memory of transfer.LoadOptions.
	Memory int64

	entries iter.Seq[*ldif.Record] // the records, instead of Files
}

func (o Options) withDefaults() Options {
	if o.Summary == nil {
		o.Summary = func(*Summary) {}
	}
	if o.Report == nil {
		o.Report = func(*ldif.Error) {}
	}
	if note := o.Note; note == nil {
		o.Note = func(string) {}
	} else {
		var mu sync.Mutex
		o.Note = func(text string) {
			mu.Lock()
			defer mu.Unlock()
			note(text)
		}
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
	There    int // entries that were skipped because the store has them already
	Bad      int // records that had no effect because they are bad
	Revision table.Revision

	entries bool // the records were entries, not changes
	staged  bool // entries are in a branch that was not merged
}

// ErrBad is the error of an import with bad records. Report has received each bad
// record.
var ErrBad = errors.New("bad records")

var (
	// ErrOrder is wrapped by the error of an import whose first entry became the naming context
	// although a later one is above it.
	ErrOrder = load.ErrOrder
	// ErrStopped is wrapped by the error of an import that ended at bad records, or because its
	// context ended. Another import with Options.Continue imports the other records.
	ErrStopped = errors.New("stopped before the end")
	// ErrTogether is the error of changes that are too many for one transaction. Options.Continue
	// applies them one by one.
	ErrTogether = fmt.Errorf("more than %d MiB of changes are too many to take effect together: import them into a branch and merge it, or split the file", maxChanges>>20)
)

// A refusal is an error that wraps others but has a text of its own.
type refusal struct {
	text string
	is   []error
}

func (e *refusal) Error() string   { return e.text }
func (e *refusal) Unwrap() []error { return e.is }

// bad returns an error that wraps ErrBad and more.
func bad(text string, more ...error) error { return &refusal{text, append(more, ErrBad)} }

// The method "ended" returns the error of an import with the result r, or nil if no record was
// bad.
func (o *Options) ended(r Result) error {
	switch {
	case r.Bad == 0:
		return nil
	case o.Branch != nil && !o.Continue && r.entries && r.Done == 0:
		return bad(fmt.Sprintf("%s bad, so nothing was imported into the branch %s: mend them", records(r.Bad), o.Branch.Name()))
	case o.Branch != nil && !o.Continue && r.entries:
		return bad(fmt.Sprintf("%s bad; the other %d are in the branch %s: mend and import those, or discard the branch", records(r.Bad), r.Done, o.Branch.Name()))
	case o.Branch != nil && !o.Continue:
		return bad(fmt.Sprintf("%s bad; %d before are in the branch %s: mend the rest and import it, or discard the branch", records(r.Bad), r.Done, o.Branch.Name()))
	case r.Done > 0 && !o.Continue:
		return bad(fmt.Sprintf("%s bad because others changed the directory during the import; the other %d are imported", records(r.Bad), r.Done))
	case o.Continue:
		return bad(fmt.Sprintf("%s bad, written to %s: mend and import that file", records(r.Bad), o.Rejects))
	}
	return bad(fmt.Sprintf("%s bad, so nothing was imported: correct them", records(r.Bad)), ErrStopped)
}

func records(n int) string {
	if n == 1 {
		return "1 record is"
	}
	return fmt.Sprintf("%d records are", n)
}
