package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/wire"
)

// takePreRead reads a pre-read control (RFC 4527), which asks for the entry as it was
// before the change.
func takePreRead(o *operation, _ *op.Message, c *op.Control) (err error) {
	o.controls.preRead, err = selection("pre-read", c)
	return err
}

// takePostRead reads a post-read control (RFC 4527): the entry as it is after.
func takePostRead(o *operation, _ *op.Message, c *op.Control) (err error) {
	o.controls.postRead, err = selection("post-read", c)
	return err
}

// selection returns the attributes that a read entry control asks for, never nil.
func selection(name string, c *op.Control) ([]string, error) {
	e, err := control.ParseReadEntry(c.Value)
	if err != nil {
		return nil, malformed(name, err)
	}
	return e.Attributes, nil
}

// readEntry responds with the entry as a base search for these attributes shows
// it; nil attributes: nobody asks.
func (o *operation) readEntry(ctx context.Context, s *partition.Snapshot, name dn.DN, id entry.ID, oid string, attributes []string) error {
	if attributes == nil {
		return nil
	}
	if partition.IsSubschema(name) {
		return o.readSubschema(ctx, s, oid, attributes)
	}
	o.selector.resolve(attributes, o.schema)
	var shown entrySink
	st := &o.stream
	*st = stream{o: o, s: s, sink: &shown, r: &op.Search{Scope: op.BaseObject, Filter: filter.And{}, Attributes: attributes}}
	if err := st.prepare(ctx); err != nil {
		return err
	}
	if err := st.run(ctx, id); err != nil {
		return err
	}
	o.respond(oid, shown)
	return nil
}

// An entrySink keeps the one entry of a base search, encoded.
type entrySink []byte

// Entry implements op.Sink.
func (b *entrySink) Entry(e *op.SearchEntry) error {
	*b = wire.AppendSearchEntry(nil, e)
	return nil
}

// Reference implements op.Sink; base searches in the store have none.
func (b *entrySink) Reference([]string, []op.Control) error { return nil }

// Intermediate implements op.Sink.
func (b *entrySink) Intermediate(string, []byte, []op.Control) error { return nil }

// Done implements op.Sink.
func (b *entrySink) Done(*op.Response) error { return nil }
