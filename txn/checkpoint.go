package txn

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/revision"
)

// A Checkpoint is a moment that stays readable past retention.
type Checkpoint = journal.Checkpoint

// Errors of checkpoints.
var (
	// ErrCheckpoint: there is none of that name.
	ErrCheckpoint = errors.New("no such checkpoint")
	// ErrCheckpointExists: there is one already.
	ErrCheckpointExists = errors.New("there is a checkpoint of that name")
	// ErrCheckpointName: a checkpoint cannot be called so.
	ErrCheckpointName = errors.New("not a name for a checkpoint")
)

// maxCheckpoints bounds them: each costs garbage collection a comparison a cell
// and may keep a version of it.
const maxCheckpoints = 1000

// checkpointName is what no time is and, except revisions, nothing else that
// stands for a moment.
var checkpointName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,63}$`)

// IsCheckpointName reports whether a checkpoint may be called s: a letter, then up
// to 63 letters, digits, dots, hyphens and underscores, that are not "now" and no
// revision.
func IsCheckpointName(s string) bool {
	_, err := revision.Parse(s)
	return err != nil && s != "now" && checkpointName.MatchString(s)
}

// Checkpoint keeps the moment of all that is committed now. The moment is one
// revision: nothing will be committed at or below it any more, so it is the same
// state on every server, and all that garbage collection has to know.
func (db *DB) Checkpoint(ctx context.Context, name string) (Checkpoint, error) {
	if !IsCheckpointName(name) {
		return Checkpoint{}, fmt.Errorf("%w: %q: a letter and up to 63 letters, digits, '.', '_' and '-'", ErrCheckpointName, name)
	}
	all, err := db.Checkpoints(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	if len(all) >= maxCheckpoints {
		return Checkpoint{}, fmt.Errorf("there are %d checkpoints, which is the most: delete some", len(all))
	}
	if err := db.CatchUp(ctx); err != nil {
		return Checkpoint{}, err
	}
	// The snapshot keeps garbage collection off until the checkpoint does.
	s, err := db.At(ctx, db.current.Load().max)
	if err != nil {
		return Checkpoint{}, err
	}
	defer s.Close()
	c := Checkpoint{Name: name, Revision: s.Max(), Made: db.o.Now().UTC().Truncate(time.Millisecond)}
	var added bool
	err = db.horizon.mutate(ctx, func(ctx context.Context) (err error) {
		added, err = db.log.AddCheckpoint(ctx, c)
		return err
	})
	if err == nil && !added {
		err = fmt.Errorf("%w: %s", ErrCheckpointExists, name)
	}
	return c, err
}

// Checkpoints lists all checkpoints, by name.
func (db *DB) Checkpoints(ctx context.Context) ([]Checkpoint, error) { return db.log.Checkpoints(ctx) }

// FindCheckpoint returns one checkpoint, or ErrCheckpoint.
func (db *DB) FindCheckpoint(ctx context.Context, name string) (Checkpoint, error) {
	all, err := db.Checkpoints(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	for _, c := range all {
		if c.Name == name {
			return c, nil
		}
	}
	return Checkpoint{}, fmt.Errorf("%w: %s", ErrCheckpoint, name)
}

// DeleteCheckpoint returns a moment up: what only it kept goes with the next
// garbage collection.
func (db *DB) DeleteCheckpoint(ctx context.Context, name string) error {
	c, err := db.FindCheckpoint(ctx, name)
	if err != nil {
		return err
	}
	dropped, err := db.log.DropCheckpoint(ctx, c, db.o.Now())
	if err == nil && !dropped {
		err = fmt.Errorf("%w: %s", ErrCheckpoint, name)
	}
	return err
}
