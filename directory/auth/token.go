package auth

import (
	"bytes"
	"errors"
	"strings"
)

// Tokens verifies the tokens of the mechanism OAUTHBEARER (RFC 7628).
type Tokens interface {
	// Verify verifies a token. If the token is not accepted, the error is ErrToken.
	Verify(token string) (Token, error)
	// Discovery returns the message that the server sends to a client whose token is refused
	// (RFC 7628, 3.2.2).
	Discovery(status string) []byte
}

// ErrToken reports that a token is not accepted.
var ErrToken = errors.New("the token is not accepted")

// A Token contains the verified claims of a token.
type Token struct {
	Name        string
	MultiFactor bool // the claim amr contains mfa (RFC 8176, 2)
}

// ParseBearer parses the client's message of the mechanism OAUTHBEARER (RFC 7628, 3.1).
// The token is empty if the client requests the address at which it can get tokens.
func ParseBearer(message []byte) (authzID, token string, err error) {
	const name = "OAUTHBEARER"
	header, rest, ok := bytes.Cut(message, []byte{1})
	body, ended := bytes.CutSuffix(rest, []byte{1, 1})
	flags := strings.Split(string(header), ",")
	switch {
	case !ok || !ended && !bytes.Equal(rest, []byte{1}):
		return "", "", malformed(name, "expected a GS2 header and key=value pairs, each ended by 0x01, and one 0x01 more")
	case len(flags) != 3 || flags[0] != "n" && flags[0] != "y" || flags[2] != "":
		return "", "", malformed(name, "its GS2 header is not n,a=AUTHZID, (RFC 5801, 4)")
	}
	if authzID, err = saslName(flags[1]); err != nil {
		return "", "", err
	}
	for pair := range bytes.SplitSeq(body, []byte{1}) {
		key, value, _ := strings.Cut(string(pair), "=")
		if key != "auth" {
			continue // ignore host, port, and keys that are not defined yet
		}
		scheme, t, _ := strings.Cut(value, " ")
		if !strings.EqualFold(scheme, "Bearer") && value != "" {
			return "", "", malformed(name, "its auth is not Bearer TOKEN")
		}
		return authzID, strings.TrimSpace(t), nil
	}
	return "", "", malformed(name, "it has no auth")
}

// saslName parses "a=" followed by an authorization identity, in which =2C and =3D are
// escapes. It returns "" if s is empty.
func saslName(s string) (string, error) {
	rest, ok := strings.CutPrefix(s, "a=")
	if !ok && s != "" {
		return "", malformed("OAUTHBEARER", "its GS2 header is not n,a=AUTHZID, (RFC 5801, 4)")
	}
	plain := strings.NewReplacer("=2C", ",", "=3D", "=").Replace(rest)
	if strings.Count(rest, "=") != strings.Count(rest, "=2C")+strings.Count(rest, "=3D") {
		return "", malformed("OAUTHBEARER", "its authzid has = that is not =2C or =3D")
	}
	return plain, nil
}
