package history

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldif"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changes"
	"github.com/seed-4dac0d86/ldapd/partition/past"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
)

// A Change is what one commit did to one entry, and who made it.
type Change struct {
	Revision table.Revision
	// Number counts the changes of a commit, from 0.
	Number int
	By     partition.By
	// Record is the change. It has no request for an erasure, nor for a commit that
	// changed too many entries to list, such as an import.
	Record
	// Kind is add, delete, modify, modrdn, erase (part of the entry's past was erased),
	// or the journal's name for a commit that changed too many entries to list.
	Kind string
	// Secrets are the secret attributes whose values changed.
	Secrets []string
}

// Time returns when the change was committed.
func (c *Change) Time() time.Time { return c.Revision.Time().UTC() }

// NewName returns the new name of a renamed entry, or "" for other changes.
func (c *Change) NewName() string {
	if r, ok := c.Request.(*op.ModifyDN); ok {
		return c.newName(r)
	}
	return ""
}

// newName returns the name after a rename.
func (r *Record) newName(c *op.ModifyDN) string {
	superior := ""
	if c.NewSuperior != nil {
		superior = *c.NewSuperior
	} else if old, err := dn.Parse(r.Name); err == nil {
		superior = old.Parent().String()
	}
	if superior == "" {
		return c.NewRDN
	}
	return c.NewRDN + "," + superior
}

// Changes streams the changes of the commits that a snapshot shows after a revision, in
// the order of their revisions. The snapshot must be of one revision, like those of
// Partition.Settled and Partition.At. The changes are found by comparing the states
// before and after each commit. Recording them would have cost every commit, for few
// readers.
func Changes(ctx context.Context, p *partition.Partition, s *partition.Snapshot, after table.Revision) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for c, err := range changes.ShownAfter(ctx, s, after) {
			if err != nil {
				yield(nil, err)
				return
			}
			for x, err := range Of(ctx, p, c) {
				if !yield(x, err) || err != nil {
					return
				}
			}
		}
	}
}

// Of streams the changes of one commit.
func Of(ctx context.Context, p *partition.Partition, c *changes.Change) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		note := past.ParseMessage(c.Message)
		if c.All {
			unnamed(c, &note, yield)
			return
		}
		if slices.ContainsFunc(note.Operations, func(o past.Operation) bool { return o.Kind == past.Erasure }) {
			erasure(ctx, p, c, &note, yield)
			return
		}
		before, err := p.At(ctx, c.Revision-1)
		if err != nil {
			yield(nil, err)
			return
		}
		defer before.Close()
		after, err := p.At(ctx, c.Revision)
		if err != nil {
			yield(nil, err)
			return
		}
		defer after.Close()
		d := &Difference{From: before, To: after, IDs: c.IDs, Touched: true}
		n := 0
		for r, err := range d.Records(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			x := &Change{Revision: c.Revision, Number: n, By: note.By, Record: *r, Kind: kindOf(r.Request)}
			x.Secrets = secretsOf(&note, x, after.Schema())
			if n++; !yield(x, nil) {
				return
			}
		}
	}
}

// unnamed streams the operations of a commit that changed too many entries to list, as
// recorded in the journal.
func unnamed(c *changes.Change, note *past.Message, yield func(*Change, error) bool) {
	for i, o := range note.Operations {
		x := &Change{Revision: c.Revision, Number: i, By: note.By, Record: Record{Name: o.Name}, Kind: o.Kind, Secrets: o.Secrets}
		if !yield(x, nil) {
			return
		}
	}
}

// erasure streams the notices of an erasure, one for each entry whose past was changed.
// An entry that no longer exists is named by its entryUUID.
func erasure(ctx context.Context, p *partition.Partition, c *changes.Change, note *past.Message, yield func(*Change, error) bool) {
	s, err := p.At(ctx, c.Revision)
	if err != nil {
		yield(nil, err)
		return
	}
	defer s.Close()
	n := 0
	for _, id := range c.IDs {
		x := &Change{Revision: c.Revision, Number: n, By: note.By, Record: Record{ID: id, Name: "entryUUID=" + id.String()}, Kind: past.Erasure}
		node, err := past.Node(ctx, s, id)
		if err == nil && node != nil {
			var name *dn.Name
			name, err = s.Name(ctx, id)
			x.Name = name.String()
		}
		if n++; !yield(x, err) || err != nil {
			return
		}
	}
	if n == 0 { // erased from the journal only
		yield(&Change{Revision: c.Revision, By: note.By, Kind: past.Erasure}, nil)
	}
}

func kindOf(r op.Request) string {
	switch r.(type) {
	case *op.Add:
		return "add"
	case *op.Delete:
		return "delete"
	case *op.ModifyDN:
		return "modrdn"
	}
	return "modify"
}

// secretsOf returns the secrets in the operations on the entry of a change.
func secretsOf(note *past.Message, c *Change, s *schema.Schema) (secrets []string) {
	if c.Kind != "add" && c.Kind != "modify" {
		return nil
	}
	for _, o := range note.Operations {
		if len(o.Secrets) > 0 && (o.Name == c.Name || Key(o.Name, s) == Key(c.Name, s)) {
			secrets = append(secrets, o.Secrets...)
		}
	}
	slices.Sort(secrets)
	return slices.Compact(secrets)
}

// Key returns the form of a name by which names are compared. An invalid name is returned
// unchanged.
func Key(name string, s *schema.Schema) string {
	parsed, err := dn.Parse(name)
	if err != nil {
		return name
	}
	norms, err := parsed.Normalize(s)
	if err != nil {
		return name
	}
	return string(dn.Key(norms))
}

// Text returns the change as LDIF without its first lines: the attributes of a new entry,
// or the modifications. Comments name the secrets.
func (c *Change) Text() ([]byte, error) {
	if c.Request == nil {
		return nil, nil
	}
	var b strings.Builder
	out := ldif.NewWriter(&b)
	err := errors.Join(out.WriteBody(c.Request), out.Flush())
	for _, s := range c.Secrets {
		b.WriteString("# " + s + " was changed; its values are not kept\n")
	}
	return []byte(b.String()), err
}
