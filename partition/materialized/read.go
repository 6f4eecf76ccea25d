package materialized

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Record is a record of a view.
type Record struct {
	Key string // sorts the records, and identifies the record
	// Values are the values of the group, one for each of Definition.Groups. If entries
	// spell the values in several ways, these are the values as one of the entries spells them.
	Values [][]byte
	Count  int64
	// Totals are the totals, one for each of Definition.Totals. Min and Max are nil if no
	// entry has a value.
	Totals []*big.Int
}

// ReadOptions select records.
type ReadOptions struct {
	Key  string // if not empty, only the record with this key is read
	Most int    // the largest number of entries that may be examined if the records are not kept; 0: no limit
}

// A reader uses the view's table only if, for each lane, at most maxTail entries were touched
// since the lane's last finished step. Otherwise the records are computed from all entries.
const maxTail = 20_000

// Read returns the records of a view in a state, sorted by key. The records are always equal
// to the result of evaluating the definition in that state. Read takes them from the view's
// table, and adds the effect of the commits that the state shows and that are newer than the
// last finished step. If the table does not have the records, Read computes them from the
// entries.
func Read(ctx context.Context, s *state.Snapshot, d *Definition, o ReadOptions) ([]Record, error) {
	rs, err := d.readKept(ctx, s, &o)
	if !errors.Is(err, errNotKept) {
		return rs, err
	}
	ps, err := d.compute(ctx, s, o.Most)
	if err != nil {
		return nil, err
	}
	return (&reading{ctx: ctx, d: d, tail: ps, sorted: sortedKeys(ps)}).records(o.Key)
}

// compute computes the parts of a view from all entries of a state. If most is not zero,
// it examines at most this many entries.
func (d *Definition) compute(ctx context.Context, s *state.Snapshot, most int) (parts, error) {
	all := parts{}
	err := lane{0, 1}.whole(ctx, d, s, most, func() {}, func(ps parts) error {
		maps.Copy(all, ps)
		return nil
	})
	if tooMany(err) {
		return nil, catalog.Errorf(catalog.TooMany, "the records of %s are not kept for this state, and computing them would examine more than %d entries", d.Name, most)
	}
	return all, err
}

func tooMany(err error) bool {
	var e *catalog.Error
	return errors.As(err, &e) && e.Problem == catalog.TooMany
}

// errNotKept means that the records cannot be read from the view's table and must be
// computed from all entries.
var errNotKept = errors.New("the records are not kept")

// readKept reads records from the view's table.
func (d *Definition) readKept(ctx context.Context, s *state.Snapshot, o *ReadOptions) (rs []Record, err error) {
	ls := d.lanes(s.Partition.DB)
	err = d.whileKept(ctx, s, ls, func(name string) error {
		r, err := d.open(ctx, s, name, ls)
		if err != nil {
			return err
		}
		rs, err = r.records(o.Key)
		return err
	})
	return rs, err
}

// whileKept calls the function read with the name of the view's table. It returns errNotKept if
// the records are not kept, if the function needs a state below the horizon, or if the table
// was replaced while the function ran. Records are not kept for states of branches.
func (d *Definition) whileKept(ctx context.Context, s *state.Snapshot, ls []lane, read func(name string) error) error {
	if s.At.InBranch() {
		return errNotKept
	}
	c, err := d.keptCells(ctx, s, ls)
	if err != nil {
		return err
	}
	err = read(c.generation.Table)
	if belowHorizon(err) {
		return errNotKept
	}
	// The read may also have failed because the generation ended and its table was
	// dropped.
	if now, e := d.keptCells(ctx, s, ls); e != nil || now.generation.Table != c.generation.Table {
		return errNotKept
	}
	return err
}

// keptCells returns the cells of the view. It returns errNotKept if the view's table has no
// records for this definition and this state. An erasure changes the past, so records from
// before the newest erasure are valid for no state.
func (d *Definition) keptCells(ctx context.Context, s *state.Snapshot, ls []lane) (*cells, error) {
	now, err := s.Partition.Latest()
	if err != nil {
		return nil, err
	}
	if erasures(now) != erasures(s.Catalog) {
		return nil, errNotKept
	}
	switch has, err := hasCells(ctx, s.Partition); {
	case err != nil:
		return nil, err
	case !has:
		return nil, errNotKept
	}
	c, err := readCells(ctx, s.Partition, d.ID, ls)
	if err != nil {
		return nil, err
	}
	if !c.begun() || c.generation.Key != d.key {
		return nil, errNotKept
	}
	return c, nil
}

