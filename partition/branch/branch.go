// Package branch implements the branches of a directory. A branch is a line of commits
// that are not visible outside of it until one commit, the merge, shows them all.
package branch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// A Branch is a branch of a directory.
type Branch struct {
	k *catalog.Partition
	b *txn.Branch
}

// These kinds of operations in commit messages are about the branch itself: its beginning, its
// description and its merge.
const (
	opBegin    = "branch" // the first commit in a branch; its Name is the branch's name
	opDescribe = "describe"
	opMerge    = "merge"
)

// maxName is the largest length of a branch's name, in octets.
const maxName = 64

// CheckName returns an error if name cannot be the name of a branch.
func CheckName(name string) error {
	switch {
	case name == "" || len(name) > maxName || !utf8.ValidString(name):
		return catalog.Errorf(catalog.Constraint, "the name of a branch must have 1 to %d octets of UTF-8", maxName)
	case strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl):
		return catalog.Errorf(catalog.Constraint, "the name of a branch must not begin or end with a space, and must not contain control characters")
	}
	return nil
}

// Options describe a branch that is created.
type Options struct {
	Name        string
	Description string
	By          write.By
}

// Create makes a branch whose base is the newest state. The error has the problem
// [catalog.EntryExists] if another branch has the name.
func Create(ctx context.Context, k *catalog.Partition, o Options) (*Branch, error) {
	if err := CheckName(o.Name); err != nil {
		return nil, err
	}
	b, err := k.DB.CreateBranch(ctx, o.Name)
	if err != nil {
		return nil, failure(err)
	}
	x := &Branch{k, b}
	// The branch's first commit says who made the branch.
	says := []write.Operation{{Kind: opBegin, Name: o.Name}}
	if o.Description != "" {
		says = append(says, write.Operation{Kind: opDescribe, Name: o.Description})
	}
	if err := x.note(ctx, o.By, says...); err != nil {
		if left := b.Discard(context.WithoutCancel(ctx)); left != nil && !errors.Is(left, txn.ErrBranch) {
			err = fmt.Errorf("%w: %w: the branch %s is left: %w", txn.ErrUnknown, err, o.Name, left)
		}
		return nil, err
	}
	return x, nil
}

// note commits a message in the branch.
func (b *Branch) note(ctx context.Context, by write.By, operations ...write.Operation) error {
	m := write.Message{By: by, Operations: operations}
	_, err := b.b.Update(ctx, func(tx *txn.Tx) error {
		tx.SetMessage(m.Append(nil))
		return nil
	})
	return failure(err)
}

// Describe replaces the description of the branch.
func (b *Branch) Describe(ctx context.Context, by write.By, description string) error {
	return b.note(ctx, by, write.Operation{Kind: opDescribe, Name: description})
}

// All returns the branches that are neither merged nor discarded.
func All(k *catalog.Partition) (all []*Branch) {
	for _, b := range k.DB.Branches() {
		all = append(all, &Branch{k, b})
	}
	return all
}

// Count returns the number of open branches and the number of parked branches. The result oldest
// is the time of the oldest base of an open branch, or the zero time if no branch is open.
func Count(k *catalog.Partition) (open, parked int, oldest time.Time) {
	for _, b := range k.DB.Branches() {
		i, err := b.Info()
		switch {
		case err != nil: // the branch has just ended
		case i.Parked:
			parked++
		default:
			if open++; oldest.IsZero() || i.Base.Time().Before(oldest) {
				oldest = i.Base.Time()
			}
		}
	}
	return open, parked, oldest
}

// Find returns the branch with the given name. Names are case-sensitive. If there is no such
// branch, the error has the problem [catalog.NoSuchEntry].
func Find(k *catalog.Partition, name string) (*Branch, error) {
	b, err := k.DB.Branch(name)
	if err != nil {
		return nil, failure(err)
	}
	return &Branch{k, b}, nil
}

// Name returns the name of the branch.
func (b *Branch) Name() string { return b.b.Name() }

// Snapshot returns the branch's newest state. The caller must close it.
func (b *Branch) Snapshot(ctx context.Context) (*state.Snapshot, error) {
	s, err := b.b.Snapshot(ctx)
	return b.of(ctx, s, err)
}

// At returns the state that the branch had when r was its newest commit.
func (b *Branch) At(ctx context.Context, r table.Revision) (*state.Snapshot, error) {
	s, err := b.b.At(ctx, r)
	return b.of(ctx, s, err)
}

