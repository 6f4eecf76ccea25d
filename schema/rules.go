package schema

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// A Form defines how values are converted to keys. Rules with the same Form pointer have
// the same keys.
type Form struct {
	Name string

	key func(s *Schema, v []byte) ([]byte, error)
	// assertion converts assertions to keys. For a string with prohibited code points,
	// assertion returns an error, but key returns a key.
	assertion func(s *Schema, a []byte) ([]byte, error)
	piece     func(k Piece, b []byte) ([]byte, error)
	// The field "takes" lists the syntaxes whose values the form supports.
	takes []string
	// lenient is set if key and assertion accept bytes that break the syntax of assertions.
	// MatchingRule.Assertion then validates the syntax first.
	lenient bool
}

// plain returns a form that does not support substring assertions. Assertions are
// converted to keys like values, and the conversion does not need the schema.
func plain(name string, key func([]byte) ([]byte, error), takes ...string) *Form {
	f := func(_ *Schema, v []byte) ([]byte, error) { return key(v) }
	return &Form{Name: name, key: f, assertion: f, takes: takes}
}

// text returns a form for strings.
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
		lenient:   true,
	}
}

var stringSyntaxes = []string{
	syntaxDirectoryString, syntaxPrintableString, syntaxIA5String, syntaxCountryString,
	syntaxNumericString, syntaxTelephoneNumber, syntaxDeliveryMethod, syntaxOtherMailbox,
	syntaxTelexNumber, syntaxFacsimile, syntaxTeletex, syntaxAuthz, syntaxADCaseIgnore, syntaxADCaseExact,
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

	integer     = plain("integer", integerKey, syntaxInteger, syntaxADLargeInteger)
	timeForm    = plain("generalizedTime", timeKey, syntaxGeneralizedTime)
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
			syntaxCertificateList, syntaxCertificatePair, syntaxSupportedAlgorithm, syntaxAttributeCertificate, syntaxADSecurity},
	}

	distinguishedName  = ofSchema("distinguishedName", nameKey, syntaxDN)
	nameAndOptionalUID = ofSchema("nameAndOptionalUID", nameAndUIDKey, syntaxNameAndOptionalUID, syntaxDN)
	objectIdentifier   = &Form{Name: "objectIdentifier", key: oidKey, assertion: oidAssertion, takes: []string{syntaxOID}}

	// inChain supports both the syntax DN and the syntax Name And Optional UID, because a
	// chain may contain values of either syntax.
	inChain = ofSchema("inChain", nameKey, syntaxDN, syntaxNameAndOptionalUID)

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
		lenient:   true,
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

// nameAndUIDKey returns the key of a name with an optional UID (RFC 4517, 4.2.31): the
// length of the bit string after "#" as a varint, the bit string, and the key of the
// name.
func nameAndUIDKey(s *Schema, v []byte) ([]byte, error) {
	name, bits := splitUID(v)
	k, err := nameKey(s, name)
	if err != nil {
		return nil, err
	}
	return slices.Concat(binary.AppendUvarint(nil, uint64(len(bits))), bits, k), nil
}

// NameOfUID returns the key of the name, without the UID, from a key that nameAndUIDKey made.
// It returns nil if the given key is malformed.
func NameOfUID(key []byte) []byte {
	size, n := binary.Uvarint(key)
	if n <= 0 || uint64(len(key)-n) < size {
		return nil
	}
	return key[n+int(size):]
}

// NamesEntries reports whether the values of the type are names of entries, alone or
// followed by a unique identifier.
func (t *AttributeType) NamesEntries() bool {
	return t.Equality != nil && (t.Equality.Form == distinguishedName || t.Equality.Form == nameAndOptionalUID)
}

// KeyPrefix returns the prefix with which the key of a value begins if the value names a
// given entry, or an entry below it. The parameter name is the key of the entry's name.
// Keys of values with a unique identifier do not begin with the prefix.
func (t *AttributeType) KeyPrefix(name []byte) []byte {
	if t.Equality.Form == nameAndOptionalUID {
		return append([]byte{0}, name...)
	}
	return name
}

