package wire

import (
	"strings"
	"unicode/utf8"

	"github.com/seed-4dac0d86/ldapd/dn/short"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// open begins an LDAPMessage and its protocolOp. The message starts at len(b). The second
// result is the start of the protocolOp.
func open(b []byte, id int32, t ber.Tag) ([]byte, int) {
	b = ber.Open(b, ber.Sequence)
	b = ber.AppendInt(b, ber.Integer, int64(id))
	return ber.Open(b, t), len(b)
}

// finish ends the message and the protocolOp that open began.
func finish(b []byte, start, operation int, controls []op.Control) []byte {
	b = ber.Close(b, operation)
	b = appendControls(b, controls)
	return ber.Close(b, start)
}

// AppendEntry appends a SearchResultEntry (RFC 4511, 4.5.2).
func AppendEntry(b []byte, id int32, e *op.SearchEntry) []byte {
	start := len(b)
	b, operation := open(b, id, tagEntryR)
	b = appendEntry(b, e)
	return finish(b, start, operation, e.Controls)
}

// EntrySize returns about how many octets AppendEntry appends.
func EntrySize(e *op.SearchEntry) int {
	n := len(e.Name)
	for i := range e.Attributes {
		for _, v := range e.Attributes[i].Values {
			n += headers + len(v)
		}
	}
	for i := range e.Controls {
		n += len(e.Controls[i].Value)
	}
	return n
}

// headers is about the length of the identifier and length octets of a value.
const headers = 5

// AppendSearchEntry appends a SearchResultEntry as the value of a control (RFC 4527),
// without a message around it.
func AppendSearchEntry(b []byte, e *op.SearchEntry) []byte {
	start := len(b)
	b = ber.Open(b, tagEntryR)
	b = appendEntry(b, e)
	return ber.Close(b, start)
}

// appendEntry appends the components of a SearchResultEntry.
func appendEntry(b []byte, e *op.SearchEntry) []byte {
	b = ber.AppendString(b, ber.OctetString, e.Name)
	list := len(b)
	b = ber.Open(b, ber.Sequence)
	for i := range e.Attributes {
		a := &e.Attributes[i]
		attribute := len(b)
		b = ber.Open(b, ber.Sequence)
		b = appendDescription(b, a.Type.SentName(), a.Options)
		values := len(b)
		b = ber.Open(b, ber.Set)
		if !e.TypesOnly {
			for _, v := range a.Values {
				b = ber.AppendString(b, ber.OctetString, v)
			}
		}
		b = ber.Close(b, values)
		b = ber.Close(b, attribute)
	}
	return ber.Close(b, list)
}

// appendDescription appends an attribute description without allocating a string.
func appendDescription(b []byte, name, options string) []byte {
	b = ber.AppendHeader(b, ber.OctetString, len(name)+len(options))
	b = append(b, name...)
	return append(b, options...)
}

// AppendReference appends a SearchResultReference.
func AppendReference(b []byte, id int32, urls []string, controls []op.Control) []byte {
	start := len(b)
	b, operation := open(b, id, tagReferenceR)
	b = appendStrings(b, urls)
	return finish(b, start, operation, controls)
}

// AppendIntermediate appends an IntermediateResponse (RFC 4511, 4.13). An empty oid and a
// nil value are omitted.
func AppendIntermediate(b []byte, id int32, oid string, value []byte, controls []op.Control) []byte {
	start := len(b)
	b, operation := open(b, id, tagIntermediate)
	if oid != "" {
		b = ber.AppendString(b, tagPartialName, oid)
	}
	if value != nil {
		b = ber.AppendString(b, tagPartialValue, value)
	}
	return finish(b, start, operation, controls)
}

// AppendResponse appends the answer that ends an operation. Unbind and Abandon have no
// answer, so for these requests AppendResponse returns b unchanged.
func AppendResponse(b []byte, id int32, to op.Request, r *op.Response) []byte {
	t := responseTag(to)
	if t == 0 {
		return b
	}
	start := len(b)
	b, operation := open(b, id, t)
	b = appendResult(b, &r.Result)
	switch t {
	case tagBindR:
		if r.SASLCredentials != nil {
			b = ber.AppendString(b, tagSASLCredentials, r.SASLCredentials)
		}
	case tagExtendedR:
		b = appendExtended(b, r)
	}
	return finish(b, start, operation, r.Controls)
}

// AppendNotice appends a Notice of Disconnection (RFC 4511, 4.4.1).
func AppendNotice(b []byte, r *op.Result) []byte {
	return AppendUnsolicited(b, &op.Response{Result: *r, OID: NoticeOfDisconnection})
}

// AppendUnsolicited appends an unsolicited notification (RFC 4511, 4.4).
func AppendUnsolicited(b []byte, r *op.Response) []byte {
	return AppendResponse(b, 0, &op.Extended{}, r)
}

func responseTag(to op.Request) ber.Tag {
	switch to.(type) {
	case *op.Bind:
		return tagBindR
	case *op.Search:
		return tagSearchDoneR
	case *op.Modify:
		return tagModifyR
	case *op.Add:
		return tagAddR
	case *op.Delete:
		return tagDeleteR
	case *op.ModifyDN:
		return tagModifyDNR
	case *op.Compare:
		return tagCompareR
	case *op.Extended:
		return tagExtendedR
	}
	return 0
}

// appendResult appends the components of an LDAPResult (RFC 4511, 4.1.9).
func appendResult(b []byte, r *op.Result) []byte {
	b = ber.AppendInt(b, ber.Enumerated, int64(r.Code))
	b = ber.AppendString(b, ber.OctetString, r.MatchedDN)
	b = ber.AppendString(b, ber.OctetString, valid(short.Text(r.Diagnostic)))
	if len(r.Referrals) > 0 {
		start := len(b)
		b = ber.Open(b, tagReferral)
		b = appendStrings(b, r.Referrals)
		b = ber.Close(b, start)
	}
	return b
}

// valid returns a diagnostic as valid UTF-8. A diagnostic may quote octets that a client
// sent.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func appendExtended(b []byte, r *op.Response) []byte {
	if r.OID != "" {
		b = ber.AppendString(b, tagResponseName, r.OID)
	}
	if r.Value != nil {
		b = ber.AppendString(b, tagResponseValue, r.Value)
	}
	return b
}

func appendStrings(b []byte, ss []string) []byte {
	for _, s := range ss {
		b = ber.AppendString(b, ber.OctetString, s)
	}
	return b
}

func appendControls(b []byte, cs []op.Control) []byte {
	if len(cs) == 0 {
		return b
	}
	return AppendControls(b, tagControls, cs)
}

// AppendControls appends Controls (RFC 4511, 4.1.11) in an element with the tag t.
func AppendControls(b []byte, t ber.Tag, cs []op.Control) []byte {
	start := len(b)
	b = ber.Open(b, t)
	for i := range cs {
		b = appendControl(b, &cs[i])
	}
	return ber.Close(b, start)
}

func appendControl(b []byte, c *op.Control) []byte {
	start := len(b)
	b = ber.Open(b, ber.Sequence)
	b = ber.AppendString(b, ber.OctetString, c.OID)
	if c.Critical { // DEFAULT FALSE
		b = ber.AppendBool(b, ber.Boolean, true)
	}
	if c.Value != nil {
		b = ber.AppendString(b, ber.OctetString, c.Value)
	}
	return ber.Close(b, start)
}
