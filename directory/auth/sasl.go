package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/xdg-go/stringprep"
)

// Mechanisms are the supported SASL mechanisms, strongest first. Each SCRAM mechanism
// includes its variant with the suffix [Plus].
var Mechanisms = []string{"EXTERNAL", GSSAPI, SPNEGO, "SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "OAUTHBEARER", "PLAIN"}

// DefaultMechanisms are the mechanisms that are enabled by default. SCRAM is not enabled,
// because guessing passwords from stolen SCRAM keys is cheaper than guessing them from
// hashes.
var DefaultMechanisms = slices.DeleteFunc(slices.Clone(Mechanisms), IsScram)

// ErrMessage reports a SASL message that is malformed for its mechanism.
var ErrMessage = errors.New("malformed SASL message")

func malformed(mechanism, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrMessage, mechanism, fmt.Sprintf(format, args...))
}

// PrepareName prepares a name with SASLprep (RFC 4013).
func PrepareName(mechanism, name string) (string, error) {
	prepared, err := stringprep.SASLprep.Prepare(name)
	if err != nil || prepared == "" {
		return "", malformed(mechanism, "the name has characters that names cannot have (RFC 4013)")
	}
	return prepared, nil
}

// NameOf converts an authentication identity to a name for rules: it adds the prefix
// "u:", unless the identity already begins with "u:" or "dn:".
func NameOf(authenticationID string) string {
	if strings.HasPrefix(authenticationID, "u:") || strings.HasPrefix(authenticationID, "dn:") {
		return authenticationID
	}
	return "u:" + authenticationID
}
