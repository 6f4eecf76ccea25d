package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A simBrancher is a client that works in branches. The branchers of all servers share a
// few names, so they commit in, merge, rename and discard the same branches at the same time.
type simBrancher struct {
	l   *simLife
	ctx context.Context
	db  *DB
}

func (b *simBrancher) run(random *splitmix) {
	for _, tx := range b.l.staged {
		if b.l.node.yield(b.ctx, fmt.Sprintf("%d: %v in a branch", tx.n, tx.op)) != nil {
			return
		}
		branch, err := b.open(branchName(random.next()))
		if err == nil {
			if b.transact(branch, tx); errors.Is(tx.failed, ErrParked) {
				err = b.look(branch)
			}
			err = errors.Join(err, b.end(branch, random.next()))
		}
		if tx.failed == nil && tx.acked == 0 {
			tx.failed = err
		}
		if wait := time.Duration(random.next() % uint64(100*time.Millisecond)); wait%2 == 0 && pause.For(b.ctx, wait) != nil {
			return
		}
	}
}

// branchName returns one of the names of branches.
func branchName(random uint64) string { return "b" + strconv.FormatUint(random%3, 10) }

// open returns the branch with the given name, and makes it if it does not exist.
func (b *simBrancher) open(name string) (*Branch, error) {
	branch, err := b.db.Branch(name)
	if errors.Is(err, ErrBranch) {
		branch, err = b.db.CreateBranch(b.ctx, name)
	}
	return branch, err
}

// end merges, discards, parks or renames a branch, or leaves it open. It notes acknowledged
// merges, which must be visible at the end of the history.
func (b *simBrancher) end(branch *Branch, random uint64) error {
	switch random % 9 {
	case 0:
		return branch.Discard(b.ctx)
	case 1, 2, 3, 4:
		r, err := branch.Merge(b.ctx, nil)
		if err == nil {
			b.l.w.merged[fmt.Sprintf("%d of slot %d", branch.incarnation, branch.slot)] = r
		}
		return err
	case 5:
		_, err := branch.Clashes(b.ctx)
		return err
	case 6:
		if err := branch.Park(b.ctx); err != nil {
			return err
		}
		return b.look(branch)
	case 7, 8:
		if err := branch.Rename(b.ctx, branchName(random/9)); err != nil {
			return err
		}
		return b.look(branch)
	}
	return nil
}

// look reads a branch, which may be parked, and checks what it shows.
func (b *simBrancher) look(branch *Branch) error {
	s, err := branch.Snapshot(b.ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	b.l.node.uses(s)
	read, err := readWhole(b.ctx, s, b.db.Table("data"), b.db.Table("other"), true)
	if err == nil {
		b.l.w.net.oracle.answersInBranch(s, read)
	}
	return err
}

// transact runs a transaction in a branch and records the answer.
func (b *simBrancher) transact(branch *Branch, tx *simTx) {
	o, data, other := b.l.w.net.oracle, b.db.Table("data"), b.db.Table("other")
	r, err := branch.Update(b.ctx, func(t *Tx) error {
		b.l.node.uses(t.snapshot)
		if _, ok := o.states[stateKey(t.snapshot.heads)]; !ok {
			o.breaks("I7: a branch of heads that there never were")
		}
		read, err := tx.op.do(b.ctx, t, tx.n, data, other)
		if read != nil {
			o.answersInBranch(t.snapshot, read)
		}
		if err != nil {
			return err
		}
		t.AtCommit(func(r table.Revision) {
			tx.tries = append(tx.tries, r)
			o.issued(r, &try{n: tx.n, op: tx.op, snapshot: t.snapshot, low: t.snapshot.low, marks: t.markRows, branch: b.l.node})
		})
		return nil
	})
	switch {
	case err == nil:
		tx.acked = r
	case errors.Is(err, ErrUnknown):
		tx.unknown = true
	}
	tx.failed = err
}

// answersInBranch checks the result of reading a branch. It must equal the result of
// replaying the operations that the branch's base shows and the branch's own operations,
// in the order of their revisions.
func (o *oracle) answersInBranch(b *Snapshot, got *simState) {
	got = got.clone()
	got.secret = unread // a branch shows the trunk's current secrets, which a replay does not compute
	want := newSimState()
	for _, r := range slices.Sorted(slices.Values(o.order)) {
		c := o.commits[r]
		if c.attempt != nil && c.state == journal.Committed && b.Visible(r) && !want.apply(c.attempt.n, c.attempt.op) {
			o.breaks("replaying a branch in the order of revisions, transaction %d (%v) at %s is refused", c.attempt.n, c.attempt.op, r)
		}
	}
	if !got.same(want) {
		o.breaks("a branch at %s reads %v, replaying what it shows gives %v", b.max, got, want)
	}
}