// KeyOfName returns the part of a value's key that is the key of the name in the value. It
// is the inverse of [AttributeType.KeyPrefix]. It returns nil if the value has a unique
// identifier.
func (t *AttributeType) KeyOfName(key []byte) []byte {
	if t.Equality.Form != nameAndOptionalUID {
		return key
	}
	if len(key) == 0 || key[0] != 0 {
		return nil
	}
	return key[1:]
}

func splitUID(v []byte) (name, bits []byte) {
	if i := bytes.LastIndexByte(v, '#'); i >= 0 && validBitString(v[i+1:]) {
		return v[:i], v[i+1:]
	}
	return v, nil
}

// oidKey returns the code or the numeric OID of an element. If v is a name, oidKey looks up the name;
// the key of an unknown name is the name in lower case. 389 Directory Server has OIDs
// that are words, such as "nsRole-oid". The key of such an OID is always the word in
// lower case, so it does not change when the schema defines the element.
func oidKey(s *Schema, v []byte) ([]byte, error) {
	if numericOID(string(v), true) { // definitions of files have numbers with leading zeros
		return s.coded(v), nil
	}
	if !validOIDWord(string(v)) {
		return nil, errOID
	}
	if oid := s.oidOf(string(v)); oid != "" {
		v = []byte(oid)
	}
	return s.coded(bytes.ToLower(v)), nil
}

// coded returns the code of an OID, or the OID itself if it has none.
func (s *Schema) coded(oid []byte) []byte {
	if code, ok := s.code[string(oid)]; ok {
		return []byte(code)
	}
	return oid
}

// oidAssertion returns the key of an assertion, as oidKey does for values. It returns an
// error for a name that the schema does not contain, because an assertion with an unknown
// name is Undefined (RFC 4517, 4.2.26).
func oidAssertion(s *Schema, a []byte) ([]byte, error) {
	k, err := oidKey(s, a)
	if err == nil && !isDigit(k[0]) && k[0] < firstCode && s.oidOf(string(a)) == "" {
		return nil, fmt.Errorf("%q is not in the schema", a)
	}
	return k, err
}

var errOID = errors.New("neither a numeric OID nor a name")

// firstComponent returns a function that converts a definition "( first ..." to the key
// of its first component under the form f (RFC 4517, 4.2.14, 4.2.18 and 4.2.25).
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

// EntryUUIDOID is the OID of the attribute entryUUID.
const EntryUUIDOID = "1.3.6.1.1.16.4"

// The OID and the name of the member-in-chain rule of Active Directory. The rule tests
// whether an attribute refers to a name directly or through any number of other entries.
const (
	InChainOID  = "1.2.840.113556.1.4.1941"
	InChainName = "inChainMatch"
)

// InChain reports whether the rule is the member-in-chain rule. Such a rule depends on
// entries other than the entry with the value, so keys are not enough to evaluate it.
func (r *MatchingRule) InChain() bool { return r.OID == InChainOID }

// behaviour is the implementation of a matching rule. The definition of the rule does not
// contain it.
type behaviour struct {
	oid  string
	use  Use
	form *Form
	// special implements Match for rules that are not equality, ordering or substrings
	// rules.
	special   func(key, assertion []byte) bool
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
	{oid: "2.5.13.27", form: timeForm},
	{oid: "2.5.13.28", form: timeForm, use: Ordering},
	{oid: "2.5.13.29", form: integerFirst},
	{oid: "2.5.13.30", form: objectIdentifierFirst},
	{oid: "2.5.13.31", form: directoryStringFirst},
	{oid: "2.5.13.32", form: caseIgnore, use: Special, special: matchWord},
	{oid: "2.5.13.33", form: caseIgnore, use: Special, special: matchKeyword},
	{oid: "2.5.13.34", form: certificateExact},
	{oid: "2.5.13.38", form: certificateListExact},
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
	{oid: InChainOID, form: inChain, use: Special, special: bytes.Equal},
	{oid: ApproximateOID, form: approximate, use: Approximate, special: matchApproximate},
})

func makeBehaviours(list []behaviour) map[string]*behaviour {
	m := make(map[string]*behaviour, len(list))
	for i := range list {
		b := &list[i]
		b.assertion = b.form.assertion
		if b.use == Substrings {
			b.assertion = substringAssertion(b.form)
		}
		m[b.oid] = b
	}
	return m
}
