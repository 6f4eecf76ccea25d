package txn

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A step is the purpose of a call to the store within the protocol.
type step int

const (
	clientStep  step = iota // not a call to the store; see node.yield
	readHeads               // reads the heads for a snapshot
	readCell                // reads the clock, or reads a cell after a swap without a clear answer
	readArchive             // reads the archives of a slot's former holders
	claiming
	publishingHead
	renewingLease
	fencing  // step R0
	closing  // step R3, or the release of a slot
	freeing  // step R4: frees the slot
	archival // step R4: writes the archive
	askingTime
	beginning
	committing
	aborting
	forbidding
	readState   // reads the state of a commit
	scanJournal // reads records without write lists, for the changes of other servers
	scanLists   // reads records with write lists, for R1, R4 and collections
	readData
	scanData
	readMarks
	writeCells
	eraseCells
	raisingFloor
	readKept // reads the checkpoints or the record of what was collected
	keepingMoment
	notingCollected
	collecting
	listingRows
	forgetting // removes commits from the journal
	makingBranch
	reserving // reserves a revision in a branch, makes it void, or publishes it; also parks a branch
	freezing
	naming  // names a merge in a branch's cell
	opening // changes a branch's cell to Open
	ending  // records that a branch was merged
	renaming
	takingBack // makes another server's commit void in the cell of that server
	stepCount
)

var stepNames = [...]string{
	"client", "read heads", "read cell", "read archives", "claim", "publish", "renew", "fence", "close", "free", "archive", "ask time",
	"begin", "commit", "abort", "forbid", "read state", "scan journal", "scan lists", "read", "scan", "read marks", "write", "erase",
	"raise horizon", "read kept", "keep moment", "note collected", "collect", "list rows", "forget commits",
	"make branch", "reserve", "freeze", "name merge", "open branch", "end merge", "rename", "take back",
}

func (s step) String() string { return stepNames[s] }

// These are the faults that each kind of call can have.
var (
	anyCall   = []fault{notApplied, slow, outage, crash, pauseBefore, pauseAfter}
	scanFault = append([]fault{lostPage}, anyCall...)
	swapFault = append([]fault{applied, late, twice, retried}, anyCall...)
	setFault  = append([]fault{applied, late, twice, partial}, anyCall...)
	faultsOf  = [stepCount][]fault{
		clientStep: {noFault},
		readHeads:  anyCall, readCell: anyCall, readArchive: scanFault,
		claiming: swapFault, publishingHead: swapFault, renewingLease: swapFault,
		fencing: swapFault, closing: swapFault, freeing: swapFault, archival: swapFault, askingTime: swapFault,
		beginning: swapFault, committing: swapFault, aborting: swapFault, forbidding: swapFault,
		readState: anyCall, scanJournal: scanFault, scanLists: scanFault, readData: anyCall, scanData: scanFault, readMarks: anyCall,
		writeCells: setFault, eraseCells: setFault,
		raisingFloor: swapFault, readKept: anyCall, keepingMoment: swapFault, notingCollected: swapFault,
		collecting: setFault, listingRows: scanFault, forgetting: setFault,
		makingBranch: swapFault, reserving: swapFault, freezing: swapFault, naming: swapFault, opening: swapFault, ending: swapFault,
		renaming: swapFault, takingBack: swapFault,
	}
)

// weights make faults at rare steps as frequent as faults at other steps.
var weights = func() (w [stepCount]float64) {
	for s := range w {
		w[s] = 1
	}
	for _, s := range []step{readCell, readArchive, renewingLease, fencing, closing, freeing, archival, aborting, eraseCells, scanLists} {
		w[s] = 4
	}
	for _, s := range []step{makingBranch, reserving, freezing, naming, opening, ending, renaming, forbidding, takingBack} {
		w[s] = 8
	}
	for _, s := range []step{raisingFloor, keepingMoment, notingCollected, collecting, listingRows, forgetting} {
		w[s] = 24
	}
	return w
}()

// store returns the store that a node's server uses.
func (d *node) store() table.Store { return simStore{d.net.mem, d} }

type simStore struct {
	table.Store
	node *node
}

func (s simStore) Table(name string) table.Table {
	return simTable{s.Store.Table(name), name, s.node}
}

type simTable struct {
	t    table.Table
	name string
	node *node
}

var _ table.Pairer = simTable{}

func (t simTable) Name() string { return t.name }

func (t simTable) send(ctx context.Context, s step, key []byte, n int, effect func(part int) string) error {
	return t.node.net.send(ctx, &call{node: t.node, step: s, table: t.name, key: string(key), n: n, effect: effect})
}

