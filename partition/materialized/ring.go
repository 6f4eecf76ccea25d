package materialized

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// Each task has an order of the servers (see ring). A server first waits for the servers before
// it in the order: the time patience for each of them. If none of them has done the task in
// that time, the server does the task itself.
const patience = 3 * time.Second

// A task is work that one server of a shared store should do. The task of a lane is to make
// the steps of the lane. The task with the lane -1 is to begin and end the generations of the
// view.
type task struct {
	id   entry.ID
	lane int
}

// A ring divides tasks among the servers that write a shared store, by rendezvous hashing:
// each task has its own order of the servers, which is the order of the hashes of task and
// server. If a server joins or leaves, only that server's tasks change hands. The first server
// does a task at once. A later server does the task if no other server has done it for some
// time, and continues until another server does it. The ring only saves work: the result is
// right even if several servers do a task at the same time.
type ring struct {
	patience time.Duration // 0: this server does everything
	waiting  map[task]waiting
}

// waiting is a task that another server should do.
type waiting struct {
	cell  string // content of the cell that the task changes
	since time.Time
}

// order returns the place of a server in the order for the task, or -1 if the server does not
// write to the store.
func (t task) order(own txn.Holder, all []txn.Holder) int {
	hash := func(h txn.Holder) uint64 {
		f := fnv.New64a()
		f.Write(t.id[:])
		f.Write(binary.BigEndian.AppendUint64([]byte{byte(t.lane), byte(h.Slot >> 8), byte(h.Slot)}, h.Incarnation))
		return f.Sum64()
	}
	if !slices.Contains(all, own) {
		return -1
	}
	sorted := slices.SortedFunc(slices.Values(all), func(a, b txn.Holder) int {
		return cmp.Or(cmp.Compare(hash(b), hash(a)), cmp.Compare(a.Slot, b.Slot))
	})
	return slices.Index(sorted, own)
}

// mine reports whether this server should now do a task that is due. cell is the present
// content of the cell that the task changes.
func (r *ring) mine(t task, db *txn.DB, cell []byte) bool {
	if r.patience == 0 {
		return true
	}
	return r.turn(t, t.order(db.Holder(), db.Holders()), cell, time.Now())
}

// turn implements mine for a server with the given place in the order.
func (r *ring) turn(t task, place int, cell []byte, now time.Time) bool {
	switch w, ok := r.waiting[t]; {
	case place < 0:
		return false
	case place == 0:
		delete(r.waiting, t)
		return true
	case !ok || w.cell != string(cell):
		r.waiting[t] = waiting{string(cell), now}
		return false
	default:
		return now.Sub(w.since) >= time.Duration(place)*r.patience
	}
}

// forget removes what the ring remembers of a view.
func (r *ring) forget(id entry.ID) {
	maps.DeleteFunc(r.waiting, func(t task, _ waiting) bool { return t.id == id })
}

// did stores in the ring that this server has done a task, and the content of the cell
// afterwards. As long as no other server changes the cell, this server need not wait again.
func (r *ring) did(t task, cell []byte) {
	if _, ok := r.waiting[t]; ok {
		r.waiting[t] = waiting{cell: string(cell)}
	}
}