// open returns a reading of the records in a table as of the state s.
func (d *Definition) open(ctx context.Context, s *state.Snapshot, name string, ls []lane) (*reading, error) {
	t := s.Partition.DB.Table(name)
	f, err := finishedIn(ctx, s, t, ls)
	if err != nil {
		return nil, err
	}
	r := &reading{ctx: ctx, d: d, t: t, f: f}
	if r.tail, err = r.readTail(s, ls); err != nil {
		return nil, err
	}
	r.sorted = sortedKeys(r.tail)
	return r, nil
}

// finishedIn returns, for each lane, the end of the newest finished step that is not above
// s.At.Decided().
func finishedIn(ctx context.Context, s *state.Snapshot, t table.Table, ls []lane) (finished, error) {
	row, err := t.Get(ctx, []byte{stepsRow}, table.Select{View: upTo(s.At.Decided()), Families: []table.Family{family}})
	if err != nil {
		return nil, err
	}
	f := make(finished, len(ls))
	for i, l := range ls {
		c := row.Find(family, l.column())
		if c == nil {
			return nil, errNotKept
		}
		f[i] = c.Revision
	}
	return f, nil
}

// readTail returns the differences that are made by the commits after the finished steps, as
// far as a state shows these commits.
func (r *reading) readTail(s *state.Snapshot, ls []lane) (parts, error) {
	if r.f.Low() < s.Partition.DB.Horizon() {
		return nil, errNotKept
	}
	ts, err := touchedAfterEach(r.ctx, s, r.f, maxTail)
	if err != nil {
		return nil, err
	}
	// The lanes share what they read from the state.
	to := *s
	to.Items = map[entry.ID]*cache.Item{}
	if err := to.ReadItems(r.ctx, r.changed(ls, ts), r.d.needs); err != nil {
		return nil, err
	}
	all := parts{}
	for i, l := range ls {
		if len(ts[i].ids) == 0 || r.d.Kind == Subordinates && len(ts[i].placed) == 0 {
			continue
		}
		ps, err := r.since(&to, l, &ts[i])
		if err != nil {
			return nil, err
		}
		for key, p := range ps {
			all.add(key, p, 1)
		}
	}
	return all, nil
}

// The method "since" returns the difference of a lane's parts between the lane's finished step
// and the state s.
func (r *reading) since(s *state.Snapshot, l lane, t *touched) (parts, error) {
	from, err := state.At(r.ctx, s.Partition, r.f[l.number])
	if err != nil {
		return nil, err
	}
	defer from.Close()
	from.Items = map[entry.ID]*cache.Item{}
	return l.difference(r.ctx, r.d, from, s, t, r)
}