func (t simTable) Get(ctx context.Context, row []byte, s table.Select) (r table.Row, err error) {
	what := readData
	switch {
	case t.name == journal.Table:
		what = readState
	case t.name == journal.Cluster && string(row) == "clock":
		what = readCell
	case t.name == journal.Cluster && string(row) != "heads":
		what = readKept
	case t.name == journal.Cluster && len(s.Columns) > 0:
		what = readCell
	case t.name == journal.Cluster:
		what = readHeads
	}
	var failed error
	err = t.send(ctx, what, row, 1, func(int) string {
		r, failed = t.t.Get(context.Background(), row, s)
		t.stamp(r)
		return ""
	})
	if err == nil {
		err = failed
	}
	return r, err
}

// stamp sets the timestamps of cluster cells to the time at which the store wrote them.
func (t simTable) stamp(r table.Row) {
	if t.name == journal.Cluster {
		for i := range r.Cells {
			r.Cells[i].Revision = table.Revision(t.node.net.written[string(r.Key)+string(r.Cells[i].Qualifier)])
		}
	}
}

func (t simTable) GetMany(ctx context.Context, rows [][]byte, s table.Select) (rs []table.Row, err error) {
	var failed error
	err = t.send(ctx, readData, bytes.Join(rows, []byte(" ")), 1, func(int) string {
		rs, failed = t.t.GetMany(context.Background(), rows, s)
		return ""
	})
	if err == nil {
		err = failed
	}
	return rs, err
}

func (t simTable) Versions(ctx context.Context, rows [][]byte, f table.Family, after table.Revision) (rs []table.Row, err error) {
	var failed error
	err = t.send(ctx, readMarks, bytes.Join(rows, []byte(" ")), 1, func(int) string {
		rs, failed = t.t.(table.Versioner).Versions(context.Background(), rows, f, after)
		return ""
	})
	if err == nil {
		err = failed
	}
	return rs, err
}

func (t simTable) Scan(ctx context.Context, r table.Range, s table.Select) iter.Seq2[table.Row, error] {
	return func(yield func(table.Row, error) bool) {
		what := scanData
		switch t.name {
		case journal.Table:
			if what = scanLists; len(s.Columns) > 0 {
				what = scanJournal
			}
		case journal.Cluster:
			what = readArchive
		}
		var rows []table.Row
		var failed error
		err := t.send(ctx, what, slices.Concat(r.Start, []byte("-"), r.End), 3, func(part int) string {
			rows = nil
			for row, err := range t.t.Scan(context.Background(), r, s) {
				if failed = err; err != nil || part == 0 {
					break
				}
				if rows = append(rows, row.Clone()); part < 3 && len(rows) == part {
					break
				}
			}
			return ""
		})
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
		if err == nil {
			err = failed
		}
		if err != nil {
			yield(table.Row{}, err)
		}
	}
}

// idOf returns a revision encoded as the key of a call.
func idOf(r table.Revision) []byte { return binary.BigEndian.AppendUint64(nil, uint64(r)) }

func (t simTable) Apply(ctx context.Context, r table.Revision, ms []table.Mutation) error {
	return t.apply(ctx, r, idOf(r), ms)
}

func (t simTable) apply(ctx context.Context, r table.Revision, key []byte, ms []table.Mutation) error {
	var failed error
	err := t.send(ctx, writeCells, key, len(ms), func(part int) string {
		ms := t.unmasked(r, ms[:part])
		failed = t.t.Apply(context.Background(), r, ms)
		t.node.net.oracle.applied(t, r, ms)
		return strconv.Itoa(part)
	})
	if err == nil {
		err = failed
	}
	return err
}

// unmasked returns the mutations that have an effect. HBase may execute a call twice, the second time long after the first. By then the
// cells may be superseded and collected, and would be there again, without what has superseded them. HBase's delete markers mask
// them. Major compactions remove the markers, but by then the retention, of a minute at least (docs/hbase.md), has passed, and no call
// takes that long. The retentions of simulations are short, so here cells stay masked.
func (t simTable) unmasked(r table.Revision, ms []table.Mutation) (left []table.Mutation) {
	n := t.node.net
	for _, m := range ms {
		row := t.name + "/" + string(m.Row)
		again := fmt.Sprint(r, row)
		if !n.applied[again] || r > n.collected[row] {
			left = append(left, m)
		}
		n.applied[again] = true
	}
	return left
}

