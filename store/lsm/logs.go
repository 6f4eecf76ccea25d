package lsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	pebblerecord "github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// asideFolder is the folder to which Pebble's ArchiveCleaner moves obsolete files.
const asideFolder = "archive"

// ErrGap: the log does not contain all writes from a position on. Some writes were not
// kept, or were made without the log, like the writes of a load.
var ErrGap = errors.New("the log has a gap")

// A Position is a position between two batches of the log. Its value is the sequence
// number of the next write in Pebble.
type Position uint64

// A LogBatch is one atomic write in the log. Its bytes are valid until the next LogBatch
// is read.
type LogBatch struct {
	First, Next Position
	Repr        []byte // the batch in Pebble's encoding
}

// keptLogs records the positions at which the finished logs end. It also records the
// place up to which ReadLog has read the newest log.
type keptLogs struct {
	o    *Options
	mu   sync.Mutex
	ends map[wal.NumWAL]Position
	read logPlace
	all  logVolume // volume of the log when it was last read to its end
}

// A logPlace is a place in a log.
type logPlace struct {
	log    wal.NumWAL
	offset int64    // in bytes from the beginning of the file
	next   Position // position at the offset
}

// A logVolume measures the log. If two volumes are equal, nothing was written between
// them.
type logVolume struct {
	at    Position // position up to which the log was read
	bytes uint64
	loads uint64
}

// ReadLog calls f with the batches from a position on, and returns the position behind
// the last batch. It reads all batches that were committed before the call, and perhaps
// some that were committed during the call. All of these batches are durable. ReadLog
// returns ErrGap if the log does not continue at the position.
func (s *Store) ReadLog(ctx context.Context, from Position, f func(LogBatch) error) (next Position, err error) {
	end, volume, err := s.markEnd(ctx, from)
	if err != nil || end == nil {
		return from, s.wrap("read the log", err)
	}
	if err := s.gate.begin(ctx); err != nil {
		return from, err
	}
	defer s.gate.end()
	for range moves {
		if from, err = s.kept.readLogs(ctx, from, end, f); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err == nil {
		volume.at = from
		s.kept.setAll(volume)
	}
	return from, s.wrap("read the log", err)
}

// markEnd writes a marker to the log and waits until the marker is durable. It returns the
// marker, and the volume of the log including the marker. Reading ends at the marker, because a
// record behind it may be half written. Pebble's reader may need seconds to find out whether a
// record is half written or damaged. If the last reading of the log ended at the position from,
// and nothing was written since, markEnd writes nothing and returns no marker.
func (s *Store) markEnd(ctx context.Context, from Position) (marker []byte, v logVolume, err error) {
	if err := s.gate.begin(ctx); err != nil {
		return nil, v, err
	}
	m := s.db.Metrics()
	s.gate.end()
	v = logVolume{at: from, bytes: m.WAL.BytesIn, loads: m.Ingest.Count}
	if s.kept.isAll(v) {
		return nil, v, nil
	}
	// Markers of earlier processes may be in the log too.
	marker = binary.BigEndian.AppendUint64([]byte("end of a part"), rand.Uint64())
	wait, err := s.mark(ctx, func(b *pebble.Batch) error {
		err := b.LogData(marker, nil)
		v.bytes += uint64(b.Len())
		return err
	})
	if err == nil {
		err = wait()
	}
	return marker, v, err
}

// isAll reports whether v is the volume that the log had when it was last read to its
// end.
func (k *keptLogs) isAll(v logVolume) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all == v
}

func (k *keptLogs) setAll(v logVolume) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = v
}

// The constant moves is the largest number of attempts to read the logs. An attempt can fail
// because Pebble may move a log while it is read.
const moves = 5

// readLogs reads the logs up to a marker. In all other ways it is like ReadLog.
func (k *keptLogs) readLogs(ctx context.Context, from Position, marker []byte, f func(LogBatch) error) (next Position, err error) {
	logs, err := k.allLogs()
	if err != nil {
		return from, err
	}
	for i, l := range logs {
		if err := context.Cause(ctx); err != nil {
			return from, err
		}
		if end, known := k.end(l.Num); known && end <= from {
			continue
		}
		newest := i == len(logs)-1
		end, err := k.readOne(l, &from, marker, f)
		if errors.Is(err, errMarker) {
			return from, nil
		}
		if err != nil {
			return from, err
		}
		if !newest {
			k.note(l.Num, end)
		}
	}
	return from, nil
}

