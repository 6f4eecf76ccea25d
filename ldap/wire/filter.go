package wire

import (
	"fmt"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

// The tags of the alternatives of Filter (RFC 4511, 4.5.1).
const (
	tagAnd            ber.Tag = 0xa0
	tagOr             ber.Tag = 0xa1
	tagNot            ber.Tag = 0xa2
	tagEqual          ber.Tag = 0xa3
	tagSubstrings     ber.Tag = 0xa4
	tagGreaterOrEqual ber.Tag = 0xa5
	tagLessOrEqual    ber.Tag = 0xa6
	tagPresent        ber.Tag = 0x87
	tagApprox         ber.Tag = 0xa8
	tagExtensible     ber.Tag = 0xa9

	tagInitial ber.Tag = 0x80
	tagAny     ber.Tag = 0x81
	tagFinal   ber.Tag = 0x82

	tagRule    ber.Tag = 0x81
	tagType    ber.Tag = 0x82
	tagValue   ber.Tag = 0x83
	tagDNAttrs ber.Tag = 0x84
)

// DecodeFilter decodes the BER encoding of a Filter, which must be all of b. The filter shares
// the bytes of b. The error is a *ber.SyntaxError if b is not an encoding of a Filter. It
// is another error if b breaks a rule that the ASN.1 definition does not express.
func DecodeFilter(b []byte) (filter.Filter, error) {
	d := filterDecoder{Reader: ber.NewReader(b)}
	f := d.filter(1)
	d.End()
	if err := d.error(); err != nil {
		return nil, err
	}
	return f, nil
}

// DecodeFilters decodes the BER encoding of a ValuesReturnFilter (RFC 3876, 2): a list of
// filters. Such a filter must not contain And, Or or Not, and must not test the names of
// entries.
func DecodeFilters(b []byte) ([]filter.Filter, error) {
	d := filterDecoder{Reader: ber.NewReader(b)}
	var items []filter.Filter
	outer := d.Enter(ber.Sequence)
	for d.More() {
		items = append(items, d.item())
	}
	d.Leave(outer)
	d.End()
	if err := d.error(); err != nil {
		return nil, err
	}
	return items, nil
}

// item decodes a SimpleFilterItem of a ValuesReturnFilter.
func (d *filterDecoder) item() filter.Filter {
	start := d.Offset()
	switch t := d.Peek(); t {
	case tagAnd, tagOr, tagNot:
		d.Expected(start, "a filter item", t.String())
		return nil
	}
	f := d.filter(1)
	if x, ok := f.(*filter.Extensible); ok && x.DNAttrs {
		d.Expected(start, "a test of values", "dnAttributes")
	}
	return f
}

type filterDecoder struct {
	ber.Reader
	parts  int
	broken error // the first rule that the filter breaks; decoding continues
}

// The method "breaks" notes that the filter violates a rule of RFC 4511, 4.5.1.
func (d *filterDecoder) breaks(rule string) {
	if d.broken == nil {
		d.broken = fmt.Errorf("the filter is malformed at octet %d: %s", d.Offset(), rule)
	}
}

func (d *filterDecoder) error() error {
	if err := d.Err(); err != nil {
		return err
	}
	return d.broken
}

// part counts a part of the filter, and fails if there are more than filter.MaxParts.
func (d *filterDecoder) part() {
	if d.parts++; d.parts > filter.MaxParts {
		d.Fail(fmt.Errorf("a filter has at most %d parts", filter.MaxParts))
	}
}

// filter decodes a filter. After an error, the result has no meaning.
func (d *filterDecoder) filter(depth int) filter.Filter {
	if depth > filter.MaxDepth {
		d.Fail(fmt.Errorf("filters nest at most %d levels", filter.MaxDepth))
	}
	d.part()
	switch t := d.Peek(); t {
	case tagAnd:
		return filter.And(d.list(t, depth))
	case tagOr:
		return filter.Or(d.list(t, depth))
	case tagNot:
		end := d.Enter(t)
		f := &filter.Not{Filter: d.filter(depth + 1)}
		d.End()
		d.Leave(end)
		return f
	case tagEqual:
		a, v := d.assertion(t)
		return &filter.Equal{Attribute: a, Value: v}
	case tagGreaterOrEqual:
		a, v := d.assertion(t)
		return &filter.GreaterOrEqual{Attribute: a, Value: v}
	case tagLessOrEqual:
		a, v := d.assertion(t)
		return &filter.LessOrEqual{Attribute: a, Value: v}
	case tagApprox:
		a, v := d.assertion(t)
		return &filter.Approx{Attribute: a, Value: v}
	case tagPresent:
		return &filter.Present{Attribute: string(d.Bytes(t))}
	case tagSubstrings:
		return d.substrings()
	case tagExtensible:
		return d.extensible()
	default:
		if unknown(t) {
			return filter.Unknown(d.Element())
		}
	}
	d.Expected(d.Offset(), "a filter", d.Peek().String())
	return nil
}

// unknown reports whether a later version of LDAP may define an alternative of Filter
// with the tag t.
func unknown(t ber.Tag) bool { return t&0xc0 == 0x80 && t&0x1f > tagExtensible&0x1f }

func (d *filterDecoder) list(t ber.Tag, depth int) []filter.Filter {
	var parts []filter.Filter
	end := d.Enter(t)
	for d.More() {
		parts = append(parts, d.filter(depth+1))
	}
	d.Leave(end)
	return parts
}

func (d *filterDecoder) assertion(t ber.Tag) (attribute string, value []byte) {
	end := d.Enter(t)
	attribute = string(d.Bytes(ber.OctetString))
	value = d.Bytes(ber.OctetString)
	d.Leave(end)
	return attribute, value
}

// substrings decodes a SubstringFilter. An initial substring must be the first substring,
// a final substring must be the last, and there must be at least one substring.
func (d *filterDecoder) substrings() filter.Filter {
	f := &filter.Substrings{}
	end := d.Enter(tagSubstrings)
	f.Attribute = string(d.Bytes(ber.OctetString))
	pieces := d.Enter(ber.Sequence)
	if !d.More() {
		d.breaks("a substrings filter without a substring")
	}
	for d.More() {
		d.part()
		d.substring(f)
	}
	d.Leave(pieces)
	d.Leave(end)
	return f
}

func (d *filterDecoder) substring(f *filter.Substrings) {
	t := d.Peek()
	switch {
	case t == tagInitial && (f.Initial != nil || f.Any != nil):
		d.breaks("an initial substring that is not the first")
	case f.Final != nil:
		d.breaks("a substring behind the final one")
	}
	switch t {
	case tagInitial:
		f.Initial = d.Bytes(t)
	case tagAny:
		f.Any = append(f.Any, d.Bytes(t))
	case tagFinal:
		f.Final = d.Bytes(t)
	default:
		d.Expected(d.Offset(), "a substring", d.Found())
	}
}

func (d *filterDecoder) extensible() filter.Filter {
	f := &filter.Extensible{}
	end := d.Enter(tagExtensible)
	typeFirst := d.At(tagType) // UnboundID's LDAP SDK for Java (7.0.5), in matched values
	if typeFirst {
		f.Attribute = string(d.Bytes(tagType))
	}
	if d.At(tagRule) {
		f.Rule = string(d.Bytes(tagRule))
	}
	if !typeFirst && d.At(tagType) {
		f.Attribute = string(d.Bytes(tagType))
	}
	f.Value = d.Bytes(tagValue)
	if d.At(tagDNAttrs) {
		f.DNAttrs = d.Bool(tagDNAttrs)
	}
	d.Leave(end)
	if f.Rule == "" && f.Attribute == "" {
		d.breaks("an extensible match with neither a matching rule nor a type")
	}
	return f
}

// AppendFilter appends the BER encoding of the filter f to b.
func AppendFilter(b []byte, f filter.Filter) []byte {
	switch f := f.(type) {
	case filter.And:
		return appendSet(b, tagAnd, f)
	case filter.Or:
		return appendSet(b, tagOr, f)
	case *filter.Not:
		return appendSet(b, tagNot, []filter.Filter{f.Filter})
	case *filter.Equal:
		return appendAssertion(b, tagEqual, f.Attribute, f.Value)
	case *filter.GreaterOrEqual:
		return appendAssertion(b, tagGreaterOrEqual, f.Attribute, f.Value)
	case *filter.LessOrEqual:
		return appendAssertion(b, tagLessOrEqual, f.Attribute, f.Value)
	case *filter.Approx:
		return appendAssertion(b, tagApprox, f.Attribute, f.Value)
	case *filter.Present:
		return ber.AppendString(b, tagPresent, f.Attribute)
	case *filter.Substrings:
		return appendSubstrings(b, f)
	case *filter.Extensible:
		return appendMatchingRule(b, f)
	case filter.Unknown:
		return append(b, f...)
	}
	return b
}

func appendSet(b []byte, t ber.Tag, parts []filter.Filter) []byte {
	start := len(b)
	b = ber.Open(b, t)
	for _, p := range parts {
		b = AppendFilter(b, p)
	}
	return ber.Close(b, start)
}

func appendAssertion(b []byte, t ber.Tag, attribute string, value []byte) []byte {
	start := len(b)
	b = ber.Open(b, t)
	b = ber.AppendString(b, ber.OctetString, attribute)
	b = ber.AppendString(b, ber.OctetString, value)
	return ber.Close(b, start)
}

func appendSubstrings(b []byte, f *filter.Substrings) []byte {
	start := len(b)
	b = ber.Open(b, tagSubstrings)
	b = ber.AppendString(b, ber.OctetString, f.Attribute)
	pieces := len(b)
	b = ber.Open(b, ber.Sequence)
	if f.Initial != nil {
		b = ber.AppendString(b, tagInitial, f.Initial)
	}
	for _, a := range f.Any {
		b = ber.AppendString(b, tagAny, a)
	}
	if f.Final != nil {
		b = ber.AppendString(b, tagFinal, f.Final)
	}
	return ber.Close(ber.Close(b, pieces), start)
}

func appendMatchingRule(b []byte, f *filter.Extensible) []byte {
	start := len(b)
	b = ber.Open(b, tagExtensible)
	if f.Rule != "" {
		b = ber.AppendString(b, tagRule, f.Rule)
	}
	if f.Attribute != "" {
		b = ber.AppendString(b, tagType, f.Attribute)
	}
	b = ber.AppendString(b, tagValue, f.Value)
	if f.DNAttrs {
		b = ber.AppendBool(b, tagDNAttrs, true)
	}
	return ber.Close(b, start)
}
