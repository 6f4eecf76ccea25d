package txn

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A simOp is a transaction of a simulated client. Each kind of simOp marks its rows as
// the directory does.
type simOp struct {
	kind opKind
	arg  int
}

type opKind int

const (
	opAppend      opKind = iota // modify: append to a list, which is read completely
	opAdd                       // add a member to a group
	opRemove                    // remove a member from the group
	opClear                     // modify: empty the group
	opMake                      // create the parent
	opDelete                    // delete the parent, which must have no children
	opMakeChild                 // add a child of the parent
	opDeleteChild               // delete a child
	opCount
)

func (o simOp) String() string {
	return [...]string{"append", "add", "remove", "clear", "make parent", "delete parent", "make child", "delete child"}[o.kind] +
		" " + strconv.Itoa(o.arg)
}

// errRefused reports that the state does not allow an operation.
var errRefused = errors.New("refused")

// A simState is the state of the simulated directory. Operations are replayed on it as a
// model.
type simState struct {
	list     []int
	group    map[int]bool
	parent   bool
	children map[int]bool
	secret   int // each append replaces the secret, which has no history
}

const secretFamily = 'b'

// unread is the value of a secret that was not read.
const unread = -1

func (s *simState) clone() *simState {
	return &simState{slices.Clone(s.list), maps.Clone(s.group), s.parent, maps.Clone(s.children), s.secret}
}

func newSimState() *simState { return &simState{group: map[int]bool{}, children: map[int]bool{}} }

