package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Mark is the number of the last change of the commits up to a revision. The decided commits
// between two marks never change, so every server that counts them writes the same marks.
type Mark struct {
	Revision table.Revision
	Number   uint64
}

var numbersRow = []byte("numbers")

func markKey(r table.Revision) []byte {
	return binary.BigEndian.AppendUint64(bytes.Clone(numbersRow), uint64(r))
}

// Weight returns the number of changes that a commit counts for: one for each thing that it
// changed, and none if it changed only hot attributes.
func (rec *Record) Weight() uint64 {
	switch {
	case !rec.AllChanged && len(rec.IDs) > 0:
		return uint64(len(rec.IDs))
	case rec.AllChanged || len(rec.Message) > 0:
		return 1
	}
	return 0
}

func (m Mark) value() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(m.Revision)), m.Number)
}

func decodeMark(b []byte) (Mark, error) {
	if len(b) != 16 {
		return Mark{}, table.ErrCorrupt
	}
	return Mark{table.Revision(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:])}, nil
}

// FirstMark returns the mark from which on the journal has all commits, or nil if changes are
// not counted yet.
func (l *Log) FirstMark(ctx context.Context) (*Mark, error) {
	b, err := read(ctx, l.cluster, numbersRow, clusterFamily, archiveColumn)
	if err != nil || b == nil {
		return nil, wrap("reading the first change number", err)
	}
	m, err := decodeMark(b)
	return &m, wrap("the first change number", err)
}

// MoveFirstMark replaces the first mark, which may be nil. It returns false if another server
// has replaced it.
func (l *Log) MoveFirstMark(ctx context.Context, old *Mark, m Mark) (bool, error) {
	var was []byte
	if old != nil {
		was = old.value()
	}
	done, _, err := swap(ctx, l.cluster, numbersRow, clusterFamily, archiveColumn, was,
		[]table.Cell{{Family: clusterFamily, Qualifier: archiveColumn, Value: m.value()}})
	return done, wrap("recording the first change number", err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Marks returns the marks in (after, upTo], in order, without the first mark.
func (l *Log) Marks(ctx context.Context, after, upTo table.Revision) (marks []Mark, err error) {
	for row, err := range l.cluster.Scan(ctx, table.Range{Start: markKey(after + 1), End: markKey(upTo + 1)}, table.Select{}) {
		var m Mark
		if err == nil && len(row.Cells) > 0 {
			m, err = decodeMark(row.Cells[0].Value)
		}
		if err != nil {
			return nil, wrap("reading change numbers", err)
		}
		marks = append(marks, m)
	}
	return marks, nil
}

// SetMark records a mark.
func (l *Log) SetMark(ctx context.Context, m Mark) error {
	_, _, err := swap(ctx, l.cluster, markKey(m.Revision), clusterFamily, archiveColumn, nil,
		[]table.Cell{{Family: clusterFamily, Qualifier: archiveColumn, Value: m.value()}})
	return wrap("recording a change number", err)
}

// ForgetMarks removes the marks in (after, upTo].
func (l *Log) ForgetMarks(ctx context.Context, after, upTo table.Revision) error {
	marks, err := l.Marks(ctx, after, upTo)
	if err != nil || len(marks) == 0 {
		return err
	}
	keys := make([][]byte, len(marks))
	for i := range marks {
		keys[i] = markKey(marks[i].Revision)
	}
	return l.forgetMarks(ctx, keys)
}

func (l *Log) forgetMarks(ctx context.Context, keys [][]byte) error {
	t, err := Collector(l.cluster, Cluster)
	if err == nil {
		_, err = t.Forget(ctx, keys)
	}
	return wrap("forgetting change numbers", err)
}

// cutMarks removes the marks after r. If the journal has all commits only from a later mark
// on, counting begins again.
func (l cutter) cutMarks(ctx context.Context, r table.Revision) error {
	first, err := l.FirstMark(ctx)
	if err == nil && first != nil && first.Revision > r {
		err = l.forgetMarks(ctx, [][]byte{numbersRow})
	}
	if err != nil {
		return err
	}
	return l.ForgetMarks(ctx, r, revision.Last-1)
}
