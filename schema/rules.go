package schema

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/big"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// A Form is a way to turn values into keys. Rules with the same Form pointer
// share keys.
type Form struct {
	Name string

	key func(s *Schema, v []byte) ([]byte, error)
	// assertion is key for assertions where that differs: nothing prohibited
	// is let pass.
	assertion func(s *Schema, a []byte) ([]byte, error)
	piece     func(k Piece, b []byte) ([]byte, error)
	// takes are the syntaxes of values that the form understands.
	takes []string
}

// plain is a form without pieces whose assertions are like values and need no
// schema.
func plain(name string, key func([]byte) ([]byte, error), takes ...string) *Form {
	f := func(_ *Schema, v []byte) ([]byte, error) { return key(v) }
	return &Form{Name: name, key: f, assertion: f, takes: takes}
}

// text is a form of strings.
func text(name string, assertion func([]byte) ([]byte, error), piece func(Piece, []byte) ([]byte, error), takes ...string) *Form {
	return &Form{
		Name: name,
		key: func(_ *Schema, v []byte) ([]byte, error) {
			k, err := assertion(v)
			return keyOrProhibited(k, v, err)
		},
		assertion: func(_ *Schema, a []byte) ([]byte, error) { return assertion(a) },
		piece:     piece,
		takes:     takes,
	}
}

var stringSyntaxes = []string{
	syntaxDirectoryString, syntaxPrintableString, syntaxIA5String, syntaxCountryString,
	syntaxNumericString, syntaxTelephoneNumber, syntaxDeliveryMethod, syntaxOtherMailbox,
	syntaxTelexNumber, syntaxFacsimile, syntaxTeletex,
}

var (
	caseIgnore = text("caseIgnore",
		func(v []byte) ([]byte, error) { return stringKey(v, true) },
		func(k Piece, b []byte) ([]byte, error) { return stringPiece(k, b, true) }, stringSyntaxes...)
	caseExact = text("caseExact",
		func(v []byte) ([]byte, error) { return stringKey(v, false) },
		func(k Piece, b []byte) ([]byte, error) { return stringPiece(k, b, false) }, stringSyntaxes...)
	caseIgnoreList = text("caseIgnoreList", listKey,
		func(k Piece, b []byte) ([]byte, error) { return stringPiece(k, b, true) }, syntaxPostalAddress)
	numericString = text("numericString", numericKey,
		func(_ Piece, b []byte) ([]byte, error) { return numericKey(b) }, syntaxNumericString)
	telephoneNumber = text("telephoneNumber", telephoneKey,
		func(_ Piece, b []byte) ([]byte, error) { return telephoneKey(b) }, syntaxTelephoneNumber)
	approximate = text("approximate", approximateKey, nil, append(stringSyntaxes, syntaxPostalAddress)...)

	integer     = plain("integer", integerKey, syntaxInteger)
	time_       = plain("generalizedTime", timeKey, syntaxGeneralizedTime)
	boolean     = plain("boolean", booleanKey, syntaxBoolean)
	bitString   = plain("bitString", bitStringKey, syntaxBitString)
	uuidForm    = plain("uuid", uuidKey, syntaxUUID)
	csn         = plain("csn", csnKey, syntaxCSN)
	octetString = &Form{
		Name:      "octetString",
		key:       func(_ *Schema, v []byte) ([]byte, error) { return v, nil },
		assertion: func(_ *Schema, v []byte) ([]byte, error) { return v, nil },
		piece:     func(_ Piece, b []byte) ([]byte, error) { return b, nil },
		takes: []string{syntaxOctetString, syntaxBinary, syntaxJPEG, syntaxAudio, syntaxFax, syntaxCertificate,
			syntaxCertificateList, syntaxCertificatePair, syntaxSupportedAlgorithm},
	}

	distinguishedName  = ofSchema("distinguishedName", nameKey, syntaxDN)
	nameAndOptionalUID = ofSchema("nameAndOptionalUID", nameAndUIDKey, syntaxNameAndOptionalUID, syntaxDN)
	objectIdentifier   = ofSchema("objectIdentifier", oidKey, syntaxOID)

	integerFirst = &Form{
		Name:      "integerFirstComponent",
		key:       firstComponent(integer),
		assertion: integer.assertion,
		takes:     []string{syntaxDITStructureRule},
	}
	objectIdentifierFirst = &Form{
		Name:      "objectIdentifierFirstComponent",
		key:       firstComponent(objectIdentifier),
		assertion: objectIdentifier.assertion,
		takes: []string{syntaxAttributeType, syntaxObjectClass, syntaxMatchingRule, syntaxMatchingRuleUse,
			syntaxLDAPSyntax, syntaxDITContentRule, syntaxNameForm},
	}
	directoryStringFirst = &Form{
		Name:      "directoryStringFirstComponent",
		key:       firstComponent(caseIgnore),
		assertion: caseIgnore.assertion,
		takes:     objectIdentifierFirst.takes,
	}
)