// changed returns the touched entries that a difference of the lanes reads.
func (r *reading) changed(ls []lane, ts []touched) (ids []entry.ID) {
	for i, l := range ls {
		if r.d.Kind == Subordinates {
			ids = slices.AppendSeq(ids, maps.Keys(ts[i].placed))
			continue
		}
		for id := range ts[i].ids {
			if l.has(id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// A reading assembles records from a table and a tail. The tail contains the differences that
// commits after the finished steps make.
type reading struct {
	ctx  context.Context
	d    *Definition
	t    table.Table // nil: the tail contains everything
	f    finished
	tail parts

	sorted []string  // keys of the tail
	base   *entry.ID // the view's base in the state to which the tail leads; nil: not looked up yet
}

func sortedKeys(ps parts) []string { return slices.Sorted(maps.Keys(ps)) }

// The method "records" returns all records or, if key is not empty, the record with this key.
func (r *reading) records(key string) (rs []Record, err error) {
	prefix := string(recordRow) + key
	in := table.Prefix([]byte(prefix))
	if key != "" {
		in.End = append([]byte(prefix), 0)
	}
	sums := map[string]*part{}
	for row, err := range r.scan(in, false) {
		if err != nil {
			return nil, err
		}
		p, err := sumOf(row)
		if err != nil {
			return nil, err
		}
		sums[string(row.Key)] = p
	}
	for _, k := range r.tailKeys(prefix) {
		if key != "" && k != prefix {
			continue
		}
		if sums[k] == nil {
			sums[k] = &part{}
		}
		sums[k].add(r.tail[k], 1)
	}
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		if sums[k].n == 0 {
			continue
		}
		rec, err := r.record(k[1:], sums[k])
		if err != nil {
			return nil, err
		}
		rs = append(rs, rec)
	}
	return rs, nil
}

// scan streams rows of the table.
func (r *reading) scan(in table.Range, reverse bool) func(func(table.Row, error) bool) {
	if r.t == nil {
		return func(func(table.Row, error) bool) {}
	}
	return r.t.Scan(r.ctx, in, table.Select{View: r.f, Families: []table.Family{family}, Reverse: reverse})
}

// parts returns the sums of rows. Each is the sum of the parts of all lanes in the table, and of the
// tail.
func (r *reading) parts(keys ...string) ([]*part, error) {
	sums := make([]*part, len(keys))
	if r.t != nil {
		ks := make([][]byte, len(keys))
		for i, key := range keys {
			ks[i] = []byte(key)
		}
		rows, err := r.t.GetMany(r.ctx, ks, table.Select{View: r.f, Families: []table.Family{family}})
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if sums[i], err = sumOf(rows[i]); err != nil {
				return nil, err
			}
		}
	}
	for i, key := range keys {
		if sums[i] == nil {
			sums[i] = &part{}
		}
		if p := r.tail[key]; p != nil {
			sums[i].add(p, 1)
		}
	}
	return sums, nil
}

// sumOf returns the sum of the parts of all lanes.
func sumOf(row table.Row) (*part, error) {
	sum := &part{}
	for i := range row.Cells {
		p, err := decodePart(row.Cells[i].Value)
		if err != nil {
			return nil, err
		}
		sum.add(p, 1)
	}
	return sum, nil
}

// tailKeys returns the keys of the tail that begin with a prefix.
func (r *reading) tailKeys(prefix string) []string {
	i, _ := slices.BinarySearch(r.sorted, prefix)
	j := i
	for j < len(r.sorted) && strings.HasPrefix(r.sorted[j], prefix) {
		j++
	}
	return r.sorted[i:j]
}

// record makes the record of a group from its sum, and reads its values, minima and
// maxima.
func (r *reading) record(key string, sum *part) (Record, error) {
	rec := Record{Key: key, Count: sum.n}
	spelling, err := r.extreme(key, spellings, false)
	if err != nil {
		return rec, err
	}
	for b := []byte(spelling); len(b) > 0; {
		value, rest, ok := cutLengthened(b)
		if !ok {
			return rec, fmt.Errorf("view %s: group %x: %w", r.d.Name, key, table.ErrCorrupt)
		}
		rec.Values, b = append(rec.Values, value), rest
	}
	if len(rec.Values) != len(r.d.Groups) {
		return rec, fmt.Errorf("view %s: group %x has %d values: %w", r.d.Name, key, len(rec.Values), table.ErrCorrupt)
	}
	sums := sum.sums
	for i, t := range r.d.Totals {
		var n *big.Int
		switch t.Op {
		case Count:
			n = big.NewInt(sum.n)
		case Sum:
			n = new(big.Int)
			if len(sums) > 0 {
				n, sums = sums[0], sums[1:]
			}
		default:
			end, err := r.extreme(key, byte(i), t.Op == Max)
			if err != nil {
				return rec, err
			}
			if end != "" {
				n = integerOf([]byte(end))
			}
		}
		rec.Totals = append(rec.Totals, n)
	}
	return rec, nil
}

// extreme returns the first or the last value that a group has for a total, or "" if the
// group has no value.
func (r *reading) extreme(group string, total byte, last bool) (string, error) {
	prefix := string(valueRow) + group + string([]byte{total})
	best := ""
	seen := map[string]bool{} // the keys of the tail that the scan has met
	for row, err := range r.scan(table.Prefix([]byte(prefix)), last) {
		if err != nil {
			return "", err
		}
		p, err := sumOf(row)
		if err != nil {
			return "", err
		}
		if q := r.tail[string(row.Key)]; q != nil {
			p.add(q, 1)
			seen[string(row.Key)] = true
		}
		if p.n > 0 {
			best = string(bytes.Clone(row.Key))
			break
		}
	}
	for _, k := range r.tailKeys(prefix) {
		better := best == "" || (k < best) != last
		if r.tail[k].n > 0 && !seen[k] && k != best && better {
			best = k
		}
	}
	return strings.TrimPrefix(best, prefix), nil
}
