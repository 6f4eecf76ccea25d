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

// appendText appends the string form (RFC 4515, 3).
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

// appendDescription prints a description or a rule. What none can have, only
// BER brings here; it is escaped to keep the text of filters in logs honest.
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

// appendValue escapes a value. Control characters and bytes that are not UTF-8
// are escaped too.
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
