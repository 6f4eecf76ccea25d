package txn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// A simOp is a transaction of a simulated client. Each kind marks its rows as the
// directory does.
type simOp struct {
	kind opKind
	arg  int
}

type opKind int

const (
	opAppend      opKind = iota // to a list, which is read whole: modify
	opAdd                       // a member to a group
	opRemove                    // it
	opClear                     // the group: modify
	opMake                      // the parent
	opDelete                    // the parent, which must have no children
	opMakeChild                 // of the parent
	opDeleteChild               //
	opCount
)

func (o simOp) String() string {
	return [...]string{"append", "add", "remove", "clear", "make parent", "delete parent", "make child", "delete child"}[o.kind] +
		" " + strconv.Itoa(o.arg)
}

// errRefused: the state does not allow an operation.
var errRefused = errors.New("refused")

// A simState is what the directory holds: the model that operations are replayed
// on.
type simState struct {
	list     []int
	group    map[int]bool
	parent   bool
	children map[int]bool
}

func newSimState() *simState { return &simState{group: map[int]bool{}, children: map[int]bool{}} }

// apply does operation n on the model and reports whether it is allowed.
func (s *simState) apply(n int, o simOp) bool {
	switch o.kind {
	case opAppend:
		s.list = append(s.list, n)
	case opAdd:
		if s.group[o.arg] {
			return false
		}
		s.group[o.arg] = true
	case opRemove:
		if !s.group[o.arg] {
			return false
		}
		delete(s.group, o.arg)
	case opClear:
		clear(s.group)
	case opMake:
		if s.parent {
			return false
		}
		s.parent = true
	case opDelete:
		if !s.parent || len(s.children) > 0 {
			return false
		}
		s.parent = false
	case opMakeChild:
		if !s.parent || s.children[o.arg] {
			return false
		}
		s.children[o.arg] = true
	case opDeleteChild:
		if !s.children[o.arg] {
			return false
		}
		delete(s.children, o.arg)
	}
	return true
}

func (s *simState) String() string {
	keys := func(m map[int]bool) []int { return slices.Sorted(maps.Keys(m)) }
	return fmt.Sprintf("list %v, group %v, parent %v, children %v", s.list, keys(s.group), s.parent, keys(s.children))
}

// readWhole reads the whole state from a store.
func readWhole(ctx context.Context, r Reader, data, other *Table) (*simState, error) {
	s := newSimState()
	list, err := get1(ctx, r, data, "list")
	for _, f := range strings.Fields(list) {
		n, _ := strconv.Atoi(f)
		s.list = append(s.list, n)
	}
	if err != nil {
		return s, err
	}
	group, err := r.Get(ctx, data, []byte("group"), table.Select{Families: []table.Family{'a'}})
	for _, c := range group.Cells {
		n, _ := strconv.Atoi(string(c.Qualifier))
		s.group[n] = true
	}
	if err != nil {
		return s, err
	}
	parent, err := get1(ctx, r, data, "parent")
	s.parent = parent != ""
	if err != nil {
		return s, err
	}
	s.children, err = readChildren(ctx, r, other)
	return s, err
}

func readChildren(ctx context.Context, r Reader, other *Table) (map[int]bool, error) {
	children := map[int]bool{}
	for row, err := range r.Scan(ctx, other, table.Prefix([]byte("child ")), table.Select{Families: []table.Family{'a'}}) {
		if err != nil {
			return nil, err
		}
		n, _ := strconv.Atoi(strings.TrimPrefix(string(row.Key), "child "))
		children[n] = true
	}
	return children, nil
}

func get1(ctx context.Context, r Reader, t *Table, row string) (string, error) {
	got, err := r.Get(ctx, t, []byte(row), table.Select{Families: []table.Family{'a'}})
	if err != nil || len(got.Cells) == 0 {
		return "", err
	}
	return string(got.Cells[0].Value), nil
}

