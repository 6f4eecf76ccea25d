package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// settingsAt returns a header with the settings that a state shows. It returns h if h has
// these settings.
func (p *Partition) settingsAt(ctx context.Context, r table.Reader, h *Header) (*Header, error) {
	if p.SettingsTable == nil {
		return p.Origin, nil
	}
	row, err := r.Get(ctx, p.SettingsTable, SettingsRow, table.Select{Families: []table.Family{HeaderFamily}})
	if err != nil {
		return nil, err
	}
	c := row.Find(HeaderFamily, headerColumn)
	switch {
	case c == nil:
		return p.Origin, nil
	case c.Revision == h.Since:
		return h, nil
	}
	now := *p.Origin
	now.Settings, now.Since = Settings{}, c.Revision
	if err := json.Unmarshal(c.Value, &now.Settings); err != nil {
		return nil, fmt.Errorf("settings: %w: %w", table.ErrCorrupt, err)
	}
	now.dropBarrier()
	return &now, nil
}

// AccessAt returns the access rules that a state shows. It returns nil if the directory
// had never had access rules until then.
func (c *Catalog) AccessAt(ctx context.Context, r table.Reader) ([]AccessRule, error) {
	h, err := c.p.settingsAt(ctx, r, c.Header)
	if err != nil {
		return nil, err
	}
	return h.Access, nil
}

// PolicyAt returns the default password policy that a state shows, or nil.
func (c *Catalog) PolicyAt(ctx context.Context, r table.Reader) ([]PolicyAttribute, error) {
	h, err := c.p.settingsAt(ctx, r, c.Header)
	if err != nil {
		return nil, err
	}
	return h.Policy, nil
}

// SettingsSince returns the commit that wrote the settings that a state shows, or 0 if no
// commit wrote them.
func (c *Catalog) SettingsSince(ctx context.Context, r table.Reader) (table.Revision, error) {
	h, err := c.p.settingsAt(ctx, r, c.Header)
	if err != nil {
		return 0, err
	}
	return h.Since, nil
}

// SameForEntries reports whether entries that were written under s are valid under the
// settings of h too: both have the same naming contexts, indexes, unique attributes and
// references.
func (s *Settings) SameForEntries(h *Header) bool {
	o := &h.Settings
	return slices.Equal(s.Suffixes, o.Suffixes) && slices.Equal(s.Indexes, o.Indexes) &&
		slices.Equal(s.Unique, o.Unique) && slices.Equal(s.References, o.References)
}

// Mutation returns the mutation that writes the settings of a store.
func (h *Header) Mutation() (table.Mutation, error) {
	s := h.stored()
	return s.Mutation()
}

// Mutation returns the mutation that writes settings as they were read from a store.
func (s *Settings) Mutation() (table.Mutation, error) {
	raw, err := json.Marshal(s)
	cell := table.Cell{Family: HeaderFamily, Qualifier: headerColumn, Value: raw}
	return table.Mutation{Row: SettingsRow, Cells: []table.Cell{cell}}, err
}

// Reshape begins a change of the shared configuration and keeps this server from
// beginning another such change. If several servers share the store, updates continue
// during the change, and the change is made in steps. If the store has only one server,
// updates wait until the change ends. end ends the change.
func (p *Partition) Reshape(ctx context.Context) (end func(), err error) {
	if !p.DB.Shared() {
		p.Changing.Lock()
		return p.Changing.Unlock, nil
	}
	p.reshaping.Lock()
	p.Changing.RLock() // excludes loads
	end = func() {
		p.Changing.RUnlock()
		p.reshaping.Unlock()
	}
	// another server may have changed the configuration
	if err := p.DB.CatchUp(ctx); err != nil {
		end()
		return nil, err
	}
	return end, nil
}
