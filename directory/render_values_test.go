package directory_test

import (
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
)

// itemsValue parses filters, each in parentheses, as a ValuesReturnFilter.
func itemsValue(words []string) []byte {
	b := ber.Open(nil, ber.Sequence)
	for _, f := range filter.MustParse("(|" + strings.Join(words, " ") + ")").(filter.Or) {
		b = wire.AppendFilter(b, f)
	}
	return ber.Close(b, 0)
}

// derefValue encodes a text such as "member:uid,cn manager:mail".
func derefValue(words []string) []byte {
	b := ber.Open(nil, ber.Sequence)
	for _, w := range words {
		attribute, list, _ := strings.Cut(w, ":")
		spec := len(b)
		b = ber.Open(b, ber.Sequence)
		b = ber.AppendString(b, ber.OctetString, attribute)
		names := len(b)
		b = ber.Open(b, ber.Sequence)
		for _, a := range strings.Split(list, ",") {
			b = ber.AppendString(b, ber.OctetString, a)
		}
		b = ber.Close(b, names)
		b = ber.Close(b, spec)
	}
	return ber.Close(b, 0)
}

// printDereferenced prints the dereference control of an entry.
func printDereferenced(b *strings.Builder, c *op.Control) {
	if c.OID != namedControls["deref"].oid {
		return
	}
	r := ber.NewReader(c.Value)
	for r.Enter(ber.Sequence); r.More(); {
		one := r.Enter(ber.Sequence)
		fmt.Fprintf(b, "  %s -> %s\n", r.Bytes(ber.OctetString), r.Bytes(ber.OctetString))
		if t := ber.Context(0) | ber.Constructed; r.At(t) {
			list := r.Enter(t)
			for r.More() {
				attribute := r.Enter(ber.Sequence)
				description := r.Bytes(ber.OctetString)
				values := r.Enter(ber.Set)
				for r.More() {
					fmt.Fprintf(b, "    %s: %s\n", description, r.Bytes(ber.OctetString))
				}
				r.Leave(values)
				r.Leave(attribute)
			}
			r.Leave(list)
		}
		r.Leave(one)
	}
	if r.Err() != nil {
		fmt.Fprintf(b, "  %v\n", r.Err())
	}
}
