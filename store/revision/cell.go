package revision

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Kind states whether a slot belongs to a server or to a branch.
type Kind uint8

const (
	Server Kind = iota
	Branch
)

// A State is the state of a slot.
type State uint8

const (
	// Free: no server holds the slot. The commits of former holders are archived.
	Free State = iota
	// Open: the holder renews the lease and commits. A branch in this state takes commits.
	Open
	// Recovering: the holder fell silent, and another server decides the commits that the
	// holder left undecided. The holder's next swap of the cell fails, which fences the
	// holder. A branch in this state is being made.
	Recovering
	// Closed: all commits are decided forever, but cells of void revisions may remain. A branch in
	// this state was discarded.
	Closed
	// Merging: a branch is being merged. The revision of the merge is Cell.Merge.
	Merging
	// Merged: a branch was merged. The revision of the merge is Cell.Merge.
	Merged
	// Frozen: a branch takes no commits while a server looks for conflicts before the
	// merge.
	Frozen
	// Parked: a branch takes no commits and cannot be merged any more, because the history
	// since its base is no longer kept. See Cell.Park.
	Parked
)

var stateNames = [...]string{"free", "open", "recovering", "closed", "merging", "merged", "frozen", "parked"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// A Cell is the state that a slot's holder publishes. Every change increases Sequence, so
// the bytes of a cell never repeat, and a swap from outdated bytes always fails. On a store of
// one server, that server writes its own cell only when it opens and closes the store.
type Cell struct {
	Kind        Kind
	State       State
	Incarnation uint64 // counts the slot's holders, from 1
	Token       uint64 // distinguishes servers that claim the slot, or change a branch's cell, at the same time
	Sequence    uint64
	Lease       uint64 // counts the renewals of the lease
	// First is below the id of every commit of this incarnation, and above all ids of older
	// incarnations. On a shared store, a server issues no id above Limit.
	First, Limit table.Revision
	// Head is the revision up to which revisions of this incarnation are visible. The
	// exceptions are in Void and Undecided. The revisions in Void are aborted, but their
	// cells may remain or still reach the store (A in transactions.md). The revisions in
	// Undecided (U) are pending.
	Head            table.Revision
	Void, Undecided []table.Revision // sorted
	// Late (C) lists the other visible commits of a closed incarnation: commits that are
	// above Head or in Undecided, but were committed. It is sorted.
	Late []table.Revision
	// Oldest is the low-water mark of the oldest snapshot in use, not counting snapshots
	// of the past.
	Oldest table.Revision
	// Config is the revision of the configuration that the holder works by.
	Config table.Revision
	// Merge is the revision of a branch's merge. Base is the revision of the state at which the
	// branch began. Everything up to Base was decided then.
	Merge, Base table.Revision
	// Owner is the name of the holder, for messages, or the name of the branch. While a
	// branch is renamed, the new name follows behind a zero octet.
	Owner string
	// Horizon is a revision. The holder reads no state below it any more, not even by a
	// snapshot of the past. States that checkpoints or parked branches keep are an
	// exception.
	Horizon table.Revision
}

// The version is the first byte of every encoded cell. The field Horizon was added later:
// a cell without a horizon is still written in the first version. Cells of branches have
// a version of their own, which servers that do not know branches refuse to read.
const (
	cellVersion    = 1
	horizonVersion = 2
	branchVersion  = 3
)

// Append encodes the cell: first the version, the kind and the state, then the other
// fields, in most cases as varints. Lists of revisions are encoded as differences.
func (c *Cell) Append(b []byte) []byte {
	version := byte(cellVersion)
	switch {
	case c.Kind == Branch:
		version = branchVersion
	case c.Horizon != 0:
		version = horizonVersion
	}
	b = append(b, version, byte(c.Kind), byte(c.State))
	b = binary.AppendUvarint(b, c.Incarnation)
	b = binary.BigEndian.AppendUint64(b, c.Token)
	for _, n := range []uint64{c.Sequence, c.Lease, uint64(c.First), uint64(c.Limit), uint64(c.Head)} {
		b = binary.AppendUvarint(b, n)
	}
	b = appendRevisions(b, c.Void)
	b = appendRevisions(b, c.Undecided)
	b = appendRevisions(b, c.Late)
	for _, r := range []table.Revision{c.Oldest, c.Config, c.Merge} {
		b = binary.AppendUvarint(b, uint64(r))
	}
	b = binary.AppendUvarint(b, uint64(c.Base))
	b = appendBytes(b, []byte(c.Owner))
	if version != cellVersion {
		b = binary.AppendUvarint(b, uint64(c.Horizon))
	}
	return b
}

// DecodeCell decodes exactly what Append encodes.
func DecodeCell(b []byte) (Cell, error) {
	d := decoder{b: b, what: "heads cell"}
	version := d.byte("version")
	if d.err == nil && (version < cellVersion || version > branchVersion) {
		return Cell{}, fmt.Errorf("heads cell of version %d: %w", version, table.ErrNewer)
	}
	c := Cell{
		Kind:        Kind(d.below("kind", uint8(Branch))),
		State:       State(d.below("state", uint8(Parked))),
		Incarnation: d.uvarint("incarnation"),
		Token:       d.uint64("token"),
		Sequence:    d.uvarint("sequence"),
		Lease:       d.uvarint("lease"),
		First:       d.revision("first"),
		Limit:       d.revision("limit"),
		Head:        d.revision("head"),
		Void:        d.revisions("void"),
		Undecided:   d.revisions("undecided"),
		Late:        d.revisions("late"),
		Oldest:      d.revision("oldest"),
		Config:      d.revision("config"),
		Merge:       d.revision("merge"),
		Base:        d.revision("base"),
		Owner:       string(d.bytes("owner")),
	}
	if version != cellVersion {
		if c.Horizon = d.revision("horizon"); c.Horizon == 0 && version == horizonVersion {
			d.fail("horizon", "zero")
		}
	}
	if (c.Kind == Branch) != (version == branchVersion) {
		d.fail("kind", "of another version")
	}
	return c, d.end()
}

// LastUndecided returns the newest undecided revision, or 0.
func (c *Cell) LastUndecided() table.Revision {
	if len(c.Undecided) == 0 {
		return 0
	}
	return c.Undecided[len(c.Undecided)-1]
}

// Park makes the cell the cell of a parked branch. From then on, only two things are kept for
// the branch: its own commits, and the state at its base, which is kept like a checkpoint. A
// branch that is discarded later keeps the horizon Last, which shows that it was parked.
func (c *Cell) Park() { c.State, c.Oldest, c.Horizon = Parked, Last, Last }

// WasParked reports whether the cell belongs to a branch that is parked, or that was
// parked before it was discarded.
func (c *Cell) WasParked() bool { return c.Kind == Branch && c.Horizon == Last }

// Freed returns the cell of the slot after it is freed. The archive must already be
// written.
func (c *Cell) Freed() Cell {
	return Cell{
		Kind: c.Kind, State: Free, Incarnation: c.Incarnation, Token: c.Token,
		Sequence: c.Sequence + 1, Head: max(c.Head, c.Limit), Limit: max(c.Head, c.Limit),
	}
}

// An Archive contains the fields of a closed or merged cell that are kept after the slot is
// freed. The visible revisions of an Archive are the revisions from First to Head that are in
// neither Void nor Undecided, and the revisions in Late. Merge is the revision of the commit
// that merged an archived branch. It is zero for a server, and for a branch that was discarded.
type Archive struct {
	First, Head, Merge    table.Revision
	Void, Undecided, Late []table.Revision
}

// mergeVersion is the version of an archive with a Merge.
const mergeVersion = 2

// Archive returns the fields of the cell that are kept after the slot is freed.
func (c *Cell) Archive() Archive {
	return Archive{c.First, c.Head, c.Merge, c.Void, c.Undecided, c.Late} //rule:R3-exceptions
}

// Append encodes the archive.
func (a *Archive) Append(b []byte) []byte {
	version := byte(cellVersion)
	if a.Merge != 0 {
		version = mergeVersion
	}
	b = append(b, version)
	b = binary.AppendUvarint(b, uint64(a.First))
	b = binary.AppendUvarint(b, uint64(a.Head))
	if a.Merge != 0 {
		b = binary.AppendUvarint(b, uint64(a.Merge))
	}
	b = appendRevisions(b, a.Void)
	b = appendRevisions(b, a.Undecided)
	return appendRevisions(b, a.Late)
}

// DecodeArchive decodes exactly what Append encodes.
func DecodeArchive(b []byte) (Archive, error) {
	d := decoder{b: b, what: "archive"}
	version := d.byte("version")
	if d.err == nil && version != cellVersion && version != mergeVersion {
		return Archive{}, fmt.Errorf("archive of version %d: %w", version, table.ErrNewer)
	}
	a := Archive{First: d.revision("first"), Head: d.revision("head")}
	if version == mergeVersion {
		if a.Merge = d.revision("merge"); a.Merge == 0 {
			d.fail("merge", "zero")
		}
	}
	a.Void, a.Undecided, a.Late = d.revisions("void"), d.revisions("undecided"), d.revisions("late")
	return a, d.end()
}

// Shows reports whether r is visible within the archived incarnation. r must not be below
// First.
func (a *Archive) Shows(r table.Revision) bool {
	if r <= a.Head && !contains(a.Void, r) && !contains(a.Undecided, r) {
		return true
	}
	return contains(a.Late, r)
}

func contains(rs []table.Revision, r table.Revision) bool {
	if len(rs) == 0 {
		return false
	}
	_, ok := slices.BinarySearch(rs, r)
	return ok
}

// appendRevisions encodes a sorted list as differences.
func appendRevisions(b []byte, rs []table.Revision) []byte {
	b = binary.AppendUvarint(b, uint64(len(rs)))
	var last table.Revision
	for _, r := range rs {
		b = binary.AppendUvarint(b, uint64(r-last))
		last = r
	}
	return b
}

func appendBytes(b, v []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// A decoder decodes fields one after the other and records the first error.
type decoder struct {
	b    []byte
	what string
	err  error
}

func (d *decoder) fail(field, why string) {
	if d.err == nil {
		d.err = fmt.Errorf("%s, %s: %s: %w", d.what, field, why, table.ErrCorrupt)
	}
	d.b = nil
}

func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("end", fmt.Sprintf("%d bytes too many", len(d.b)))
	}
	return d.err
}

