package auth

import (
	"errors"
	"fmt"
	"slices"

	"github.com/xdg-go/stringprep"
)

// Mechanisms are the SASL mechanisms that can be served, strongest first. Each SCRAM
// mechanism includes its variant that ends in [Plus].
var Mechanisms = []string{"EXTERNAL", "SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "OAUTHBEARER", "PLAIN"}

// DefaultMechanisms are served unless others are configured. SCRAM is not included,
// because guessing passwords from stolen SCRAM keys is cheaper than from hashes.
var DefaultMechanisms = slices.DeleteFunc(slices.Clone(Mechanisms), IsScram)

// ErrMessage reports a SASL message that its mechanism does not define.
var ErrMessage = errors.New("malformed SASL message")

func malformed(mechanism, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrMessage, mechanism, fmt.Sprintf(format, args...))
}

// prepare prepares a name by SASLprep (RFC 4013).
func prepare(mechanism, name string) (string, error) {
	prepared, err := stringprep.SASLprep.Prepare(name)
	if err != nil || prepared == "" {
		return "", malformed(mechanism, "the name has characters that names cannot have (RFC 4013)")
	}
	return prepared, nil
}

// NameOf returns the name, for rules, of a client that sent an authentication identity:
// "u:" and that, unless it already begins with "u:" or "dn:".
func NameOf(authenticationID string) string {
	if len(authenticationID) > 3 && (authenticationID[:3] == "dn:" || authenticationID[:2] == "u:") {
		return authenticationID
	}
	return "u:" + authenticationID
}
