package partition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// settingsAt gives the header with the settings that a state shows: h, if they are
// the same.
func (p *Partition) settingsAt(ctx context.Context, r txn.Reader, h *header) (*header, error) {
	if p.config == nil {
		return p.origin, nil
	}
	row, err := r.Get(ctx, p.config, settingsRow, table.Select{Families: []table.Family{headerFamily}})
	if err != nil {
		return nil, err
	}
	c := row.Find(headerFamily, headerColumn)
	switch {
	case c == nil:
		return p.origin, nil
	case c.Revision == h.since:
		return h, nil
	}
	now := *p.origin
	now.settings, now.since = settings{}, c.Revision
	if err := json.Unmarshal(c.Value, &now.settings); err != nil {
		return nil, fmt.Errorf("settings: %w: %w", table.ErrCorrupt, err)
	}
	return &now, nil
}

// mutation writes the settings.
func (s *settings) mutation() (table.Mutation, error) {
	raw, err := json.Marshal(s)
	cell := table.Cell{Family: headerFamily, Qualifier: headerColumn, Value: raw}
	return table.Mutation{Row: settingsRow, Cells: []table.Cell{cell}}, err
}

// markShared puts the changes of all that servers share in one order.
func (tx *Tx) markShared() {
	tx.tx.Mark(tx.p.config, settingsRow, txn.Mark{Kind: txn.MarkExclusive})
	tx.tx.Touch(subschemaID) // which every snapshot asks for
}

// reconfigure changes the settings in a transaction, to those that a function
// gives, perhaps more than once.
func (p *Partition) reconfigure(ctx context.Context, change func(*Tx) (*header, error)) (table.Revision, error) {
	return p.update(ctx, By{}, func(tx *Tx) error {
		h, err := change(tx)
		if err != nil {
			return err
		}
		tx.message = append(tx.message, "\nconfigure"...)
		return tx.configure(h)
	})
}

// configure writes the settings of a header.
func (tx *Tx) configure(h *header) error {
	m, err := h.mutation()
	if err != nil {
		return err
	}
	tx.markShared()
	tx.write(tx.p.config, m)
	return nil
}

// install puts the settings of a catalog into force that was made of those of now.
func (p *Partition) install(ctx context.Context, c *catalog) (table.Revision, error) {
	return p.reconfigure(ctx, func(tx *Tx) (*header, error) {
		if tx.catalog.header.since != c.header.since {
			return nil, errHeaderChanged
		}
		return c.header, nil
	})
}

// reshape begins a change of what all servers share, and keeps this one from
// beginning another: beside updates, which go by what a step has brought, or, where
// there is one server, without them. What it gives ends that.
func (p *Partition) reshape(ctx context.Context) (end func(), err error) {
	if !p.db.Shared() {
		p.changing.Lock()
		return p.changing.Unlock, nil
	}
	p.reshaping.Lock()
	p.changing.RLock() // no load
	end = func() {
		p.changing.RUnlock()
		p.reshaping.Unlock()
	}
	if err := p.db.CatchUp(ctx); err != nil { // others may just have changed it
		end()
		return nil, err
	}
	return end, nil
}

// errUnchanged ends a transaction that has nothing to do.
var errUnchanged = errors.New("nothing changes")

// SetSuffixes changes the naming contexts. One that has entries stays.
func (p *Partition) SetSuffixes(ctx context.Context, suffixes []string) error {
	return p.changeSuffixes(ctx, func(c *catalog) (*catalog, error) {
		h := *c.header
		h.Suffixes = slices.Clone(suffixes)
		return c.with(&h)
	})
}

// AddSuffixes makes naming contexts known that are not. If all are, it needs no
// right to write: a server can start while it has none.
func (p *Partition) AddSuffixes(ctx context.Context, suffixes []string) error {
	if now, err := p.latest(); err == nil {
		if after, err := now.withSuffixes(suffixes); err == nil && after == now {
			return nil
		}
	}
	return p.changeSuffixes(ctx, func(c *catalog) (*catalog, error) { return c.withSuffixes(suffixes) })
}

func (p *Partition) changeSuffixes(ctx context.Context, change func(*catalog) (*catalog, error)) error {
	p.changing.RLock()
	defer p.changing.RUnlock()
	_, err := p.reconfigure(ctx, func(tx *Tx) (*header, error) {
		after, err := change(tx.catalog)
		if err != nil {
			return nil, err
		}
		if after == tx.catalog {
			return nil, errUnchanged
		}
		return after.header, tx.replaces(ctx, after)
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// replaces tests that no entry is lost to sight when naming contexts come and
// go. Entries that others add at the same time would have the rows that it marks.
func (tx *Tx) replaces(ctx context.Context, now *catalog) error {
	for _, x := range tx.catalog.contexts {
		if now.hasContext(x.rdn) {
			continue
		}
		key := tree.Key(root, x.rdn)
		if _, ok, err := tx.child(ctx, key); err != nil || ok {
			if err == nil {
				err = problem(Unwilling, "naming context %s has entries: delete them first", x.name)
			}
			return err
		}
		tx.tx.Mark(tx.p.tree, key, txn.Mark{Kind: txn.MarkExclusive})
	}
	for _, x := range now.contexts {
		if tx.catalog.hasContext(x.rdn) {
			continue
		}
		pl, err := tx.locate(ctx, x.name)
		if err == nil && pl.found {
			err = problem(Unwilling, "%q cannot become a naming context: it is an entry of the directory already", x.name)
		}
		if err != nil {
			return err
		}
		if pl.rdn != "" { // in another context, where it could become an entry
			tx.tx.Mark(tx.p.tree, tree.Key(pl.Parent, pl.rdn), txn.Mark{Kind: txn.MarkExclusive})
		}
	}
	return nil
}

func (c *catalog) hasContext(rdn dn.Norm) bool {
	return slices.ContainsFunc(c.contexts, func(x namingContext) bool { return x.rdn == rdn })
}
