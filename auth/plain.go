package auth

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/xdg-go/stringprep"
)

// ErrMessage says that a SASL message is not what its mechanism defines.
var ErrMessage = errors.New("malformed SASL message")

func malformed(mechanism, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrMessage, mechanism, fmt.Sprintf(format, args...))
}

// ParsePlain takes the message of mechanism PLAIN apart (RFC 4616, 2). The
// authentication identity comes prepared; the password is as it was sent, as in
// a simple bind.
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
	name, err = prepare("PLAIN", string(parts[1]))
	return string(parts[0]), name, parts[2], err
}

// prepare is SASLprep (RFC 4013), of names.
func prepare(mechanism, name string) (string, error) {
	prepared, err := stringprep.SASLprep.Prepare(name)
	if err != nil || prepared == "" {
		return "", malformed(mechanism, "the name has characters that names cannot have (RFC 4013)")
	}
	return prepared, nil
}

// NameOf is the name, for rules, of what a client calls itself in a mechanism:
// "u:" and that, unless it is a DN with "dn:" in front.
func NameOf(authenticationID string) string {
	if len(authenticationID) > 3 && (authenticationID[:3] == "dn:" || authenticationID[:2] == "u:") {
		return authenticationID
	}
	return "u:" + authenticationID
}
