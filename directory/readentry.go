package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/ber"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/wire"
)

// The read entry controls (RFC 4527): the changed entry as it was before the
// change, and as it is after.
const (
	preRead  = "1.3.6.1.1.13.1"
	postRead = "1.3.6.1.1.13.2"
)

func takePreRead(o *operation, _ *op.Message, c *op.Control) (err error) {
	o.controls.preRead, err = parseSelection("pre-read", c.Value)
	return err
}

func takePostRead(o *operation, _ *op.Message, c *op.Control) (err error) {
	o.controls.postRead, err = parseSelection("post-read", c.Value)
	return err
}

// parseSelection reads an AttributeSelection (RFC 4511, 4.5.1), never nil.
func parseSelection(control string, value []byte) ([]string, error) {
	r := ber.NewReader(value)
	outer := r.Enter(ber.Sequence)
	attributes := []string{}
	for r.More() {
		attributes = append(attributes, string(r.Bytes(ber.OctetString)))
	}
	r.Leave(outer)
	r.End()
	if r.Err() != nil {
		return nil, malformed(control, r.Err())
	}
	return attributes, nil
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
