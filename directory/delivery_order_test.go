package directory_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

const (
	sortResponse = "1.2.840.113556.1.4.474"
	viewResponse = "2.16.840.1.113730.3.4.10"
)

// sortValue returns the value of a sort control. A key is, for example, "sn", "-sn" for the
// reverse order, or "sn:caseExactOrderingMatch".
func sortValue(words []string) []byte {
	b := ber.Open(nil, ber.Sequence)
	for _, w := range words {
		w, reverse := strings.CutPrefix(w, "-")
		attribute, rule, _ := strings.Cut(w, ":")
		start := len(b)
		b = ber.Open(b, ber.Sequence)
		b = ber.AppendString(b, ber.OctetString, attribute)
		if rule != "" {
			b = ber.AppendString(b, ber.Context(0), rule)
		}
		if reverse {
			b = ber.AppendBool(b, ber.Context(1), true)
		}
		b = ber.Close(b, start)
	}
	return ber.Close(b, 0)
}

// lastView is the contextID of the last view.
var lastView []byte

// viewValue parses "BEFORE AFTER OFFSET/COUNT" or "BEFORE AFTER >=VALUE". The word
// "again" stands for the contextID of the last answer.
func viewValue(words []string) []byte {
	number := func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Integer, number(words[0]))
	b = ber.AppendInt(b, ber.Integer, number(words[1]))
	if value, ok := strings.CutPrefix(words[2], ">="); ok {
		b = ber.AppendString(b, ber.Context(1), value)
	} else {
		offset, count, _ := strings.Cut(words[2], "/")
		start := len(b)
		b = ber.Open(b, ber.Context(0)|ber.Constructed)
		b = ber.AppendInt(b, ber.Integer, number(offset))
		b = ber.AppendInt(b, ber.Integer, number(count))
		b = ber.Close(b, start)
	}
	if len(words) > 3 {
		b = ber.AppendString(b, ber.OctetString, lastView)
	}
	return ber.Close(b, 0)
}

// printOrderControl prints the response of a sort or a virtual list view control. It
// returns false for any other control.
func printOrderControl(b *strings.Builder, c *op.Control) bool {
	r := ber.NewReader(c.Value)
	r.Enter(ber.Sequence)
	switch c.OID {
	case sortResponse:
		fmt.Fprintf(b, "sort: %d", r.Int(ber.Enumerated))
		if r.More() {
			fmt.Fprintf(b, " %s", r.Bytes(ber.Context(0)))
		}
	case viewResponse:
		fmt.Fprintf(b, "view: %d of %d", r.Int(ber.Integer), r.Int(ber.Integer))
		fmt.Fprintf(b, ", result %d", r.Int(ber.Enumerated))
		lastView = nil
		if r.More() {
			lastView = bytes.Clone(r.Bytes(ber.OctetString))
		}
	default:
		return false
	}
	if r.Err() != nil {
		fmt.Fprintf(b, " (%v)", r.Err())
	}
	b.WriteByte('\n')
	return true
}

// inOrder reports whether the response of a search has a sort control with success.
func inOrder(r *op.Response) bool {
	for i := range r.Controls {
		if c := &r.Controls[i]; c.OID == sortResponse && bytes.Equal(c.Value, []byte{0x30, 3, 0x0a, 1, 0}) {
			return true
		}
	}
	return false
}
