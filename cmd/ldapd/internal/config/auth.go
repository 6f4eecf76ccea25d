package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/auth/bearer"
)

// Passwords has the settings that control how passwords are accepted and stored.
type Passwords struct {
	RequireTLS string // "true", "false", or "remote", which requires TLS only of clients beyond loopback
	Upgrade    bool
	Known      string // the file of known passwords; "": there is none
	Parallel   int    // concurrent slow hashes; 0 means one less than there are CPUs
}

// SASL has the settings of the offered mechanisms, and the rules that map SASL identities to
// names in the directory.
type SASL struct {
	Mechanisms   []string
	PlainInClear bool
	Identities   []*auth.Rule
	InEntry      bool           // a client's certificate must be in its entry
	Issuer       *bearer.Issuer // the issuer of tokens, or nil if there is none
	Keytab       string         // the file with the keys for Kerberos; "": there is none
}

func (r *reader) passwords() Passwords {
	return Passwords{
		RequireTLS: r.oneOf("passwords.require-tls", "remote", "true", "false"),
		Upgrade:    r.boolean("passwords.upgrade"),
		Known:      r.text("passwords.known"),
		Parallel:   r.count("passwords.parallel"),
	}
}

func (r *reader) sasl() SASL {
	s := SASL{
		Mechanisms: append([]string{}, r.list("sasl.mechanisms", func(string) error { return nil })...),
		InEntry:    r.boolean("sasl.certificate-in-entry"),
		// Not nil: an empty list means that there are no rules; nil would mean the
		// default rules.
		Identities:   []*auth.Rule{},
		PlainInClear: r.boolean("sasl.plain-in-clear"),
		Issuer:       r.issuer(),
		Keytab:       r.text("sasl.keytab"),
	}
	for _, m := range s.Mechanisms {
		if !slices.Contains(auth.Mechanisms, m) {
			r.fail("sasl.mechanisms", "%q is none of %s", m, strings.Join(auth.Mechanisms, ", "))
		}
	}
	r.list("sasl.identity", func(text string) error {
		rule, err := auth.ParseRule(text)
		s.Identities = append(s.Identities, rule)
		return err
	})
	return s
}

// issuer reads the settings of the issuer of tokens. The issuer, its audience and its keys must
// be either all set or all absent.
func (r *reader) issuer() *bearer.Issuer {
	given := 0
	for _, key := range []string{"sasl.issuer", "sasl.issuer-audience", "sasl.issuer-keys"} {
		if r.text(key) != "" {
			given++
		}
	}
	switch given {
	case 0:
		return nil
	case 3:
		return &bearer.Issuer{
			URL:        r.text("sasl.issuer"),
			Audience:   r.text("sasl.issuer-audience"),
			KeysFile:   r.text("sasl.issuer-keys"),
			Claim:      r.text("sasl.issuer-claim"),
			Algorithms: r.list("sasl.issuer-algorithms", func(string) error { return nil }),
		}
	}
	r.fail("sasl.issuer", "sasl.issuer, sasl.issuer-audience and sasl.issuer-keys go together: give all of them")
	return nil
}

func (r *reader) boolean(key string) bool {
	b, err := strconv.ParseBool(r.text(key))
	if err != nil {
		r.fail(key, "%q is neither true nor false", r.text(key))
	}
	return b
}