// apply performs operation n on the model and reports whether the state allows the
// operation.
func (s *simState) apply(n int, o simOp) bool {
	switch o.kind {
	case opAppend:
		s.list = append(s.list, n)
		s.secret = n + 1
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

// same reports whether two states are equal in the parts of s that were read. The
// children and the secret of s are compared only if they were read.
func (s *simState) same(o *simState) bool {
	return slices.Equal(s.list, o.list) && maps.Equal(s.group, o.group) && s.parent == o.parent &&
		(s.children == nil || maps.Equal(s.children, o.children)) && (s.secret == unread || s.secret == o.secret)
}

func (s *simState) String() string {
	keys := func(m map[int]bool) []int { return slices.Sorted(maps.Keys(m)) }
	return fmt.Sprintf("list %v, group %v, parent %v, children %v, secret %d", s.list, keys(s.group), s.parent, keys(s.children), s.secret)
}

// readWhole reads the complete state of the simulated directory from a store. It reads
// the children only if children is set.
func readWhole(ctx context.Context, r table.Reader, data, other table.Table, children bool) (*simState, error) {
	s := newSimState()
	rows, err := r.GetMany(ctx, data, [][]byte{[]byte("list"), []byte("group"), []byte("parent")}, table.Select{Families: []table.Family{'a', secretFamily}})
	if err != nil {
		return nil, err
	}
	for _, c := range rows[0].Cells {
		if c.Family == secretFamily {
			s.secret = numbers(string(c.Value))[0]
			continue
		}
		s.list = numbers(string(c.Value))
	}
	for _, c := range rows[1].Cells {
		s.group[numbers(string(c.Qualifier))[0]] = true
	}
	s.parent = len(rows[2].Cells) > 0
	if !children {
		s.children = nil
		return s, nil
	}
	for row, err := range r.Scan(ctx, other, table.Prefix([]byte("child ")), table.Select{Families: []table.Family{'a'}}) {
		if err != nil {
			return nil, err
		}
		s.children[numbers(strings.TrimPrefix(string(row.Key), "child "))[0]] = true
	}
	return s, nil
}

func numbers(s string) (ns []int) {
	for _, f := range strings.Fields(s) {
		n, _ := strconv.Atoi(f) // the field was written as a number
		ns = append(ns, n)
	}
	return ns
}

// do runs operation n as a transaction. It reads the state, and returns errRefused if the
// state does not allow the operation. Otherwise it writes and marks rows. It returns the
// state that it read.
func (o simOp) do(ctx context.Context, tx *Tx, n int, data, other table.Table) (*simState, error) {
	read, err := readWhole(ctx, tx, data, other, o.kind >= opMake)
	if err != nil {
		return nil, err
	}
	s := read.clone()
	if !s.apply(n, o) {
		return read, errRefused
	}
	// Every operation also writes a row of its own, which must be stored if and only if
	// the operation is committed.
	tx.Write(other, put(o.row(n), "v", o.String()))
	group := []byte("group")
	switch o.kind {
	case opAppend:
		secret := table.Cell{Family: secretFamily, Qualifier: []byte("v"), Value: []byte(strconv.Itoa(s.secret))}
		m := put("list", "v", strings.Trim(fmt.Sprint(s.list), "[]"))
		m.Cells = append(m.Cells, secret)
		tx.Write(data, m)
		tx.Mark(data, []byte("list"), Mark{Kind: MarkUpdate})
	case opAdd, opRemove:
		tx.Write(data, member(o.arg, o.kind == opRemove))
		tx.Mark(data, group, Mark{Kind: MarkValue, Hash: uint64(o.arg)})
	case opClear:
		for _, m := range slices.Sorted(maps.Keys(read.group)) {
			tx.Write(data, member(m, true))
		}
		tx.Mark(data, group, Mark{Kind: MarkUpdate})
	default:
		o.doTree(tx, data, other)
	}
	return read, nil
}

func (o simOp) row(n int) string { return "op " + strconv.Itoa(n) }

// member returns the mutation that adds a member to the group or removes it.
func member(m int, gone bool) table.Mutation {
	c := table.Cell{Family: 'a', Qualifier: []byte(strconv.Itoa(m)), Tombstone: gone}
	if !gone {
		c.Value = []byte{1}
	}
	return table.Mutation{Row: []byte("group"), Cells: []table.Cell{c}}
}

func (o simOp) doTree(tx *Tx, data, other table.Table) {
	parent, child := []byte("parent"), []byte("child "+strconv.Itoa(o.arg))
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

// A simTx is a client's transaction and the answer to it.
type simTx struct {
	n       int
	op      simOp
	jump    time.Duration // change of the server's clock before the transaction begins
	tries   []table.Revision
	acked   table.Revision
	unknown bool
	failed  error
}

// verdict compares the content of the store with the answers that the clients received.
func (w *simWorld) verdict(ctx context.Context) error {
	o := w.net.oracle
	r := memReader{o.heads}
	other := w.net.mem.Table("other")
	for n, tx := range w.txs {
		var stands []table.Revision
		for _, r := range tx.tries {
			// If a try could not reserve its revision in the branch's cell, a later try
			// may have the same revision.
			if c := o.commits[r]; c != nil && c.shown > 0 && c.attempt.n == n && !slices.Contains(stands, c.r) {
				stands = append(stands, c.r)
			}
		}
		left, err := r.Get(ctx, other, []byte(tx.op.row(n)), table.Select{Families: []table.Family{'a'}})
		switch {
		case err != nil:
			return err
		case len(stands) > 1:
			return fmt.Errorf("transaction %d stands %d times, as %v", n, len(stands), stands)
		case tx.acked != 0 && len(stands) == 0 && (!revision.SlotOf(tx.acked).IsBranch() || o.heads.Visible(tx.acked)):
			return fmt.Errorf("transaction %d (%v) was acknowledged at %s and is lost", n, tx.op, tx.acked)
		case tx.acked == 0 && !tx.unknown && len(stands) > 0:
			return fmt.Errorf("transaction %d (%v) failed (%v) and stands", n, tx.op, tx.failed)
		case len(left.Cells) != len(stands):
			return fmt.Errorf("transaction %d (%v): stands %v, its row has %d cells", n, tx.op, stands, len(left.Cells))
		}
	}
	for name, m := range w.merged {
		if c := o.commits[m]; c == nil || c.shown == 0 {
			return fmt.Errorf("the merge %s of branch %s was acknowledged and is lost", m, name)
		}
	}
	got, err := readWhole(ctx, r, w.net.mem.Table("data"), other, true)
	if err != nil {
		return err
	}
	o.answers(len(o.states)-1, revision.Last, got)
	return w.net.broken()
}

// A memReader reads the store directly, without the net.
type memReader struct{ view table.View }

func (m memReader) Get(ctx context.Context, t table.Table, row []byte, s table.Select) (table.Row, error) {
	s.View = m.view
	return t.Get(ctx, row, s)
}

func (m memReader) GetMany(ctx context.Context, t table.Table, rows [][]byte, s table.Select) ([]table.Row, error) {
	s.View = m.view
	return t.GetMany(ctx, rows, s)
}

func (m memReader) Scan(ctx context.Context, t table.Table, r table.Range, s table.Select) iter.Seq2[table.Row, error] {
	s.View = m.view
	return t.Scan(ctx, r, s)
}
