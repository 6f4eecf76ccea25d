package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// An Owner says who writes to an archive.
type Owner struct {
	Format int
	Store  string // an id that the store keeps
	Epoch  Epoch
	Writer string // an id that one folder keeps
	Server string // for people
	Since  time.Time
	tag    string
}

// ReadOwner reads who owns an archive; nil: nobody.
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

// write makes o the owner in place of who was read, who may be nil.
func (o *Owner) write(ctx context.Context, p Place, was *Owner) error {
	b, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	tag := ""
	if was != nil {
		tag = was.tag
	}
	return p.Swap(ctx, ownerName, tag, append(b, '\n'))
}

// checkOwner says whether this store may go on in its epoch (ours), or begin a new one,
// and returns who owns the archive.
func checkOwner(ctx context.Context, p Place, st *state) (ours bool, o *Owner, err error) {
	if o, err = ReadOwner(ctx, p); err != nil || o == nil {
		return false, o, err
	}
	switch {
	case o.Store != st.Store:
		return false, o, fmt.Errorf("%w: it was begun by %s", ErrForeign, o.Server)
	case o.Writer != st.Writer && !st.TakeOver:
		return false, o, fmt.Errorf("%w by %s at %s: this folder was copied, or the store was restored elsewhere; 'ldapd backup --take-over' has this one go on",
			ErrTakenOver, o.Server, o.Since.Format(time.RFC3339))
	}
	return o.Writer == st.Writer && o.Epoch == st.Epoch, o, nil
}
