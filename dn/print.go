package dn

import "unicode/utf8"

// String prints the name as in RFC 4514, with types as they were written.
func (d DN) String() string { return string(d.Append(make([]byte, 0, 64))) }

// String prints the RDN as in RFC 4514, with types as they were written.
func (r RDN) String() string { return string(r.Append(make([]byte, 0, 64))) }

// Append appends what String prints.
func (d DN) Append(b []byte) []byte {
	for i, r := range d {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.Append(b)
	}
	return b
}

// Append appends what String prints.
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

// appendValue escapes a value (RFC 4514, 2.4). It also escapes control characters and
// bytes that are not UTF-8, so that a name is always one line of text.
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

// special reports whether a character needs an escape anywhere in a value.
func special(c byte) bool {
	switch c {
	case '"', '+', ',', ';', '<', '>', '\\', 0:
		return true
	}
	return false
}
