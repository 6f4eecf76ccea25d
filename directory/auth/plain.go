package auth

import (
	"bytes"
	"unicode/utf8"
)

// ParsePlain parses the message of the mechanism PLAIN (RFC 4616, 2). It returns the
// authentication identity prepared with SASLprep, and the password as the client sent it,
// as in a simple bind.
func ParsePlain(message []byte) (authzID, name string, password []byte, err error) {
	parts := bytes.Split(message, []byte{0})
	switch {
	case len(parts) != 3:
		return "", "", nil, malformed("PLAIN", "expected authzid NUL authcid NUL passwd, found %d NULs", len(parts)-1)
	case !utf8.Valid(message):
		return "", "", nil, malformed("PLAIN", "not UTF-8")
	case len(parts[1]) == 0:
		return "", "", nil, malformed("PLAIN", "authcid is empty")
	case len(parts[2]) == 0:
		return "", "", nil, malformed("PLAIN", "passwd is empty")
	}
	name, err = PrepareName("PLAIN", string(parts[1]))
	return string(parts[0]), name, parts[2], err
}
