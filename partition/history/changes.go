package history

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/erase"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Change is what one commit did to one entry, with the identity that made the commit.
type Change struct {
	Revision table.Revision
	// Commit is the commit, in a change that Changes or ChangesSeen streams.
	Commit *changestream.Change
	// Number is the position of the change in its commit, from 0.
	Number int
	By     partition.By
	// Record is the change. Record.Request is nil for an erasure, and for a commit that
	// changed too many entries to list, such as an import.
	Record
	// Kind is add, delete, modify, modrdn, or erase (a part of the entry's past was
	// erased). For a commit that changed too many entries to list, Kind is the kind of
	// operation that the journal's message states.
	Kind string
	// Secrets are the secret attributes whose values changed.
	Secrets []string
}

// Time returns the time at which the change was committed.
func (c *Change) Time() time.Time { return c.Revision.Time().UTC() }

// NewName returns the entry's new name if the change is a rename, and otherwise "".
func (c *Change) NewName() string {
	if r, ok := c.Request.(*op.ModifyDN); ok {
		return c.newName(r)
	}
	return ""
}

// newName returns the name of the record's entry after the rename c.
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

// Changes streams the changes of commits. It compares the states before and after each
// commit. To record the changes instead would make every commit more expensive, although few
// readers need them.
func Changes(ctx context.Context, p *partition.Partition, commits iter.Seq2[*changestream.Change, error]) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for c, err := range commits {
			if err != nil {
				yield(nil, err)
				return
			}
			for x, err := range Of(ctx, p, c) {
				if err != nil {
					yield(nil, err)
					return
				}
				if x.Commit = c; !yield(x, nil) {
					return
				}
			}
		}
	}
}

// Of streams the changes of one commit.
func Of(ctx context.Context, p *partition.Partition, c *changestream.Change) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		note := write.ParseMessage(c.Message)
		if c.All {
			unnamed(c, &note, yield)
			return
		}
		if slices.ContainsFunc(note.Operations, func(o write.Operation) bool { return o.Kind == erase.Erasure }) {
			erasure(ctx, p, c, &note, yield)
			return
		}
		before, err := state.At(ctx, p, c.Revision-1)
		if err != nil {
			yield(nil, err)
			return
		}
		defer before.Close()
		after, err := state.At(ctx, p, c.Revision)
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

// unnamed streams the operations that the journal recorded for a commit that changed
// too many entries to list.
func unnamed(c *changestream.Change, note *write.Message, yield func(*Change, error) bool) {
	for i, o := range note.Operations {
		x := &Change{Revision: c.Revision, Number: i, By: note.By, Record: Record{Name: o.Name}, Kind: o.Kind, Secrets: o.Secrets}
		if !yield(x, nil) {
			return
		}
	}
}

// erasure streams a change of kind erase for each entry whose past was changed. In a
// Change of an entry that no longer exists, the name consists of the entry's entryUUID.
func erasure(ctx context.Context, p *partition.Partition, c *changestream.Change, note *write.Message, yield func(*Change, error) bool) {
	s, err := state.At(ctx, p, c.Revision)
	if err != nil {
		yield(nil, err)
		return
	}
	defer s.Close()
	n := 0
	for _, id := range c.IDs {
		x := &Change{Revision: c.Revision, Number: n, By: note.By, Record: Record{ID: id, Name: "entryUUID=" + id.String()}, Kind: erase.Erasure}
		node, err := changestream.Node(ctx, s, id)
		if err == nil && node != nil {
			var name *dn.Name
			name, err = s.Name(ctx, id)
			x.Name = name.String()
		}
		if n++; !yield(x, err) || err != nil {
			return
		}
	}
	if n == 0 { // only the journal was changed
		yield(&Change{Revision: c.Revision, By: note.By, Kind: erase.Erasure}, nil)
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

// If c is an add or a modify, secretsOf returns the secret attributes that it changed. It finds
// them in the operations on the entry in the journal's message.
func secretsOf(note *write.Message, c *Change, s *schema.Schema) (secrets []string) {
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

// Key returns the normalized form of a name, by which names are compared. It returns an
// invalid name unchanged.
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

// Text returns the body of the change as LDIF: the attributes of a new entry, or the
// modifications. Comments name the secret attributes that were changed.
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