// do is operation n as a transaction: it reads what it depends on, refuses, or
// writes and marks.
func (o simOp) do(ctx context.Context, tx *Tx, n int, data, other *Table) error {
	group, member := []byte("group"), []byte(strconv.Itoa(o.arg))
	child := []byte("child " + strconv.Itoa(o.arg))
	cell := func(tombstone bool) table.Mutation {
		c := table.Cell{Family: 'a', Qualifier: member, Tombstone: tombstone}
		if !tombstone {
			c.Value = []byte{1}
		}
		return table.Mutation{Row: group, Cells: []table.Cell{c}}
	}
	// Every operation leaves a row of its own beside the rest: it is there
	// whole or not at all.
	tx.Write(other, put("op "+strconv.Itoa(n), "v", o.String()))
	switch o.kind {
	case opAppend:
		list, err := get1(ctx, tx, data, "list")
		if err != nil {
			return err
		}
		tx.Write(data, put("list", "v", strings.TrimSpace(list+" "+strconv.Itoa(n))))
		tx.Mark(data, []byte("list"), Mark{Kind: MarkUpdate})
	case opAdd, opRemove, opClear:
		row, err := tx.Get(ctx, data, group, table.Select{Families: []table.Family{'a'}})
		if err != nil {
			return err
		}
		if o.kind == opClear {
			for _, c := range row.Cells {
				tx.Write(data, table.Mutation{Row: group, Cells: []table.Cell{{Family: 'a', Qualifier: c.Qualifier, Tombstone: true}}})
			}
			tx.Mark(data, group, Mark{Kind: MarkUpdate})
			return nil
		}
		if (row.Find('a', member) != nil) == (o.kind == opAdd) {
			return errRefused
		}
		tx.Write(data, cell(o.kind == opRemove))
		tx.Mark(data, group, Mark{Kind: MarkValue, Hash: uint64(o.arg)})
	default:
		parent, err := get1(ctx, tx, data, "parent")
		if err != nil {
			return err
		}
		children, err := readChildren(ctx, tx, other)
		if err != nil {
			return err
		}
		s := simState{parent: parent != "", children: children}
		if !s.apply(n, o) {
			return errRefused
		}
		o.doTree(tx, data, other, child)
	}
	return nil
}

func (o simOp) doTree(tx *Tx, data, other *Table, child []byte) {
	parent := []byte("parent")
	switch o.kind {
	case opMake:
		tx.Write(data, put("parent", "v", "p"))
		tx.Mark(data, parent, Mark{Kind: MarkExclusive})
	case opDelete:
		tx.Write(data, table.Mutation{Row: parent, DeleteRow: true})
		tx.Mark(data, parent, Mark{Kind: MarkExclusive, Deletes: true})
	case opMakeChild:
		tx.Write(other, put(string(child), "v", "c"))
		tx.Mark(other, child, Mark{Kind: MarkExclusive})
		tx.Mark(data, parent, Mark{Kind: MarkChild})
	case opDeleteChild:
		tx.Write(other, table.Mutation{Row: child, DeleteRow: true})
		tx.Mark(other, child, Mark{Kind: MarkExclusive, Deletes: true})
	}
}

// A simTx is what a client was told of a transaction.
type simTx struct {
	n       int
	op      simOp
	jump    time.Duration // of the server's clock, before
	tries   []table.Revision
	acked   table.Revision
	unknown bool
	failed  error
}

// verdict compares what the store holds in the end with what clients were told,
// and with the operations replayed in the order of their revisions.
func (w *simWorld) verdict(ctx context.Context, db *DB) error {
	s := db.Snapshot()
	defer s.Close()
	data, other := db.Table("data"), db.Table("other")
	type done struct {
		r table.Revision
		n int
	}
	var order []done
	for n, tx := range w.txs {
		var stands []table.Revision
		for _, r := range tx.tries {
			rec, err := w.net.oracle.log.State(ctx, r)
			if err != nil {
				return err
			}
			if s.Visible(r) && rec.State == journal.Committed {
				stands = append(stands, r)
				order = append(order, done{r, n})
			}
		}
		left, err := get1(ctx, s, other, "op "+strconv.Itoa(n))
		if err != nil {
			return err
		}
		switch {
		case len(stands) > 1:
			return fmt.Errorf("transaction %d stands %d times", n, len(stands))
		case tx.acked != 0 && len(stands) == 0:
			return fmt.Errorf("transaction %d (%v) was acknowledged at %s and is lost", n, tx.op, revision.String(tx.acked))
		case tx.acked == 0 && !tx.unknown && len(stands) > 0:
			return fmt.Errorf("transaction %d (%v) failed (%v) and stands", n, tx.op, tx.failed)
		case (left != "") != (len(stands) > 0):
			return fmt.Errorf("transaction %d (%v): stands %v, its row reads %q", n, tx.op, stands, left)
		}
	}
	slices.SortFunc(order, func(a, b done) int { return compareRevisions(a.r, b.r) })
	replay := newSimState()
	for _, d := range order {
		if !replay.apply(d.n, w.txs[d.n].op) {
			return fmt.Errorf("replaying in the order of revisions, transaction %d (%v) at %s is refused", d.n, w.txs[d.n].op, revision.String(d.r))
		}
	}
	got, err := readWhole(ctx, s, data, other)
	if err != nil {
		return err
	}
	if got.String() != replay.String() {
		return fmt.Errorf("the store has %v, the replay gives %v", got, replay)
	}
	return nil
}
