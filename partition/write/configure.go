package write

import (
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// Reconfigure runs a transaction that replaces the settings in force by the settings that the
// function change returns. The transaction may be tried again, so it may call change more than
// once.
func Reconfigure(ctx context.Context, p *catalog.Partition, by By, change func(*Tx) (*catalog.Header, error)) (table.Revision, error) {
	return UpdateLocked(ctx, p, by, func(tx *Tx) error {
		h, err := change(tx)
		if err != nil {
			return err
		}
		tx.Message = append(tx.Message, "\nconfigure"...)
		return tx.Configure(h)
	})
}

// SetMoved sets Settings.MovedTo. From the commit on, the directory takes no updates, or takes them again if "to" is
// empty. It returns when every server applies this.
func SetMoved(ctx context.Context, p *catalog.Partition, by By, to string) error {
	c, err := p.Latest()
	if err == nil && c.Header.MovedTo != to {
		_, err = update(ctx, p, by, true, func(tx *Tx) error {
			h := *tx.Catalog.Header
			h.MovedTo = to
			tx.Message = append(tx.Message, "\nconfigure"...)
			return tx.Configure(&h)
		})
		if err == nil {
			c, err = p.Latest()
		}
	}
	if err != nil {
		return err
	}
	if err := p.DB.AwaitStep(ctx, c.Header.Since); err != nil {
		return fmt.Errorf("not every server follows a change of the settings; all must have this version or a later one: %w", err)
	}
	return nil
}

// Configure writes the settings of a header.
func (tx *Tx) Configure(h *catalog.Header) error {
	if err := tx.RefuseInBranch(); err != nil {
		return err
	}
	m, err := h.Mutation()
	if err != nil {
		return err
	}
	tx.MarkShared(!h.SameForEntries(tx.Catalog.Header))
	tx.Write(tx.Partition.SettingsTable, m)
	return nil
}

// SetAccess replaces the access rules.
func (tx *Tx) SetAccess(rules []catalog.AccessRule) error {
	h := *tx.Catalog.Header
	h.Access = rules
	return tx.reconfigure(&h)
}

// SetPolicy replaces the default password policy.
func (tx *Tx) SetPolicy(policy []catalog.PolicyAttribute) error {
	h := *tx.Catalog.Header
	h.Policy = policy
	return tx.reconfigure(&h)
}

func (tx *Tx) reconfigure(h *catalog.Header) error {
	next, err := tx.Catalog.With(h)
	if err != nil {
		return err
	}
	if err := tx.Configure(h); err != nil {
		return err
	}
	tx.Catalog = next
	return nil
}

// Install replaces the settings in force by the settings of a catalog. It returns
// catalog.ErrHeaderChanged if the settings in force are not the settings from which the
// catalog was derived.
func Install(ctx context.Context, p *catalog.Partition, by By, c *catalog.Catalog) (table.Revision, error) {
	return Reconfigure(ctx, p, by, func(tx *Tx) (*catalog.Header, error) {
		if tx.Catalog.Header.Since != c.Header.Since {
			return nil, catalog.ErrHeaderChanged
		}
		return c.Header, nil
	})
}

// MarkShared makes concurrent changes of the shared configuration conflict. If binds is
// set, the change binds entries: an entry that was written under the earlier configuration
// may violate the new configuration, or may be missing in an index. Such a change also
// conflicts with each branch that began before it and has changed entries.
func (tx *Tx) MarkShared(binds bool) {
	tx.Txn.Mark(tx.Partition.SettingsTable, catalog.SettingsRow, txn.Mark{Kind: txn.MarkExclusive, Deletes: binds})
	tx.Txn.Touch(catalog.SubschemaID) // every snapshot checks whether this id was touched
}
