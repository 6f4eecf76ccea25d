package schema

import (
	"bytes"
	"errors"
	"strconv"
)

// validateLargeInteger validates a Large Integer ([MS-ADTS], 3.1.1.2.2.2.8): an integer
// of 64 bits.
func validateLargeInteger(_ *Schema, v []byte) error {
	if _, err := strconv.ParseInt(string(v), 10, 64); err != nil || !validInteger(v) {
		return errors.New("not an integer of 64 bits")
	}
	return nil
}

// validateDNWith returns a validator for DNs with a binary value or a string ([MS-ADTS],
// 3.1.1.2.2.2.3 and 2.2.2.2). In the form B:6:A1B2C3:dn, the number is the number of hex
// digits. In the form S:3:text:dn, the number is the number of bytes of the text.
func validateDNWith(kind byte) validator {
	return func(s *Schema, v []byte) error {
		malformed := errors.New("not " + string(kind) + ":length:value:dn")
		rest, ok := bytes.CutPrefix(v, []byte{kind, ':'})
		length, rest, colon := bytes.Cut(rest, []byte{':'})
		n, err := strconv.ParseUint(string(length), 10, 31)
		if !ok || !colon || err != nil || int(n) >= len(rest) || rest[n] != ':' {
			return malformed
		}
		if value := rest[:n]; kind == 'B' && (n%2 != 0 || len(bytes.TrimLeft(value, "0123456789abcdefABCDEF")) > 0) {
			return malformed
		}
		return validateDN(s, rest[n+1:])
	}
}
