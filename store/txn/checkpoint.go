package txn

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Checkpoint is a revision that stays readable beyond the retention of history.
type Checkpoint = journal.Checkpoint

// These are the errors of checkpoints.
var (
	// ErrCheckpoint: there is no checkpoint of that name.
	ErrCheckpoint = errors.New("no such checkpoint")
	// ErrCheckpointExists: there is already a checkpoint of that name.
	ErrCheckpointExists = errors.New("there is a checkpoint of that name")
	// ErrCheckpointName: the name is not valid for a checkpoint.
	ErrCheckpointName = errors.New("not a name for a checkpoint")
)

// maxCheckpoints bounds the number of checkpoints. For each checkpoint, garbage
// collection compares every cell with one more revision and may keep one more version of
// the cell.
const maxCheckpoints = 1000

// checkpointName matches no string that can be read as a time. It does match "now" and
// some strings that can be read as revisions, and IsCheckpointName excludes these.
var checkpointName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,63}$`)

// IsCheckpointName reports whether s is valid as the name of a checkpoint. A name is a
// letter followed by up to 63 letters, digits, dots, hyphens and underscores. It is
// neither "now" nor a revision.
func IsCheckpointName(s string) bool {
	_, err := revision.Parse(s)
	return err != nil && s != "now" && checkpointName.MatchString(s)
}

// checkpoints makes, finds and deletes the checkpoints of a DB.
type checkpoints struct{ db *DB }

// Checkpoint creates a checkpoint of the newest state. No later commit can have a
// revision at or below the checkpoint's revision. The revision therefore identifies the
// same state on every server, and garbage collection needs only the revision to keep
// that state. Checkpoint returns ErrConflict if the checkpoint is deleted while it is
// made, or if making it takes too long.
func (x *checkpoints) Checkpoint(ctx context.Context, name string) (Checkpoint, error) {
	if !IsCheckpointName(name) {
		return Checkpoint{}, fmt.Errorf("%w: %q: a letter and up to 63 letters, digits, '.', '_' and '-'", ErrCheckpointName, name)
	}
	all, err := x.Checkpoints(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	if len(all) >= maxCheckpoints {
		return Checkpoint{}, fmt.Errorf("there are %d checkpoints, which is the most: delete some", len(all))
	}
	// The snapshot keeps the state from being collected until the checkpoint is recorded.
	// If this server gives up, the record may reach the store when nobody keeps the state
	// any more. Such a record is never confirmed, and collections drop it.
	s, err := x.Settled(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	defer s.Close()
	c := Checkpoint{Name: name, Revision: s.Max(), Made: x.db.o.Now().UTC().Truncate(time.Millisecond)}
	token := x.db.o.random()
	var done bool
	err = x.db.horizon.mutate(ctx, func(ctx context.Context) (err error) {
		done, err = x.db.log.BeginCheckpoint(ctx, &c, token)
		return err
	})
	if err == nil && !done {
		return c, fmt.Errorf("%w: %s", ErrCheckpointExists, name)
	}
	if err == nil {
		err = x.db.horizon.mutate(ctx, func(ctx context.Context) (err error) {
			done, err = x.db.log.ConfirmCheckpoint(ctx, &c)
			return err
		})
	}
	if err == nil && !done {
		err = fmt.Errorf("%w: the checkpoint %s was deleted while it was made, or making it took too long", ErrConflict, name)
	}
	return c, err
}

// awaitBranches waits until the heads of a shared store are above all commits in
// branches. A copy of the store that ends at a checkpoint then contains these commits.
func (x *checkpoints) awaitBranches(ctx context.Context) error {
	v := x.db.current.Load().heads
	if v == nil || !x.db.Shared() {
		return nil
	}
	staged := table.Revision(0)
	for _, s := range v.Slots() {
		if c := v.Cell(s); inProgress(c) {
			staged = max(staged, c.Head)
		}
	}
	if staged == 0 {
		return nil
	}
	return x.untilDecided(ctx, func() error {
		_, err := x.db.views.until(ctx, staged)
		return err
	})
}

// dropUnfinished drops the checkpoints whose servers gave up before they confirmed them.
func (x *checkpoints) dropUnfinished(ctx context.Context, all []Checkpoint) error {
	for _, c := range all {
		if !c.IsPending() || x.db.o.Now().Sub(c.Made) < x.db.o.InFlight+deciding*x.db.o.Lease {
			continue
		}
		err := x.db.horizon.mutate(ctx, func(ctx context.Context) error {
			_, err := x.db.log.DropCheckpoint(ctx, c, x.db.o.Now())
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deciding is how many leases Checkpoint waits for commits of servers that have died.
// Other servers decide them after one lease.
const deciding = 6

// untilDecided calls the function read again as long as it returns ErrRevision, which means
// that the function has waited for commits and they are still undecided. Other servers need
// some time to decide the commits of a dead server. After that time, untilDecided returns the
// error.
func (x *checkpoints) untilDecided(ctx context.Context, read func() error) error {
	for end := time.Now().Add(deciding * x.db.o.Lease); ; {
		if err := read(); !errors.Is(err, ErrRevision) || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}

// Settled returns a state to which no commit can be added, and which shows every commit that any server had made
// when Settled was called.
func (x *checkpoints) Settled(ctx context.Context) (s *Snapshot, err error) {
	if err := x.db.CatchUp(ctx); err != nil {
		return nil, err
	}
	if err := x.awaitBranches(ctx); err != nil {
		return nil, err
	}
	err = x.untilDecided(ctx, func() (err error) {
		s, err = x.db.At(ctx, x.db.current.Load().max)
		return err
	})
	return s, err
}

// Checkpoints returns all checkpoints, sorted by name.
func (x *checkpoints) Checkpoints(ctx context.Context) ([]Checkpoint, error) {
	return x.db.log.Checkpoints(ctx)
}

// FindCheckpoint returns the checkpoint with the given name. It returns ErrCheckpoint if
// there is none.
func (x *checkpoints) FindCheckpoint(ctx context.Context, name string) (Checkpoint, error) {
	c, err := x.db.log.FindCheckpoint(ctx, name)
	switch {
	case err != nil:
		return Checkpoint{}, err
	case c == nil:
		return Checkpoint{}, fmt.Errorf("%w: %s", ErrCheckpoint, name)
	}
	return *c, nil
}

// DeleteCheckpoint removes a checkpoint. A later garbage collection removes the versions
// that only this checkpoint kept.
func (x *checkpoints) DeleteCheckpoint(ctx context.Context, name string) error {
	c, err := x.FindCheckpoint(ctx, name)
	if err != nil {
		return err
	}
	dropped, err := x.db.log.DropCheckpoint(ctx, c, x.db.o.Now())
	if err == nil && !dropped {
		err = fmt.Errorf("%w: %s", ErrCheckpoint, name)
	}
	return err
}
