package bulk

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/load"
)

// errOfBranch is the error of a record that an import into a branch refuses because it contains
// definitions or the shared configuration.
var errOfBranch = errors.New("the schema and the settings of the directory cannot be changed in a branch: leave this record out, or import it outside of the branch")

// intoBranch applies the records in batches. It stops after the first batch with a bad
// record, and applies nothing of that batch.
func (c *changer) intoBranch(ctx context.Context) error {
	var batch []item
	size, most := 0, load.CommitSize(c.p)
	for x := range c.o.items() {
		if x.bad == nil && (x.defines() || x.configures()) {
			x.bad = x.wrong(errOfBranch)
		}
		batch, size = append(batch, x), size+x.size()
		if len(batch) < most && size < commitBytes {
			continue
		}
		if err := c.batch(ctx, batch); err != nil || c.res.Bad > 0 {
			return err
		}
		batch, size = nil, 0
	}
	return c.batch(ctx, batch)
}

// batch applies the records in one commit. If one of them is bad, it applies none of them.
func (c *changer) batch(ctx context.Context, batch []item) error {
	if len(batch) == 0 {
		return nil
	}
	r, err := c.update()(ctx, c.o.By, func(tx *partition.Tx) error { return c.applyAll(ctx, tx, batch) })
	switch {
	case errors.Is(err, ErrBad):
		return nil // each bad record has been counted
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: %d records are in the branch", c.res.Done)
	case err == nil:
		c.tally.keep()
		c.took(len(batch))
		c.res.Revision = r
		c.o.Progress.entries.Add(int64(len(batch)))
	}
	return err
}