func (d *decoder) byte(field string) byte {
	if len(d.b) == 0 {
		d.fail(field, "cut short")
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) below(field string, limit uint8) uint8 {
	c := d.byte(field)
	if c > limit {
		d.fail(field, fmt.Sprintf("unknown value %d", c))
	}
	return c
}

func (d *decoder) uint64(field string) uint64 {
	if len(d.b) < 8 {
		d.fail(field, "cut short")
		return 0
	}
	n := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return n
}

// uvarint accepts only the shortest encoding, so that equal cells have equal bytes.
func (d *decoder) uvarint(field string) uint64 {
	n, k := binary.Uvarint(d.b)
	if k <= 0 {
		d.fail(field, "not a number")
		return 0
	}
	if k > 1 && d.b[k-1] == 0 {
		d.fail(field, "not the shortest form")
		return 0
	}
	d.b = d.b[k:]
	return n
}

func (d *decoder) revision(field string) table.Revision {
	n := d.uvarint(field)
	if n > uint64(Last) {
		d.fail(field, "beyond 63 bits")
		return 0
	}
	return table.Revision(n)
}

func (d *decoder) revisions(field string) []table.Revision {
	n := d.uvarint(field)
	if n > uint64(len(d.b)) { // each revision uses at least a byte
		d.fail(field, "cut short")
		return nil
	}
	var rs []table.Revision
	var last table.Revision
	for range n {
		step := d.revision(field)
		if d.err == nil && (step == 0 || step > Last-last) {
			d.fail(field, "not ascending")
		}
		if d.err != nil {
			return nil
		}
		last += step
		rs = append(rs, last)
	}
	return rs
}

func (d *decoder) bytes(field string) []byte {
	n := d.uvarint(field)
	if n > uint64(len(d.b)) {
		d.fail(field, "cut short")
		return nil
	}
	if n == 0 {
		return nil
	}
	v := slices.Clone(d.b[:n])
	d.b = d.b[n:]
	return v
}
