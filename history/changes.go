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

// A Change is what one commit did to one entry, with who made it.
type Change struct {
	Revision table.Revision
	// Number counts the changes of the commit, from 0.
	Number int
	By     partition.By
	// Record is the change; of an erasure, and of a commit that changed too much
	// to be named, as an import, it has no request.
	Record
	// Kind is add, delete, modify, modrdn, erase (of the entry's past something
	// was erased), or what the journal calls a commit that changed too much.
	Kind string
	// Secrets are the secret attributes that got or lost values.
	Secrets []string
}

// Time is when the change was committed.
func (c *Change) Time() time.Time { return c.Revision.Time().UTC() }

// NewName is what a renamed entry is called from then on; "" for other changes.
func (c *Change) NewName() string {
	if r, ok := c.Request.(*op.ModifyDN); ok {
		return c.newName(r)
	}
	return ""
}

// newName is what a rename makes of the name.
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

// Changes streams the changes of the commits that a snapshot shows beyond a
// revision, in the order of their revisions. The snapshot is of one revision, as
// those of Partition.Settled and Partition.At are. What a commit changed is read
// from the states before it and behind it: writing it down would have cost every
// commit, and hardly anyone asks.
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

// unnamed returns the operations of a commit that changed too much for its entries to
// be named, as the journal has them.
func unnamed(c *changes.Change, note *past.Message, yield func(*Change, error) bool) {
	for i, o := range note.Operations {
		x := &Change{Revision: c.Revision, Number: i, By: note.By, Record: Record{Name: o.Name}, Kind: o.Kind, Secrets: o.Secrets}
		if !yield(x, nil) {
			return
		}
	}
}

// erasure returns the notices of an erasure: of each entry whose past is not what it
// was. One that is no more has no name but its entryUUID.
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
	if n == 0 { // only the journal told of it
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

// secretsOf finds the operation on the entry that a change is of.
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

// Key returns a name in the form by which names are compared; what is no name under
// a schema is itself.
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

// Text returns what changed as LDIF without its first lines: the attributes of a new
// entry, or the modifications. Secrets are named in comments.
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
