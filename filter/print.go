package filter

import "unicode/utf8"

func (f And) String() string             { return string(appendText(nil, f)) }
func (f Or) String() string              { return string(appendText(nil, f)) }
func (f *Not) String() string            { return string(appendText(nil, f)) }
func (f *Equal) String() string          { return string(appendText(nil, f)) }
func (f *GreaterOrEqual) String() string { return string(appendText(nil, f)) }
func (f *LessOrEqual) String() string    { return string(appendText(nil, f)) }
func (f *Approx) String() string         { return string(appendText(nil, f)) }
func (f *Present) String() string        { return string(appendText(nil, f)) }
func (f *Substrings) String() string     { return string(appendText(nil, f)) }
func (f *Extensible) String() string     { return string(appendText(nil, f)) }
func (f Unknown) String() string         { return string(appendText(nil, f)) }

// Shape returns the text of a filter with a question mark in place of every value. Logs use
// the shape, because it contains no values and is the same for all searches of one kind. If
// the server could not decode the filter of a search, f is nil. The shape of a nil filter is
// that of an Unknown filter.
func Shape(f Filter) string {
	if f == nil {
		f = Unknown(nil)
	}
	return blank(f).String()
}

var blanked = []byte("?")

func blank(f Filter) Filter {
	switch f := f.(type) {
	case And:
		return And(blankAll(f))
	case Or:
		return Or(blankAll(f))
	case *Not:
		return &Not{blank(f.Filter)}
	case *Equal:
		return &Equal{f.Attribute, blanked}
	case *GreaterOrEqual:
		return &GreaterOrEqual{f.Attribute, blanked}
	case *LessOrEqual:
		return &LessOrEqual{f.Attribute, blanked}
	case *Approx:
		return &Approx{f.Attribute, blanked}
	case *Extensible:
		return &Extensible{f.Rule, f.Attribute, blanked, f.DNAttrs}
	case *Substrings:
		return blankPieces(f)
	}
	return f
}

// Blank returns a filter like f whose text contains no assertion values.
func Blank(f Resolved) Resolved {
	return Map(f, func(t *Test) Resolved {
		c := *t
		if c.asked != nil {
			c.asked = blank(c.asked)
		}
		return &c
	})
}

func blankAll(parts []Filter) []Filter {
	blanks := make([]Filter, len(parts))
	for i, p := range parts {
		blanks[i] = blank(p)
	}
	return blanks
}

func blankPieces(f *Substrings) *Substrings {
	b := &Substrings{Attribute: f.Attribute}
	if f.Initial != nil {
		b.Initial = blanked
	}
	for range f.Any {
		b.Any = append(b.Any, blanked)
	}
	if f.Final != nil {
		b.Final = blanked
	}
	return b
}

// appendText appends the string form of a filter (RFC 4515, 3).
func appendText(b []byte, f Filter) []byte {
	b = append(b, '(')
	switch f := f.(type) {
	case And:
		b = appendList(b, '&', f)
	case Or:
		b = appendList(b, '|', f)
	case *Not:
		b = appendText(append(b, '!'), f.Filter)
	case *Equal:
		b = appendItem(b, f.Attribute, "=", f.Value)
	case *GreaterOrEqual:
		b = appendItem(b, f.Attribute, ">=", f.Value)
	case *LessOrEqual:
		b = appendItem(b, f.Attribute, "<=", f.Value)
	case *Approx:
		b = appendItem(b, f.Attribute, "~=", f.Value)
	case *Present:
		b = append(appendDescription(b, f.Attribute), "=*"...)
	case *Substrings:
		b = append(appendDescription(b, f.Attribute), '=')
		b = appendPieces(b, f)
	case *Extensible:
		b = appendExtensible(b, f)
	case Unknown:
		b = append(b, '?')
	}
	return append(b, ')')
}

func appendList(b []byte, operator byte, parts []Filter) []byte {
	b = append(b, operator)
	for _, p := range parts {
		b = appendText(b, p)
	}
	return b
}

func appendItem(b []byte, attribute, operator string, value []byte) []byte {
	b = appendDescription(b, attribute)
	b = append(b, operator...)
	return appendValue(b, value)
}

func appendPieces(b []byte, f *Substrings) []byte {
	b = append(appendValue(b, f.Initial), '*')
	for _, a := range f.Any {
		b = append(appendValue(b, a), '*')
	}
	return appendValue(b, f.Final)
}

func appendExtensible(b []byte, f *Extensible) []byte {
	b = appendDescription(b, f.Attribute)
	if f.DNAttrs {
		b = append(b, ":dn"...)
	}
	if f.Rule != "" {
		b = appendDescription(append(b, ':'), f.Rule)
	}
	return appendValue(append(b, ":="...), f.Value)
}

// appendDescription appends an attribute description or the name of a rule. It escapes
// invalid characters. Only a filter that was received as BER can contain invalid
// characters, because Parse refuses them. Without the escapes, such a character could forge
// the text of a filter in a log.
func appendDescription(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; inDescription(c) {
			b = append(b, c)
		} else {
			b = appendHex(b, c)
		}
	}
	return b
}

// appendValue appends an escaped value. It also escapes control characters and bytes that
// are not UTF-8.
func appendValue(b, v []byte) []byte {
	for i := 0; i < len(v); {
		c := v[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(v[i:])
			if r == utf8.RuneError && n == 1 {
				b = appendHex(b, c)
			} else {
				b = append(b, v[i:i+n]...)
			}
			i += n
			continue
		}
		switch {
		case c < ' ', c == 0x7f, c == '(', c == ')', c == '*', c == '\\':
			b = appendHex(b, c)
		default:
			b = append(b, c)
		}
		i++
	}
	return b
}

func appendHex(b []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', digits[c>>4], digits[c&15])
}
