package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// These errors end a Move although nothing has failed.
var (
	// ErrTaken means that another process follows now.
	ErrTaken = errors.New("another ldapd migrate is running with this store")
	// ErrEnded means that the directory no longer follows.
	ErrEnded = errors.New("the store no longer follows another server")
)

// Followed returns the server that the directory of a partition follows, or nil.
func Followed(p *partition.Partition) *catalog.Following {
	s := state.Newest(p)
	defer s.Close()
	return s.Catalog.Header.Following
}

// A cursor says how far the changes of a server have been copied.
type cursor struct {
	Owner   string            `json:"owner"` // the process that follows
	Cookies map[string][]byte `json:"cookies"`
	// Ahead are the subtrees with copied entries that are newer than the cookie. If such an
	// entry is deleted at the server, the server need not report the deletion to a client with
	// the old cookie. So the next refresh of the subtree uses no cookie.
	Ahead map[string]bool `json:"ahead,omitempty"`
}

func (c *cursor) clone() *cursor {
	next := &cursor{c.Owner, maps.Clone(c.Cookies), maps.Clone(c.Ahead)}
	if next.Cookies == nil {
		next.Cookies = map[string][]byte{}
	}
	return next
}

func (c *cursor) setAhead(bases ...string) {
	if c.Ahead == nil {
		c.Ahead = map[string]bool{}
	}
	for _, base := range bases {
		c.Ahead[base] = true
	}
}

// marshal returns the cursor as it is stored.
func (c *cursor) marshal() []byte {
	value, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and octets can always be encoded
	}
	return value
}

func readCursor(ctx context.Context, s *partition.Snapshot) (c cursor, err error) {
	value, err := write.Cursor(ctx, s)
	if err == nil && len(value) > 0 {
		err = json.Unmarshal(value, &c)
	}
	return c, err
}

// A place is the right of one process to follow, and how far it has followed. Both are stored in the
// cursor.
type place struct {
	p      *partition.Partition
	by     partition.By
	cursor cursor
	saved  []byte // the cursor as it was last written
}

func newPlace(p *partition.Partition, by partition.By) place {
	return place{p: p, by: by, cursor: cursor{Owner: entry.NewID().String(), Cookies: map[string][]byte{}}}
}

// clone returns a place of the same process.
func (h *place) clone() place { return place{h.p, h.by, *h.cursor.clone(), h.saved} }

// begin makes the directory follow a server.
func (h *place) begin(ctx context.Context, server *catalog.Following) error {
	_, err := write.Update(ctx, h.p, h.by, func(tx *partition.Tx) error {
		if f := (&tx.Snapshot).Catalog.Header.Following; f != nil {
			return fmt.Errorf("the store follows %s already", f.URL)
		}
		tx.SetCursor(h.cursor.marshal())
		return tx.SetFollowing(server)
	})
	h.wrote(&h.cursor)
	return err
}

// take makes this process follow the server that the directory follows, in place of any other.
func (h *place) take(ctx context.Context) error {
	_, err := write.Update(ctx, h.p, h.by, func(tx *partition.Tx) error {
		if (&tx.Snapshot).Catalog.Header.Following == nil {
			return ErrEnded
		}
		if err := h.read(ctx, &tx.Snapshot); err != nil {
			return err
		}
		tx.SetCursor(h.cursor.marshal())
		return nil
	})
	h.wrote(&h.cursor)
	return err
}

// reload reads the cursor after another place of this process has written it.
func (h *place) reload(ctx context.Context) error {
	s := state.Newest(h.p)
	defer s.Close()
	err := h.read(ctx, s)
	if err == nil {
		h.wrote(&h.cursor)
	}
	return err
}

// read reads the cursor, except its owner.
func (h *place) read(ctx context.Context, s *partition.Snapshot) error {
	c, err := readCursor(ctx, s)
	if err == nil {
		c.Owner = h.cursor.Owner
		h.cursor = *c.clone()
	}
	return err
}

// wrote notes that a cursor has been written.
func (h *place) wrote(c *cursor) { h.cursor, h.saved = *c, c.marshal() }

// The method "own" returns an error if another process follows, or if the directory no longer
// follows.
func (h *place) own(ctx context.Context, tx *partition.Tx) error {
	if (&tx.Snapshot).Catalog.Header.Following == nil {
		return ErrEnded
	}
	c, err := readCursor(ctx, &tx.Snapshot)
	if err == nil && c.Owner != h.cursor.Owner {
		err = ErrTaken
	}
	return err
}

// ahead returns the cursor with which the next refresh of each base begins anew.
func (h *place) ahead(bases []string) *cursor {
	c := h.cursor.clone()
	c.setAhead(bases...)
	return c
}

// end makes the directory stop following, so that it is open for updates.
func (h *place) end(ctx context.Context) error {
	_, err := write.Update(ctx, h.p, h.by, func(tx *partition.Tx) error {
		if err := h.own(ctx, tx); err != nil {
			return err
		}
		tx.SetCursor(nil)
		return tx.SetFollowing(nil)
	})
	return err
}

// Cancel makes the directory of a partition follow no server, without a comparison.
func Cancel(ctx context.Context, p *partition.Partition, by partition.By) error {
	_, err := write.Update(ctx, p, by, func(tx *partition.Tx) error {
		if (&tx.Snapshot).Catalog.Header.Following == nil {
			return ErrEnded
		}
		tx.SetCursor(nil)
		return tx.SetFollowing(nil)
	})
	return err
}