// readOne reads one log from the position *next on, advances *next, and returns the
// position at which the log ends. If it finds the marker, it returns errMarker. If *next
// is not before the position at which the last reading of the log ended, readOne begins
// there. An archive reads a log in many pieces. Without the recorded place, the reading
// of each piece would begin at the start of the log.
func (k *keptLogs) readOne(l wal.LogicalLog, next *Position, marker []byte, f func(LogBatch) error) (end Position, err error) {
	from := k.place(l.Num, *next)
	r, err := openLog(l, from.offset)
	if err != nil {
		return 0, err
	}
	defer func() {
		k.reached(from)
		err = errors.Join(err, r.Close())
	}()
	end = from.next
	for {
		repr, err := r.next()
		switch {
		case err == io.EOF, pebblerecord.IsInvalidRecord(err):
			return end, nil // the log ends, possibly with an incomplete record
		case err != nil:
			return end, err
		}
		h, ok := batchrepr.ReadHeader(repr)
		if !ok {
			return end, fmt.Errorf("%w: a record of the log %s without a header", table.ErrCorrupt, l)
		}
		if h.Count == 0 { // a marker
			if bytes.HasSuffix(repr, marker) {
				return end, errMarker
			}
			continue
		}
		b := LogBatch{First: Position(h.SeqNum), Next: Position(h.SeqNum) + Position(h.Count), Repr: repr}
		if end = b.Next; end > *next {
			if b.First != *next || isIngest(b.Repr) {
				return end, fmt.Errorf("%w from %d to %d", ErrGap, *next, b.First)
			}
			if err := f(b); err != nil {
				return end, err
			}
			*next = b.Next
		}
		from.offset, from.next = r.offset(), end
	}
}

// errMarker reports that the marker was found, which ends the reading of the log.
var errMarker = errors.New("the marker is reached")

// A logReader reads the records of a log.
type logReader struct {
	vfs.File
	begin int64 // offset in the file at which the embedded Reader begins to read
	*pebblerecord.Reader
	buf bytes.Buffer
}

// logBlock is the size of the blocks of a log. A record may begin and end anywhere, but its
// parts do not cross the ends of blocks, so reading can begin at any block.
const logBlock = 32 << 10

// openLog opens a log for reading from the beginning of the block that contains an
// offset.
func openLog(l wal.LogicalLog, offset int64) (*logReader, error) {
	if n := l.NumSegments(); n != 1 { // Pebble makes several files only with WALFailover
		return nil, fmt.Errorf("the log %s has %d files", l, n)
	}
	fs, path := l.SegmentLocation(0)
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	begin := offset / logBlock * logBlock
	rest := io.NewSectionReader(f, begin, math.MaxInt64-begin)
	return &logReader{File: f, begin: begin, Reader: numbered(pebblerecord.NewReader, rest, uint64(l.Num))}, nil
}

// numbered calls NewReader of package record, whose second parameter has an internal type.
func numbered[N ~uint64](newReader func(io.Reader, N) *pebblerecord.Reader, r io.Reader, log uint64) *pebblerecord.Reader {
	return newReader(r, N(log))
}

// next returns the next record. The record is valid until next is called again.
func (r *logReader) next() ([]byte, error) {
	rec, err := r.Reader.Next()
	if err != nil {
		return nil, err
	}
	r.buf.Reset()
	_, err = io.Copy(&r.buf, rec)
	return r.buf.Bytes(), err
}

// offset returns the offset in the file at which the last record ends.
func (r *logReader) offset() int64 { return r.begin + r.Reader.Offset() }

// isIngest reports whether a batch refers to files and contains no writes itself.
func isIngest(repr []byte) bool {
	r := batchrepr.Read(repr)
	kind, _, _, ok, _ := r.Next()
	return ok && (kind == pebble.InternalKeyKindIngestSST || kind == pebble.InternalKeyKindExcise)
}

