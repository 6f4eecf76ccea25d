package bulk

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
)

// ExportOptions are the options of Export.
type ExportOptions struct {
	Base     dn.DN         // only the subtree of this entry; empty: everything
	Filter   filter.Filter // nil: every entry
	NoSchema bool          // leave out the definitions that are not built in
	NoConfig bool          // leave out the other configuration that servers share
	// NoSecrets leaves out passwords and other secrets.
	NoSecrets bool
	Progress  *Progress
	// Lost, if not nil, is called for every part of a damaged store that cannot be read.
	// If it returns nil, the export continues. Lost requires that Base and Filter are
	// empty.
	Lost func(what string, err error) error
}

// Export writes the entries of a snapshot as LDIF, each entry before its children. It writes
// all attributes that are stored, including operational attributes and, unless NoSecrets is
// set, userPassword. Unless NoSchema is set, the first record is the differences of the schema
// from the built-in schema, if there are any. If Base and Filter are empty and NoConfig is not
// set, the next record is the configuration that servers share.
func Export(ctx context.Context, p *partition.Partition, s *partition.Snapshot, w io.Writer, o ExportOptions) (int, error) {
	at, err := s.Find(ctx, o.Base)
	if err != nil {
		return 0, err
	}
	q := partition.Query{Base: at.ID, Scope: op.WholeSubtree, Filter: filter.Const(filter.True), Secrets: !o.NoSecrets}
	if o.Filter != nil {
		q.Filter = filter.Resolve(o.Filter, s.Schema())
	}
	if o.Progress == nil {
		o.Progress = &Progress{}
	}
	out := ldif.NewWriter(w)
	if err := out.WriteVersion(); err != nil {
		return 0, err
	}
	if !o.NoSchema {
		if err := writeDefinitions(out, s); err != nil {
			return 0, err
		}
	}
	if !o.NoConfig && len(o.Base) == 0 && o.Filter == nil {
		if err := writeConfiguration(ctx, out, s); err != nil {
			return 0, err
		}
	}
	entries := search.Walk(ctx, s, q)
	if o.Lost != nil {
		entries = verify.Salvage(ctx, s, o.Lost)
	}
	n := 0
	for r, err := range entries {
		if err != nil {
			return n, err
		}
		if err := out.WriteEntry(r.Name.String(), r.Entry.Attributes); err != nil {
			return n, err
		}
		n++
		o.Progress.entries.Add(1)
	}
	return n, out.Flush()
}

// CreateFile creates a file, which is compressed if its name ends in .gz or .zst. The
// file has a temporary name until finish is called with a nil error.
func CreateFile(name string) (w io.Writer, finish func(error) error, err error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".part-")
	if err != nil {
		return nil, nil, err
	}
	c, err := compress(f, name)
	if err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, nil, err
	}
	return c, func(err error) error { return finishFile(f, c, name, err) }, nil
}

func finishFile(f *os.File, c io.WriteCloser, name string, err error) error {
	if err == nil {
		err = c.Close()
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("%s was not written: %w", name, err)
	}
	return nil
}

// plain is a writer whose Close does nothing.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }

func compress(w io.Writer, name string) (io.WriteCloser, error) {
	switch {
	case strings.HasSuffix(name, ".gz"):
		return gzip.NewWriter(w), nil
	case strings.HasSuffix(name, ".zst"):
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return plain{w}, nil
}
