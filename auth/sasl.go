package auth

import (
	"errors"
	"fmt"
	"slices"

	"github.com/xdg-go/stringprep"
)

// Mechanisms are those of SASL that can be served, the strongest first. Those of
// the SCRAM family bring another one that ends in [Plus].
var Mechanisms = []string{"EXTERNAL", "SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "OAUTHBEARER", "PLAIN"}

// DefaultMechanisms are those that are served unless others are configured. SCRAM
// is not among them: who steals its keys guesses at less cost than with a hash.
var DefaultMechanisms = slices.DeleteFunc(slices.Clone(Mechanisms), IsScram)

// ErrMessage says that a SASL message is not what its mechanism defines.
var ErrMessage = errors.New("malformed SASL message")

func malformed(mechanism, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrMessage, mechanism, fmt.Sprintf(format, args...))
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