// allLogs returns the logs in use and the kept logs, oldest first. Pebble may move a log
// during the call.
func (k *keptLogs) allLogs() (wal.Logs, error) {
	inUse, err := wal.Scan(wal.Dir{FS: k.o.FS, Dirname: k.o.Path})
	if err != nil {
		return nil, err
	}
	aside, err := k.asideLogs()
	for _, l := range inUse {
		if _, moved := aside.Get(l.Num); !moved {
			aside = append(aside, l)
		}
	}
	slices.SortFunc(aside, func(a, b wal.LogicalLog) int { return int(a.Num) - int(b.Num) })
	return aside, err
}

func (k *keptLogs) aside() string { return k.o.FS.PathJoin(k.o.Path, asideFolder) }

func (k *keptLogs) end(n wal.NumWAL) (Position, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	end, ok := k.ends[n]
	return end, ok
}

// place returns a place in a log from which to read the batches behind a position. It is
// the place at which the last reading ended, if this place is not behind the position.
// Otherwise it is the beginning of the log.
func (k *keptLogs) place(n wal.NumWAL, next Position) logPlace {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.read.log == n && k.read.next <= next {
		return k.read
	}
	return logPlace{log: n}
}

// reached records how far a log has been read.
func (k *keptLogs) reached(p logPlace) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read = p
}

func (k *keptLogs) forget(n wal.NumWAL) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.ends, n)
}

func (k *keptLogs) note(n wal.NumWAL, end Position) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ends == nil {
		k.ends = map[wal.NumWAL]Position{}
	}
	k.ends[n] = end
}

// mark commits the batch that fill fills. The batch must change no table.
func (s *Store) mark(ctx context.Context, fill func(*pebble.Batch) error) (wait func() error, err error) {
	if err := s.gate.beginWrite(ctx, true); err != nil {
		return nil, err
	}
	defer s.gate.endWrite()
	b := s.db.NewBatch()
	if err := fill(b); err != nil {
		return nil, err
	}
	return s.commits.take(b)
}

// ReleaseLogs removes the kept logs that ReadLog has read and that end at or before a position.
func (s *Store) ReleaseLogs(upTo Position) error {
	return s.wrap("remove logs", s.kept.remove(func(n wal.NumWAL) bool {
		end, known := s.kept.end(n)
		return known && end <= upTo
	}))
}

// LimitLogs removes the oldest kept logs until the total size of the remaining logs is at
// most maxSize bytes. It reports whether it removed any log.
func (s *Store) LimitLogs(maxSize int64) (removed bool, err error) {
	logs, err := s.kept.asideLogs()
	if err != nil {
		return false, s.wrap("limit the logs", err)
	}
	var size int64
	for _, l := range slices.Backward(logs) {
		n, err := l.PhysicalSize()
		if err != nil {
			return removed, s.wrap("limit the logs", err)
		}
		if size += int64(n); size <= maxSize {
			continue
		}
		removed = true
		if err := s.kept.removeLog(l); err != nil {
			return removed, s.wrap("limit the logs", err)
		}
	}
	return removed, nil
}

// asideLogs returns the kept logs.
func (k *keptLogs) asideLogs() (wal.Logs, error) {
	logs, err := wal.Scan(wal.Dir{FS: k.o.FS, Dirname: k.aside()})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return logs, err
}

func (k *keptLogs) remove(gone func(wal.NumWAL) bool) error {
	logs, err := k.asideLogs()
	for _, l := range logs {
		if gone(l.Num) {
			err = errors.Join(err, k.removeLog(l))
		}
	}
	return err
}

func (k *keptLogs) removeLog(l wal.LogicalLog) (err error) {
	k.forget(l.Num)
	for i := range l.NumSegments() {
		fs, path := l.SegmentLocation(i)
		err = errors.Join(err, fs.Remove(path))
	}
	return err
}

// drop removes all kept logs if Options.KeepLogs is not set.
func (k *keptLogs) drop() error {
	if k.o.ReadOnly || k.o.KeepLogs {
		return nil
	}
	err := k.o.FS.RemoveAll(k.aside())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// isAside reports whether the second parameter is the name of a file in the archive folder.
// Pebble renames an obsolete file to such a name instead of deleting the file.
func isAside(fs vfs.FS, to string) bool { return fs.PathBase(fs.PathDir(to)) == asideFolder }

// setAside keeps a log and removes any other obsolete file.
func (d *disk) setAside(from, to string) error {
	if strings.HasSuffix(to, ".log") {
		return d.FS.Rename(from, to)
	}
	return d.FS.Remove(from)
}
