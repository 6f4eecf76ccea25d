package directory

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-4dac0d86/ldapd/ber"
	"github.com/seed-4dac0d86/ldapd/op"
)

const sessionTracking = "1.3.6.1.4.1.21008.108.63.1" // draft-wahl-ldap-session

// A trackedSession is what a client says of the session, in a system before this
// one, on whose behalf it asks: for the access log, and nothing else.
type trackedSession struct {
	SourceIP   string `json:"ip"`
	SourceName string `json:"name"`
	Format     string `json:"format"` // an OID: of how the others are meant
	Identifier string `json:"identifier"`
}

// takeTracking reads a session tracking control. Several may come, one for each
// system that the request has passed, in order.
func takeTracking(o *operation, _ *op.Message, c *op.Control) error {
	r := ber.NewReader(c.Value)
	outer := r.Enter(ber.Sequence)
	s := trackedSession{
		SourceIP:   string(r.Bytes(ber.OctetString)),
		SourceName: string(r.Bytes(ber.OctetString)),
		Format:     string(r.Bytes(ber.OctetString)),
		Identifier: string(r.Bytes(ber.OctetString)),
	}
	r.Leave(outer)
	r.End()
	r.Fail(s.check())
	if err := r.Err(); err != nil {
		return malformed("session tracking", err)
	}
	o.controls.sessions = append(o.controls.sessions, s)
	return nil
}

// check holds the values against section 2.1 of the draft. Its bounds that are
// suggestions are bounds here: a log keeps what it is given.
func (s *trackedSession) check() error {
	for _, f := range []struct {
		name, value string
		most        int
	}{
		{"sessionSourceIp", s.SourceIP, 128},
		{"sessionSourceName", s.SourceName, 65536},
		{"formatOID", s.Format, 1024},
		{"sessionTrackingIdentifier", s.Identifier, 65536},
	} {
		switch {
		case len(f.value) > f.most:
			return fmt.Errorf("%s has %d octets, %d are the most", f.name, len(f.value), f.most)
		case !utf8.ValidString(f.value):
			return fmt.Errorf("%s is not UTF-8", f.name)
		}
	}
	if s.Format == "" || strings.Trim(s.Format, "0123456789.") != "" {
		return fmt.Errorf("formatOID %q is not an OID in numbers", s.Format)
	}
	return nil
}