func ofSchema(name string, key func(*Schema, []byte) ([]byte, error), takes ...string) *Form {
	return &Form{Name: name, key: key, assertion: key, takes: takes}
}

func numericKey(v []byte) ([]byte, error)   { return compactKey(v, noRune) }
func telephoneKey(v []byte) ([]byte, error) { return compactKey(v, isHyphen) }

func nameKey(s *Schema, v []byte) ([]byte, error) {
	d, err := dn.Parse(string(v))
	if err != nil {
		return nil, err
	}
	ns, err := d.Normalize(s)
	if err != nil {
		return nil, err
	}
	return dn.Key(ns), nil
}

// nameAndUIDKey is the name's key, and the bits if there are any behind "#"
// (RFC 4517, 4.2.31). Names without bits have the key of a plain name.
func nameAndUIDKey(s *Schema, v []byte) ([]byte, error) {
	name, bits := splitUID(v)
	k, err := nameKey(s, name)
	if err != nil || bits == nil {
		return k, err
	}
	return append(append(k, '#'), bits...), nil
}

func splitUID(v []byte) (name, bits []byte) {
	if i := bytes.LastIndexByte(v, '#'); i >= 0 && validBitString(v[i+1:]) {
		return v[:i], v[i+1:]
	}
	return v, nil
}

// oidKey is the OID in digits. A name is looked up; one that the schema does not
// have stands for itself, in lower case.
func oidKey(s *Schema, v []byte) ([]byte, error) {
	v = bytes.Trim(v, " ")
	if validNumericOID(string(v)) {
		return v, nil
	}
	if !validOIDWord(string(v)) {
		return nil, errOID
	}
	if oid := s.oidOf(string(v)); oid != "" {
		return []byte(oid), nil
	}
	return bytes.ToLower(v), nil
}

var errOID = errors.New("neither a numeric OID nor a name")

// firstComponent keys the first component of a definition "( first ..." (RFC
// 4517, 4.2.26).
func firstComponent(f *Form) func(*Schema, []byte) ([]byte, error) {
	return func(s *Schema, v []byte) ([]byte, error) {
		p := parser{text: string(v), def: &definition{}}
		if err := p.next(); err != nil {
			return nil, err
		}
		if p.tok.kind != tokenOpen {
			return nil, errors.New(`no "(" at the start`)
		}
		if err := p.next(); err != nil {
			return nil, err
		}
		if p.tok.kind != tokenWord && p.tok.kind != tokenQuoted {
			return nil, errors.New("no first component")
		}
		return f.key(s, []byte(p.tok.text))
	}
}

// behaviour is what a matching rule does; definitions do not say it.
type behaviour struct {
	oid  string
	use  Use
	form *Form
	// special decides for rules that are not plain equality, ordering or
	// substrings.
	special func(key, assertion []byte) bool
	// assertion, if the rule's assertions are not of the form.
	assertion func(s *Schema, a []byte) ([]byte, error)
}

