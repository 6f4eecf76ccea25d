// Package branches creates, changes and merges branches of a directory. A branch is a line
// of commits that are not visible outside of it until one commit, the merge, shows them
// all.
package branches

import (
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/branch"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

type (
	// An Info describes a branch.
	Info = branch.Info
	// A Conflict is what keeps a branch from being merged.
	Conflict = branch.Conflict
	// A Differing is an attribute that both sides of a conflict changed.
	Differing = branch.Differing
	// A ConflictError reports that a branch cannot be merged.
	ConflictError = branch.ConflictError
)

// A Branch is a branch of a directory.
type Branch struct{ b *branch.Branch }

// Options describe a branch that is created.
type Options struct {
	Name        string
	Description string
	By          partition.By
}

// CheckName returns an error if name cannot be the name of a branch.
func CheckName(name string) error { return branch.CheckName(name) }

// Create makes a branch whose base is the newest state. The error has the problem
// [partition.EntryExists] if another branch has the name.
func Create(ctx context.Context, p *partition.Partition, o Options) (*Branch, error) {
	b, err := branch.Create(ctx, p.Keeper(), o.Name, o.Description, o.By)
	if err != nil {
		return nil, err
	}
	return &Branch{b}, nil
}

// All returns the branches that are neither merged nor discarded.
func All(p *partition.Partition) (all []*Branch) {
	for _, b := range branch.All(p.Keeper()) {
		all = append(all, &Branch{b})
	}
	return all
}

// Count returns the number of open branches and the number of parked branches. The result
// oldest is the time of the oldest base of an open branch, or the zero time if no branch is
// open.
func Count(p *partition.Partition) (open, parked int, oldest time.Time) {
	return branch.Count(p.Keeper())
}

// Find returns the branch with the given name. If there is no such branch, the error has
// the problem [partition.NoSuchEntry].
func Find(p *partition.Partition, name string) (*Branch, error) {
	b, err := branch.Find(p.Keeper(), name)
	if err != nil {
		return nil, err
	}
	return &Branch{b}, nil
}

// Name returns the name of the branch.
func (b *Branch) Name() string { return b.b.Name() }

// Info describes the branch.
func (b *Branch) Info(ctx context.Context) (*Info, error) { return b.b.Info(ctx) }

// Changed returns the number of entries that commits in the branch touched and that exist in
// the branch or at its base. The number may be too small if i.All is set.
func (b *Branch) Changed(ctx context.Context, i *Info) (int, error) { return b.b.Effects(ctx, i) }

// Describe replaces the description of the branch.
func (b *Branch) Describe(ctx context.Context, by partition.By, description string) error {
	return b.b.Describe(ctx, by, description)
}

// Snapshot returns the branch's newest state: the state at the base with the changes of all
// commits in the branch. The caller must close the Snapshot.
func (b *Branch) Snapshot(ctx context.Context) (*partition.Snapshot, error) {
	return partition.NewSnapshot(b.b.Snapshot(ctx))
}

// At returns the state that the branch had when r was its newest commit. The caller must
// close it.
func (b *Branch) At(ctx context.Context, r table.Revision) (*partition.Snapshot, error) {
	return partition.NewSnapshot(b.b.At(ctx, r))
}

// Base returns the state at which the branch began. The caller must close it.
func (b *Branch) Base(ctx context.Context) (*partition.Snapshot, error) {
	return partition.NewSnapshot(b.b.Base(ctx))
}

// Newest returns the newest state of the trunk. The caller must close it.
func (b *Branch) Newest() *partition.Snapshot { return partition.Show(b.b.Newest()) }

// Update runs fn in a transaction in the branch, perhaps more than once. The transaction
// cannot change the schema or the settings of the directory.
func (b *Branch) Update(ctx context.Context, by partition.By, fn func(*partition.Tx) error) (table.Revision, error) {
	return b.b.Update(ctx, by, func(tx *write.Tx) error { return fn(partition.NewTx(tx)) })
}

// Conflicts returns what keeps the branch from being merged now. It changes nothing.
func (b *Branch) Conflicts(ctx context.Context) ([]Conflict, error) { return b.b.Conflicts(ctx) }

// Merge makes the branch visible by one commit and returns the commit's revision. The branch
// then no longer exists. If there are conflicts, Merge returns a ConflictError and does not
// merge the branch. If both the branch and other commits changed an entry, Merge first sets the
// entry's modifiersName, modifyTimestamp and entryCSN in the branch.
func (b *Branch) Merge(ctx context.Context, by partition.By) (table.Revision, error) {
	return b.b.Merge(ctx, by)
}

// Park parks the branch: from then on it can be read, rebased and discarded, but it takes
// no changes and cannot be merged. The past since the base is no longer kept for the branch.
func (b *Branch) Park(ctx context.Context) error { return b.b.Park(ctx) }

// Rename replaces the name of the branch. The error has the problem
// [partition.EntryExists] if another branch has the name.
func (b *Branch) Rename(ctx context.Context, name string) error { return b.b.Rename(ctx, name) }

// Discard ends the branch. Its changes are lost.
func (b *Branch) Discard(ctx context.Context) error { return b.b.Discard(ctx) }
