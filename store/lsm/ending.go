package lsm

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// endingFile is a file with an ending as JSON. Pebble accepts a missing log, and a log or a
// manifest that ends early, because a crash may leave these. After an orderly end they would be
// lost commits. So Close writes down how it left these files, and Open compares them.
const endingFile = "ldapd.closed"

// An ending is the state in which Close left the files that Pebble does not check itself.
type ending struct {
	Closed   time.Time
	Manifest endFile
	Logs     []endFile // the logs with commits that are in no table yet, oldest first
}

type endFile struct {
	Name  string
	Since time.Time `json:",omitzero"` // when a log began
	Size  int64
	Sum   uint32 // CRC-32C
}

// keptBegun is the number of logs that are remembered for the ending. Pebble has one log for
// each table in memory, of which there are few (Options.MemTableStopWritesThreshold).
const keptBegun = 32

// endings writes the ending of a store, and compares the files with it.
type endings struct {
	*folder
	begun []endFile // the newest logs, oldest first
}

// began remembers when a log began. Pebble calls it with its lock on commits held.
func (x *endings) began(i pebble.WALCreateInfo) {
	if len(x.begun) == keptBegun {
		x.begun = append(x.begun[:0], x.begun[1:]...)
	}
	x.begun = append(x.begun, endFile{Name: x.o.FS.PathBase(i.Path), Since: time.Now().UTC()})
}

// write writes the ending of a store that was closed in order. The parameter live is the
// number of logs that were in use.
func (x *endings) write(live int) error {
	d, err := pebble.Peek(x.o.Path, x.o.FS)
	if err != nil {
		return err
	}
	e := ending{Closed: time.Now().UTC(), Manifest: endFile{Name: x.o.FS.PathBase(d.ManifestFilename)}}
	e.Logs = x.begun[max(len(x.begun)-live, 0):]
	err = x.measure(&e.Manifest)
	for i := range e.Logs {
		err = errors.Join(err, x.measure(&e.Logs[i]))
	}
	b, jerr := json.MarshalIndent(e, "", " ")
	if err := errors.Join(err, jerr); err != nil {
		return err
	}
	return x.putFile(endingFile, string(b)+"\n")
}

// measure sets the size and the sum of a file.
func (x *endings) measure(f *endFile) error {
	file, err := x.o.FS.Open(x.o.FS.PathJoin(x.o.Path, f.Name))
	if err != nil {
		return err
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	f.Size, err = io.Copy(sum, file)
	f.Sum = sum.Sum32()
	return errors.Join(err, file.Close())
}

// check compares the files with the ending, if there is one. An ending is void if there
// is a newer manifest, because Pebble begins a manifest whenever it opens a store for writing.
// Then the process ended before it removed the ending, or the program was of a version that
// does not know the ending.
func (x *endings) check() error {
	if !x.made || x.o.copied {
		return nil
	}
	f, err := x.o.FS.Open(x.o.FS.PathJoin(x.o.Path, endingFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var e ending
	err = errors.Join(json.NewDecoder(f).Decode(&e), f.Close())
	if err != nil {
		return fmt.Errorf("%w: the file %s: %w: remove it if no other file is missing", table.ErrCorrupt, endingFile, err)
	}
	d, err := pebble.Peek(x.o.Path, x.o.FS)
	if err != nil {
		return err
	}
	switch now := x.o.FS.PathBase(d.ManifestFilename); {
	case younger(now, e.Manifest.Name):
		return nil
	case now != e.Manifest.Name:
		return e.differs(e.Manifest, "marker.manifest... names another one")
	}
	err = x.compare(&e, e.Manifest)
	for _, l := range e.Logs {
		err = errors.Join(err, x.compare(&e, l))
	}
	return err
}

// younger reports whether the number in a manifest's name is larger than in another's.
func younger(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

// compare returns an error if a file is not as it was.
func (x *endings) compare(e *ending, old endFile) error {
	now := old
	switch err := x.measure(&now); {
	case errors.Is(err, os.ErrNotExist):
		return e.differs(old, "it is missing")
	case err != nil:
		return err
	case now.Size != old.Size:
		return e.differs(old, fmt.Sprintf("it has %d bytes, not %d", now.Size, old.Size))
	case now.Sum != old.Sum:
		return e.differs(old, "it has other bytes")
	}
	return nil
}

// differs returns the error for a file that is not as it was.
func (e *ending) differs(f endFile, how string) error {
	what := "list of tables"
	if !f.Since.IsZero() {
		what = "commits since " + f.Since.Format(time.RFC3339)
	}
	return fmt.Errorf("%w: the file %s (%s) was lost or changed after the store was closed at %s: %s: put it back or restore an archive; to go on without what is missing, remove the file %s",
		table.ErrCorrupt, f.Name, what, e.Closed.Format(time.RFC3339), how, endingFile)
}
