package auth

import "github.com/seed-4dac0d86/ldapd/store/gss/layer"

// Kerberos accepts clients with Kerberos tickets (RFC 4752 and GSS-SPNEGO).
type Kerberos interface {
	// Accept checks a client's first token. An error says why the client is refused; it is for the log.
	Accept(token []byte, c Channel) (*Ticket, error)
}

// A Ticket is an accepted ticket, and the security context that it begins.
type Ticket struct {
	Principal string // of the client, such as ann@EXAMPLE.COM
	Reply     []byte // the answer to the token; nil if the client wants none
	SPNEGO    bool   // the token was one of SPNEGO
	Sign      bool   // the client asks for signed messages
	Seal      bool   // the client asks for sealed messages
	Context   SecurityContext
}

// A SecurityContext signs and seals what a client and the server send to each other.
type SecurityContext interface {
	Wrap(seal bool, payload []byte) (token []byte, err error)
	Unwrap(seal bool, token []byte) (payload []byte, err error)
	// Protect returns a layer that signs, or also seals, for octets to be sent in tokens of at most most octets. The
	// layer is nil if not even one octet has room.
	Protect(seal bool, most int) *layer.Stream
}

// These are the mechanisms of Kerberos.
const (
	GSSAPI = "GSSAPI"
	SPNEGO = "GSS-SPNEGO"
)

// PrincipalName returns the name for rules of a client with a ticket.
func PrincipalName(principal string) string { return "krb:" + principal }
