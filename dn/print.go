package dn

import "unicode/utf8"

// String returns the name in the form of RFC 4514. It does not change the spelling of
// attribute types.
func (d DN) String() string { return string(d.Append(make([]byte, 0, 64))) }

// String returns the RDN in the form of RFC 4514. It does not change the spelling of
// attribute types.
func (r RDN) String() string { return string(r.Append(make([]byte, 0, 64))) }

// Append appends to b the text that String returns.
func (d DN) Append(b []byte) []byte {
	for i, r := range d {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.Append(b)
	}
	return b
}

// Append appends to b the text that String returns.
func (r RDN) Append(b []byte) []byte {
	for i := range r {
		if i > 0 {
			b = append(b, '+')
		}
		b = append(b, r[i].Type...)
		b = append(b, '=')
		b = appendValue(b, r[i].Value)
	}
	return b
}

// appendValue appends an escaped value (RFC 4514, 2.4). It also escapes control
// characters and bytes that are not UTF-8, so that a name is always one line of text.
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
		case c < ' ' || c == 0x7f:
			b = appendHex(b, c)
		case special(c),
			c == '#' && i == 0,
			c == ' ' && (i == 0 || i == len(v)-1):
			b = append(b, '\\', c)
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

// special reports whether the character c must be escaped at every position in a value.
func special(c byte) bool {
	switch c {
	case '"', '+', ',', ';', '<', '>', '\\', 0:
		return true
	}
	return false
}