var behaviours = makeBehaviours([]behaviour{
	{oid: "2.5.13.0", form: objectIdentifier},
	{oid: "2.5.13.1", form: distinguishedName},
	{oid: "2.5.13.2", form: caseIgnore},
	{oid: "2.5.13.3", form: caseIgnore, use: Ordering},
	{oid: "2.5.13.4", form: caseIgnore, use: Substrings},
	{oid: "2.5.13.5", form: caseExact},
	{oid: "2.5.13.6", form: caseExact, use: Ordering},
	{oid: "2.5.13.7", form: caseExact, use: Substrings},
	{oid: "2.5.13.8", form: numericString},
	{oid: "2.5.13.9", form: numericString, use: Ordering},
	{oid: "2.5.13.10", form: numericString, use: Substrings},
	{oid: "2.5.13.11", form: caseIgnoreList},
	{oid: "2.5.13.12", form: caseIgnoreList, use: Substrings},
	{oid: "2.5.13.13", form: boolean},
	{oid: "2.5.13.14", form: integer},
	{oid: "2.5.13.15", form: integer, use: Ordering},
	{oid: "2.5.13.16", form: bitString},
	{oid: "2.5.13.17", form: octetString},
	{oid: "2.5.13.18", form: octetString, use: Ordering},
	{oid: "2.5.13.19", form: octetString, use: Substrings},
	{oid: "2.5.13.20", form: telephoneNumber},
	{oid: "2.5.13.21", form: telephoneNumber, use: Substrings},
	{oid: "2.5.13.23", form: nameAndOptionalUID},
	{oid: "2.5.13.27", form: time_},
	{oid: "2.5.13.28", form: time_, use: Ordering},
	{oid: "2.5.13.29", form: integerFirst},
	{oid: "2.5.13.30", form: objectIdentifierFirst},
	{oid: "2.5.13.31", form: directoryStringFirst},
	{oid: "2.5.13.32", form: caseIgnore, use: Special, special: matchWord},
	{oid: "2.5.13.33", form: caseIgnore, use: Special, special: matchKeyword},
	{oid: "1.3.6.1.4.1.1466.109.114.1", form: caseExact},
	{oid: "1.3.6.1.4.1.1466.109.114.2", form: caseIgnore},
	{oid: "1.3.6.1.4.1.1466.109.114.3", form: caseIgnore, use: Substrings},
	{oid: "1.3.6.1.4.1.4203.1.2.1", form: caseExact, use: Substrings},
	{oid: "1.3.6.1.1.16.2", form: uuidForm},
	{oid: "1.3.6.1.1.16.3", form: uuidForm, use: Ordering},
	{oid: "1.3.6.1.4.1.4203.666.11.2.2", form: csn},
	{oid: "1.3.6.1.4.1.4203.666.11.2.3", form: csn, use: Ordering},
	{oid: "1.2.840.113556.1.4.803", form: integer, use: Special, special: matchAllBits},
	{oid: "1.2.840.113556.1.4.804", form: integer, use: Special, special: matchAnyBit},
	{oid: ApproximateOID, form: approximate, use: Approximate, special: matchApproximate},
})

func makeBehaviours(list []behaviour) map[string]*behaviour {
	m := make(map[string]*behaviour, len(list))
	for i := range list {
		b := &list[i]
		if b.assertion == nil {
			b.assertion = b.form.assertion
		}
		if b.use == Substrings {
			b.assertion = substringAssertion(b.form)
		}
		m[b.oid] = b
	}
	return m
}

// Key normalises an attribute value: values are equal under the rule's form
// exactly when their keys are. The result may share v's bytes.
func (r *MatchingRule) Key(v []byte) ([]byte, error) { return r.Form.key(r.schema, v) }

// Assertion normalises an assertion value of the rule: an equality rule
// matches when Key(value) equals it, an ordering rule when Key(value) is
// smaller (RFC 4517, 4.2). An error means that the assertion breaks its syntax
// (Undefined in a filter).
func (r *MatchingRule) Assertion(a []byte) ([]byte, error) { return r.does.assertion(r.schema, a) }

// Piece normalises one piece of a substring assertion (RFC 4518, 2.6): the
// assertion matches when the pieces stand in Key(value) one after the other,
// the initial one at its start, the final one at its end. A piece of nothing
// but insignificant characters may come back empty.
func (r *MatchingRule) Piece(k Piece, b []byte) ([]byte, error) {
	if r.Form.piece == nil {
		return nil, errors.New(r.name + " does not match substrings")
	}
	return r.Form.piece(k, b)
}