func (b *Branch) of(ctx context.Context, s *txn.Snapshot, err error) (*state.Snapshot, error) {
	if err != nil {
		return nil, failure(err)
	}
	return state.Of(ctx, b.k, s)
}

// Base returns the state at which the branch began.
func (b *Branch) Base(ctx context.Context) (*state.Snapshot, error) {
	i, err := b.b.Info()
	if err != nil {
		return nil, failure(err)
	}
	return state.At(ctx, b.k, i.Base)
}

// Newest returns the newest state of the trunk.
func (b *Branch) Newest() *state.Snapshot { return state.Newest(b.k) }

// Update runs fn in a transaction in the branch, as write.Update does on the trunk.
func (b *Branch) Update(ctx context.Context, by write.By, fn func(*write.Tx) error) (table.Revision, error) {
	r, err := write.UpdateBranch(ctx, b.k, b.b, by, fn)
	return r, failure(err)
}

// Rename replaces the name of the branch.
func (b *Branch) Rename(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return failure(b.b.Rename(ctx, name))
}

// Park parks the branch: from then on it takes no changes and cannot be merged.
func (b *Branch) Park(ctx context.Context) error { return failure(b.b.Park(ctx)) }

// Discard ends the branch. Its changes are lost.
func (b *Branch) Discard(ctx context.Context) error { return failure(b.b.Discard(ctx)) }

// An Info describes a branch.
type Info struct {
	Name, Description string
	By                write.By // who made the branch
	Made              time.Time
	Base              table.Revision
	Head              table.Revision // the newest commit in the branch
	Merging, Parked   bool
	Commits           int        // number of commits that changed entries
	IDs               []entry.ID // what these commits touched: entries, and other things with an id
	All               bool       // IDs is incomplete: a commit touched more than its record lists

	last map[entry.ID]*commit
}

// State returns the state of the branch as a word: open, merging or parked.
func (i *Info) State() string {
	switch {
	case i.Parked:
		return "parked"
	case i.Merging:
		return "merging"
	}
	return "open"
}

// A commit is one commit in a branch.
type commit struct {
	by       write.By
	revision table.Revision
}

// Last returns the newest commit in the branch that touched an id: who made the commit, and
// its revision. The revision is 0 if no commit lists the id.
func (i *Info) Last(id entry.ID) (by write.By, r table.Revision) {
	if c := i.last[id]; c != nil {
		return c.by, c.revision
	}
	return by, 0
}

// Info describes the branch.
func (b *Branch) Info(ctx context.Context) (*Info, error) {
	now, err := b.b.Info()
	if err != nil {
		return nil, failure(err)
	}
	i := &Info{Name: b.Name(), Made: now.First.Time(), Base: now.Base, Head: now.Head, Merging: now.Merging, Parked: now.Parked, last: map[entry.ID]*commit{}}
	for rec, err := range b.b.Commits(ctx) {
		if err != nil {
			return nil, failure(err)
		}
		i.add(rec)
	}
	return i, nil
}

func (i *Info) add(rec *journal.Record) {
	m := write.ParseMessage(rec.Message)
	for _, o := range m.Operations {
		switch o.Kind {
		case opBegin:
			i.By = m.By
		case opDescribe:
			i.Description = o.Name
		}
	}
	if len(rec.IDs) == 0 && !rec.AllChanged {
		return
	}
	i.Commits++
	i.All = i.All || rec.AllChanged
	c := &commit{m.By, rec.Revision}
	for _, id := range rec.IDs {
		if i.last[id] == nil {
			i.IDs = append(i.IDs, id)
		}
		i.last[id] = c
	}
}

// Changed counts the entries that commits in the branch touched and that exist in the branch or
// at its base. The number may be too small if i.All is set.
func (b *Branch) Changed(ctx context.Context, i *Info) (n int, err error) {
	from, err := b.Base(ctx)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	to, err := b.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	defer to.Close()
	for _, err := range changestream.Effects(ctx, from, to, i.IDs) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// failure converts an error of package txn to a *catalog.Error, if there is a catalog.Problem
// for the error.
func failure(err error) error {
	if errors.Is(err, txn.ErrUnknown) {
		return err
	}
	for sentinel, problem := range map[error]catalog.Problem{
		txn.ErrBranch: catalog.NoSuchEntry, txn.ErrBranchExists: catalog.EntryExists, txn.ErrBranches: catalog.TooMany,
		txn.ErrParked: catalog.Unwilling,
	} {
		if errors.Is(err, sentinel) {
			return &catalog.Error{Problem: problem, Text: err.Error()}
		}
	}
	return err
}
