package bulk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/tools/schemafile"
)

// writeDefinitions writes the differences between the directory's schema and the
// built-in schema as an entry, which has an attribute for each kind of definition.
func writeDefinitions(out *ldif.Writer, s *partition.Snapshot) error {
	added, removed := onlineschema.OwnDefinitions(s)
	if len(added)+len(removed) == 0 {
		return nil
	}
	rec := &ldif.Record{DN: catalog.SubschemaName}
	value := func(attribute, text string) {
		if n := len(rec.Attributes); n == 0 || rec.Attributes[n-1].Description != attribute {
			rec.Attributes = append(rec.Attributes, op.PartialAttribute{Description: attribute})
		}
		a := &rec.Attributes[len(rec.Attributes)-1]
		a.Values = append(a.Values, []byte(text))
	}
	value("objectClass", "subschema")
	for _, d := range removed {
		value(onlineschema.RemovedDefinitions, d.Attribute+" "+d.Text)
	}
	for _, d := range added {
		value(d.Attribute, d.Text)
	}
	return out.Write(rec)
}

var errLateDefinitions = errors.New("definitions must come before all entries: make this the first record of the first file")

// definitions is the change of the schema that an import makes before it loads entries.
type definitions struct {
	add, remove []schema.Definition
}

// The method "defines" reports whether a record is the entry of the subschema, or a change that
// adds this entry. Such a record contains definitions. Other changes of the subschema are
// applied as ordinary changes.
func (x *item) defines() bool {
	if !x.ofSubschema() {
		return false
	}
	_, add := x.Change.(*op.Add)
	return x.Change == nil || add
}

func (x *item) ofSubschema() bool {
	if x.Record == nil {
		return false
	}
	name, err := dn.Parse(x.DN)
	return err == nil && catalog.IsSubschema(name)
}

// takeDefinitions applies the changes of the schema that a record contains. If the record
// is nil, it does nothing.
func takeDefinitions(ctx context.Context, p *partition.Partition, o *Options, first *item) (*definitions, error) {
	d := &definitions{}
	if first == nil {
		return d, nil
	}
	added, removed, err := first.definitions()
	if err != nil {
		return d, err
	}
	_, err = onlineschema.UpdateSchema(ctx, p, o.By, func(tx *partition.Tx) (err error) {
		d.add, d.remove, err = onlineschema.Lacking(&tx.Snapshot, added, removed)
		if err != nil || len(d.add)+len(d.remove) == 0 {
			return err
		}
		return onlineschema.ChangeSchema(ctx, tx, d.add, d.remove)
	})
	if err != nil {
		err = fmt.Errorf("the definitions of %s cannot be taken, so nothing was imported:\n%w", catalog.SubschemaName, err)
	}
	return d, err
}

// definitions returns the definitions that a record adds to the built-in schema and
// those that it removes from the built-in schema.
func (x *item) definitions() (added, removed []schema.Definition, err error) {
	var f schemafile.Files
	if err := f.Record(x.file, x.Record, x.raw); err != nil {
		return nil, nil, err
	}
	for _, a := range x.Attributes {
		if !strings.EqualFold(a.Description, onlineschema.RemovedDefinitions) {
			continue
		}
		for _, v := range a.Values {
			attribute, oid, _ := strings.Cut(string(v), " ")
			removed = append(removed, schema.Definition{Attribute: attribute, Text: oid, Source: fmt.Sprintf("%s:%d", x.file, x.Line)})
		}
	}
	return f.Definitions, removed, nil
}

// takeBack undoes the change of the schema after an import has failed.
func (d *definitions) takeBack(ctx context.Context, p *partition.Partition, o *Options) error {
	if len(d.add)+len(d.remove) == 0 {
		return nil
	}
	_, err := onlineschema.UpdateSchema(ctx, p, o.By, func(tx *partition.Tx) error { return onlineschema.ChangeSchema(ctx, tx, d.remove, d.add) })
	if err != nil {
		return fmt.Errorf("the definitions of %s stay: %w", catalog.SubschemaName, err)
	}
	return nil
}
