package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// An Owner identifies the store and the folder that may write to an archive.
type Owner struct {
	Format int
	Store  string // id of the store; copies of the store have the same id
	Epoch  Epoch
	Writer string // id of the folder
	Server string // host and folder of the writer, for messages
	Since  time.Time
	// Promoted is the newest commit that the writer had when it was promoted from a
	// standby. It is 0 if the writer was not promoted, or if its promotion has not ended.
	Promoted table.Revision `json:",omitempty"`
	tag      string
}

// ReadOwner reads the owner of an archive. It returns nil if there is none.
func ReadOwner(ctx context.Context, p Place) (*Owner, error) {
	b, tag, err := p.Read(ctx, ownerName)
	if err != nil || tag == "" {
		return nil, err
	}
	o := &Owner{tag: tag}
	if err := json.Unmarshal(b, o); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, ownerName, err)
	}
	if o.Format > format {
		return nil, newer("the archive", o.Format)
	}
	return o, nil
}

// write makes o the owner of the archive if previous is still the owner. If previous is nil,
// write succeeds only if the archive has no owner.
func (o *Owner) write(ctx context.Context, p Place, previous *Owner) error {
	b, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	tag := ""
	if previous != nil {
		tag = previous.tag
	}
	return p.Swap(ctx, ownerName, tag, append(b, '\n'))
}

// checkOwner returns the owner of the archive, and reports whether the epoch of the
// archive belongs to this folder (ours). If ours is false and err is nil, this folder
// may begin a new epoch. If this folder may not write to the archive, checkOwner
// returns an error.
func checkOwner(ctx context.Context, p Place, st *state) (ours bool, o *Owner, err error) {
	if o, err = ReadOwner(ctx, p); err != nil || o == nil {
		return false, o, err
	}
	switch {
	case o.Store != st.Store:
		return false, o, fmt.Errorf("%w: it was begun by %s", ErrForeign, o.Server)
	case o.Writer != st.Writer && !st.TakeOver && o.Promoted != 0:
		return false, o, fmt.Errorf("%w by %s at %s, a standby that was promoted; %w",
			ErrTakenOver, o.Server, o.Since.Format(time.RFC3339), ErrNotOwner)
	case o.Writer != st.Writer && !st.TakeOver:
		return false, o, fmt.Errorf("%w by %s at %s: this folder was copied, or the store was restored elsewhere; %w",
			ErrTakenOver, o.Server, o.Since.Format(time.RFC3339), ErrNotOwner)
	}
	return o.Writer == st.Writer && o.Epoch == st.Epoch, o, nil
}