// ApplyVersions writes and reads each row by itself, so that the rows are done in any order. This includes what
// one round trip can do.
func (t simTable) ApplyVersions(ctx context.Context, r table.Revision, ms []table.Mutation, rows [][]byte, f table.Family, after table.Revision) ([]table.Row, error) {
	read := make([]table.Row, len(ms))
	g, ctx := errgroup.WithContext(ctx)
	for i, m := range ms {
		g.Go(func() error {
			if err := t.apply(ctx, r, slices.Concat(idOf(r), m.Row), ms[i:i+1]); err != nil {
				return err
			}
			got, err := t.Versions(ctx, [][]byte{m.Row}, f, after)
			if err == nil {
				read[i] = got[0]
			}
			return err
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(read, func(row table.Row) bool {
		return !slices.ContainsFunc(rows, func(k []byte) bool { return bytes.Equal(k, row.Key) })
	}), err
}

// SwapGet makes two calls. This includes what one round trip can do.
func (t simTable) SwapGet(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (ok bool, got table.Row, err error) {
	if ok, err = t.Swap(ctx, row, f, q, old, cells); err == nil {
		got, err = t.Get(ctx, row, table.Select{})
	}
	return ok, got, err
}

func (t simTable) Erase(ctx context.Context, r table.Revision, rows [][]byte) error {
	var failed error
	err := t.send(ctx, eraseCells, idOf(r), len(rows), func(part int) string {
		failed = t.t.Erase(context.Background(), r, rows[:part])
		t.node.net.oracle.erased(t, r, rows[:part])
		return strconv.Itoa(part)
	})
	if err == nil {
		err = failed
	}
	return err
}

func (t simTable) Swap(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (ok bool, err error) {
	var failed error
	what := t.swapStep(row, q, old, cells[0].Value)
	err = t.send(ctx, what, slices.Concat(row, q), 1, func(int) string {
		ok, failed = t.t.Swap(context.Background(), row, f, q, old, cells)
		if ok {
			t.node.net.written[string(row)+string(q)] = virtualTime().UnixMilli()
			t.node.net.oracle.swapped(t, row, q, old, cells)
		}
		return strconv.FormatBool(ok)
	})
	if err == nil {
		err = failed
	}
	return ok && err == nil, err
}

// swapStep returns the step of a swap, which it derives from the swap's bytes.
func (t simTable) swapStep(row, q, old, now []byte) step {
	if t.name == journal.Table {
		switch {
		case len(row) > 10 || journal.State(now[1]) == journal.Pending:
			return beginning
		case old == nil && journal.State(now[1]) == journal.Committed:
			return beginning // a cell decides the commit
		case journal.State(now[1]) == journal.Committed:
			return committing
		case old == nil:
			return forbidding
		}
		return aborting
	}
	switch string(row) {
	case "heads":
		if isFloor(t.name, row, q) {
			return raisingFloor
		}
	case "clock":
		return askingTime
	default:
		return keptStep(row)
	}
	after, err := revision.DecodeCell(now)
	if err != nil {
		panic(err)
	}
	var before revision.Cell
	if old != nil {
		before, _ = revision.DecodeCell(old) // old was written by a swap, so it can be decoded
	}
	switch {
	case after.State == revision.Free:
		return freeing
	case after.Kind == revision.Branch && after.State != revision.Closed:
		return branchStep(&before, &after)
	case after.State == revision.Closed:
		return closing
	case after.State == revision.Recovering:
		return fencing
	case before.State != revision.Open:
		return claiming
	case after.Lease != before.Lease:
		return renewingLease
	case t.node.name != after.Owner:
		return takingBack
	}
	return publishingHead
}

// branchStep returns the step of a swap of a branch's cell.
func branchStep(before, after *revision.Cell) step {
	switch {
	case after.Incarnation == before.Incarnation && after.Owner != before.Owner:
		return renaming
	case after.State == revision.Frozen:
		return freezing
	case after.State == revision.Merging:
		return naming
	case after.State == revision.Merged:
		return ending
	case after.Incarnation != before.Incarnation:
		return makingBranch
	case before.State != revision.Open:
		return opening
	}
	return reserving
}

// coverage counts the faults at every step of the protocol, and how often a server completed a
// recovery that another, living server began.
type coverage struct {
	faults [faultCount][stepCount]int
	both   int
}

func (c *coverage) count(f fault, s step) { c.faults[f][s]++ }

func (c *coverage) add(o *coverage) {
	for f := range c.faults {
		for s := range c.faults[f] {
			c.faults[f][s] += o.faults[f][s]
		}
	}
	c.both += o.both
}

// empty returns the pairs of step and fault that are possible but never happened.
func (c *coverage) empty() (cells []string) {
	for s := range stepCount {
		for _, f := range faultsOf[s] {
			if f != noFault && c.faults[f][s] == 0 {
				cells = append(cells, fmt.Sprintf("%v at %v", f, s))
			}
		}
	}
	if c.both == 0 {
		cells = append(cells, "two recoverers")
	}
	return cells
}

func (c *coverage) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s", "")
	for f := notApplied; f < faultCount; f++ {
		fmt.Fprintf(&b, "%13v", f)
	}
	for s := readHeads; s < stepCount; s++ {
		fmt.Fprintf(&b, "\n%-14v", s)
		for f := notApplied; f < faultCount; f++ {
			if slices.Contains(faultsOf[s], f) {
				fmt.Fprintf(&b, "%13d", c.faults[f][s])
			} else {
				fmt.Fprintf(&b, "%13s", "-")
			}
		}
	}
	fmt.Fprintf(&b, "\ntwo recoverers %d", c.both)
	return b.String()
}
