package schema

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The validators in this file check syntaxes whose values consist of several parts.

var deliveryMethods = []string{
	"any", "mhs", "physical", "telex", "teletex", "g3fax", "g4fax", "ia5", "videotex", "telephone",
}

// validateDeliveryMethod validates a Delivery Method (RFC 4517, 3.3.5): delivery methods
// separated by "$", with optional spaces around "$".
func validateDeliveryMethod(_ *Schema, v []byte) error {
	if len(bytes.Trim(v, " ")) != len(v) {
		return errors.New("not a delivery method: spaces around it")
	}
	for _, part := range strings.Split(string(v), "$") {
		if m := strings.Trim(part, " "); !isWord(deliveryMethods, m) {
			return fmt.Errorf("%q is not a delivery method", m)
		}
	}
	return nil
}

// isWord reports whether w is one of the words, ignoring case. The words of an ABNF are
// not case-sensitive (RFC 4234, 2.3).
func isWord(words []string, w string) bool {
	return slices.ContainsFunc(words, func(one string) bool { return strings.EqualFold(one, w) })
}

// validatePostalAddress validates a Postal Address (RFC 4517, 3.3.28): lines of at least
// one character, separated by "$". In a line, \24 is "$" and \5C is a backslash.
func validatePostalAddress(_ *Schema, v []byte) error {
	for line := range bytes.SplitSeq(v, []byte{'$'}) {
		if len(line) == 0 {
			return errors.New("a line has at least a character")
		}
	}
	if !utf8.Valid(v) {
		return errNotUTF8
	}
	return escapes(v, "24", "5C")
}

// PostalLines returns the lines of a Postal Address, without escapes.
func PostalLines(v string) []string {
	lines := strings.Split(v, "$")
	for i, l := range lines {
		lines[i] = lineUnescaper.Replace(l)
	}
	return lines
}

// PostalAddress returns a text as a Postal Address of its lines.
func PostalAddress(text string) string { return postalEscaper.Replace(text) }

var postalEscaper = strings.NewReplacer("\r\n", "$", "\n", "$", "$", `\24`, `\`, `\5C`)

// escapes returns an error if a backslash does not begin one of the allowed escapes.
func escapes(v []byte, allowed ...string) error {
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' {
			continue
		}
		code := strings.ToUpper(string(v[i+1 : min(i+3, len(v))]))
		if !slices.Contains(allowed, code) {
			return fmt.Errorf(`byte %d: a backslash that is not one of \%s`, i, strings.Join(allowed, `, \`))
		}
		i += 2
	}
	return nil
}

// validateOtherMailbox validates an Other Mailbox (RFC 4517, 3.3.27): a type, "$", and an
// address.
func validateOtherMailbox(s *Schema, v []byte) error {
	kind, box, ok := bytes.Cut(v, []byte{'$'})
	if !ok {
		return errors.New(`not an other mailbox: no "$" between type and address`)
	}
	if err := validatePrintable(s, kind); err != nil {
		return err
	}
	return validateIA5(s, box)
}

var faxParameters = []string{
	"twoDimensional", "fineResolution", "unlimitedLength", "b4Length", "a3Width", "b4Width", "uncompressed",
}

// validateFacsimile validates a Facsimile Telephone Number (RFC 4517, 3.3.11): a
// telephone number and parameters.
func validateFacsimile(s *Schema, v []byte) error {
	parts := strings.Split(string(v), "$")
	for _, p := range parts[1:] {
		if !isWord(faxParameters, p) {
			return fmt.Errorf("%q is not a fax parameter", p)
		}
	}
	return validatePrintable(s, []byte(parts[0]))
}

// validateTelex validates a Telex Number (RFC 4517, 3.3.33): a number, a country code and
// an answerback.
func validateTelex(s *Schema, v []byte) error {
	parts := bytes.Split(v, []byte{'$'})
	if len(parts) != 3 {
		return errors.New("not a telex number: number$country$answerback")
	}
	for _, p := range parts {
		if err := validatePrintable(s, p); err != nil {
			return err
		}
	}
	return nil
}

var teletexParameters = []string{"graphic", "control", "misc", "page", "private"}

// validateTeletex validates a Teletex Terminal Identifier (RFC 4517, 3.3.32): the name of
// a terminal, and key:value pairs. In the name and in the pairs, \24 is "$" and \5C is a
// backslash.
func validateTeletex(s *Schema, v []byte) error {
	parts := bytes.Split(v, []byte{'$'})
	for _, p := range parts[1:] {
		key, _, ok := bytes.Cut(p, []byte{':'})
		if !ok || !isWord(teletexParameters, string(key)) {
			return fmt.Errorf("%q is not a teletex parameter", p)
		}
	}
	if err := escapes(v, "24", "5C"); err != nil {
		return err
	}
	return validatePrintable(s, parts[0])
}

// validateSubstringAssertion validates a Substring Assertion (RFC 4517, 3.3.30).
func validateSubstringAssertion(s *Schema, v []byte) error {
	if !utf8.Valid(v) {
		return errNotUTF8
	}
	if _, err := caseExactSubstrings(s, v); err != nil {
		return err
	}
	return escapes(v, "2A", "5C")
}

var caseExactSubstrings = substringAssertion(caseExact)

// validateNetgroupTriple validates a NIS netgroup triple (RFC 2307, 2.4):
// (host,user,domain). Each part may be empty or "-".
func validateNetgroupTriple(_ *Schema, v []byte) error {
	inner, ok := bytes.CutPrefix(v, []byte{'('})
	inner, closed := bytes.CutSuffix(inner, []byte{')'})
	if !ok || !closed || bytes.Count(inner, []byte{','}) != 2 {
		return errors.New("not a netgroup triple: (host,user,domain)")
	}
	return validateIA5(nil, v)
}

// validateBootParameter validates a boot parameter (RFC 2307, 2.4): key=server:path.
func validateBootParameter(_ *Schema, v []byte) error {
	key, rest, ok := bytes.Cut(v, []byte{'='})
	server, path, colon := bytes.Cut(rest, []byte{':'})
	if !ok || !colon || len(key) == 0 || len(server) == 0 || len(path) == 0 {
		return errors.New("not a boot parameter: key=server:path")
	}
	return validateIA5(nil, v)
}