// Match decides a value's key against a normalised assertion, for extensible
// matches: equal, smaller (Ordering), or as a Special rule says. A Substrings
// rule has an assertion of the form initial*any*final (RFC 4517, 3.3.30).
func (r *MatchingRule) Match(key, assertion []byte) bool {
	switch {
	case r.does.special != nil:
		return r.does.special(key, assertion)
	case r.Use == Ordering:
		return bytes.Compare(key, assertion) < 0
	case r.Use == Substrings:
		return matchSubstrings(key, assertion)
	}
	return bytes.Equal(key, assertion)
}

// AppliesTo reports whether the rule can be used with values of t: the rule's
// form takes t's syntax (RFC 4512, 4.1.4, matching rule use).
func (r *MatchingRule) AppliesTo(t *AttributeType) bool {
	if t.Syntax == nil {
		return false
	}
	for _, oid := range r.Form.takes {
		if oid == t.Syntax.OID {
			return true
		}
	}
	return t.Equality != nil && t.Equality.Form == r.Form
}

// substringAssertion encodes the pieces of initial*any*final (RFC 4517, 3.3.30)
// one after the other: the Piece, the length of the prepared text as a varint,
// the text.
func substringAssertion(f *Form) func(*Schema, []byte) ([]byte, error) {
	return func(_ *Schema, a []byte) ([]byte, error) {
		parts := bytes.Split(a, []byte{'*'})
		if len(parts) < 2 {
			return nil, errors.New("not a substring assertion: initial*any*final")
		}
		var out []byte
		for i, part := range parts {
			k := Any
			switch i {
			case 0:
				k = Initial
			case len(parts) - 1:
				k = Final
			}
			if len(part) == 0 {
				if k == Any {
					return nil, errors.New("not a substring assertion: empty between two asterisks")
				}
				continue
			}
			b, err := f.piece(k, unescapeSubstring(part))
			if err != nil {
				return nil, err
			}
			out = append(out, byte(k))
			out = binary.AppendUvarint(out, uint64(len(b)))
			out = append(out, b...)
		}
		return out, nil
	}
}

var substringUnescaper = strings.NewReplacer(`\2A`, "*", `\2a`, "*", `\5C`, `\`, `\5c`, `\`)

func unescapeSubstring(b []byte) []byte {
	if bytes.IndexByte(b, '\\') < 0 {
		return b
	}
	return []byte(substringUnescaper.Replace(string(b)))
}

func matchSubstrings(key, assertion []byte) bool {
	for len(assertion) > 0 {
		k := Piece(assertion[0])
		n, w := binary.Uvarint(assertion[1:])
		if w <= 0 || n > uint64(len(assertion)-1-w) {
			return false
		}
		piece := assertion[1+w:][:n]
		assertion = assertion[1+w+int(n):]
		switch k {
		case Initial:
			if !bytes.HasPrefix(key, piece) {
				return false
			}
			key = key[len(piece):]
		case Final:
			return bytes.HasSuffix(key, piece)
		default:
			i := bytes.Index(key, piece)
			if i < 0 {
				return false
			}
			key = key[i+len(piece):]
		}
	}
	return true
}

// matchWord finds the assertion as one word or run of words of the value (RFC
// 4517, 4.2.32): the keys' outer and doubled inner spaces are the boundaries.
func matchWord(key, assertion []byte) bool { return bytes.Contains(key, assertion) }

// matchKeyword is matchWord with every other punctuation a boundary too (RFC
// 4517, 4.2.19 leaves it to the server what a keyword is).
func matchKeyword(key, assertion []byte) bool {
	want := bytes.Trim(assertion, " ")
	if len(want) == 0 {
		return false
	}
	for rest := key; ; {
		i := bytes.Index(rest, want)
		if i < 0 {
			return false
		}
		at := len(key) - len(rest) + i
		if boundaryAt(key, at) && boundaryAt(key, at+len(want)) {
			return true
		}
		rest = rest[i+1:]
	}
}

func matchAllBits(key, assertion []byte) bool {
	v, mask := integerOfKey(key), integerOfKey(assertion)
	return v.And(v, mask).Cmp(mask) == 0
}

func matchAnyBit(key, assertion []byte) bool {
	return new(big.Int).And(integerOfKey(key), integerOfKey(assertion)).Sign() != 0
}
