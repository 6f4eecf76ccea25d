package schema

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// OIDs of the syntaxes that the code refers to.
const (
	syntaxPrefix = "1.3.6.1.4.1.1466.115.121.1."

	syntaxAttributeType        = syntaxPrefix + "3"
	syntaxAudio                = syntaxPrefix + "4"
	syntaxBinary               = syntaxPrefix + "5"
	syntaxBitString            = syntaxPrefix + "6"
	syntaxBoolean              = syntaxPrefix + "7"
	syntaxCertificate          = syntaxPrefix + "8"
	syntaxCertificateList      = syntaxPrefix + "9"
	syntaxCertificatePair      = syntaxPrefix + "10"
	syntaxCountryString        = syntaxPrefix + "11"
	syntaxDN                   = syntaxPrefix + "12"
	syntaxDeliveryMethod       = syntaxPrefix + "14"
	syntaxDirectoryString      = syntaxPrefix + "15"
	syntaxDITContentRule       = syntaxPrefix + "16"
	syntaxDITStructureRule     = syntaxPrefix + "17"
	syntaxEnhancedGuide        = syntaxPrefix + "21"
	syntaxFacsimile            = syntaxPrefix + "22"
	syntaxFax                  = syntaxPrefix + "23"
	syntaxGeneralizedTime      = syntaxPrefix + "24"
	syntaxGuide                = syntaxPrefix + "25"
	syntaxIA5String            = syntaxPrefix + "26"
	syntaxInteger              = syntaxPrefix + "27"
	syntaxJPEG                 = syntaxPrefix + "28"
	syntaxMatchingRule         = syntaxPrefix + "30"
	syntaxMatchingRuleUse      = syntaxPrefix + "31"
	syntaxNameAndOptionalUID   = syntaxPrefix + "34"
	syntaxNameForm             = syntaxPrefix + "35"
	syntaxNumericString        = syntaxPrefix + "36"
	syntaxObjectClass          = syntaxPrefix + "37"
	syntaxOID                  = syntaxPrefix + "38"
	syntaxOtherMailbox         = syntaxPrefix + "39"
	syntaxOctetString          = syntaxPrefix + "40"
	syntaxPostalAddress        = syntaxPrefix + "41"
	syntaxPrintableString      = syntaxPrefix + "44"
	syntaxSubtreeSpecification = syntaxPrefix + "45"
	syntaxSupportedAlgorithm   = syntaxPrefix + "49"
	syntaxTelephoneNumber      = syntaxPrefix + "50"
	syntaxTeletex              = syntaxPrefix + "51"
	syntaxTelexNumber          = syntaxPrefix + "52"
	syntaxUTCTime              = syntaxPrefix + "53"
	syntaxLDAPSyntax           = syntaxPrefix + "54"
	syntaxSubstringAssertion   = syntaxPrefix + "58"
	syntaxUUID                 = "1.3.6.1.1.16.1"
	syntaxCSN                  = "1.3.6.1.4.1.4203.666.11.2.1"
	syntaxCertificateExact     = "1.3.6.1.1.15.1"
	syntaxCertificateListExact = "1.3.6.1.1.15.5"
	syntaxAttributeCertificate = "1.3.6.1.4.1.4203.666.11.10.2.1"
	syntaxAuthz                = "1.3.6.1.4.1.4203.666.2.7"
	syntaxDNWithBinary         = "1.2.840.113556.1.4.903"
	syntaxDNWithString         = "1.2.840.113556.1.4.904"
	syntaxADCaseIgnore         = "1.2.840.113556.1.4.905"
	syntaxADLargeInteger       = "1.2.840.113556.1.4.906"
	syntaxADSecurity           = "1.2.840.113556.1.4.907"
	syntaxADCaseExact          = "1.2.840.113556.1.4.1362"
	syntaxNISNetgroupTriple    = "1.3.6.1.1.1.0.0"
	syntaxBootParameter        = "1.3.6.1.1.1.0.1"
)

type validator = func(*Schema, []byte) error

// validators contains the validators of the syntaxes by OID (RFC 4517, 3.3 and other
// documents). The function init sets the variable, because an initializer would refer to
// itself through the parser of definitions.
var validators map[string]validator

func init() {
	validators = map[string]validator{
		syntaxAttributeType:        description(attributeTypes),
		syntaxAudio:                validateNothing,
		syntaxBinary:               validateNothing,
		syntaxBitString:            byKey(bitStringKey),
		syntaxBoolean:              byKey(booleanKey),
		syntaxCertificate:          validateCertificate,
		syntaxCertificateList:      validateCertificateList,
		syntaxCertificatePair:      validateCertificatePair,
		syntaxCountryString:        validateCountry,
		syntaxDN:                   validateDN,
		syntaxDeliveryMethod:       validateDeliveryMethod,
		syntaxDirectoryString:      validateDirectoryString,
		syntaxDITContentRule:       description(dITContentRules),
		syntaxDITStructureRule:     description(dITStructureRules),
		syntaxEnhancedGuide:        validateEnhancedGuide,
		syntaxFacsimile:            validateFacsimile,
		syntaxFax:                  validateNothing,
		syntaxGeneralizedTime:      validateTime,
		syntaxGuide:                validateGuide,
		syntaxIA5String:            validateIA5,
		syntaxInteger:              validateInteger,
		syntaxJPEG:                 validateNothing,
		syntaxMatchingRule:         description(matchingRules),
		syntaxMatchingRuleUse:      description(matchingRuleUse),
		syntaxNameAndOptionalUID:   validateNameAndUID,
		syntaxNameForm:             description(nameForms),
		syntaxNumericString:        validateNumericString,
		syntaxObjectClass:          description(objectClasses),
		syntaxOID:                  validateOID,
		syntaxOtherMailbox:         validateOtherMailbox,
		syntaxOctetString:          validateNothing,
		syntaxPostalAddress:        validatePostalAddress,
		syntaxPrintableString:      validatePrintable,
		syntaxSubtreeSpecification: validateSubtreeSpecification,
		syntaxSupportedAlgorithm:   validateSequence,
		syntaxTelephoneNumber:      validatePrintable,
		syntaxTeletex:              validateTeletex,
		syntaxTelexNumber:          validateTelex,
		syntaxUTCTime:              validateUTCTime,
		syntaxLDAPSyntax:           description(ldapSyntaxes),
		syntaxSubstringAssertion:   validateSubstringAssertion,
		syntaxUUID:                 byKey(uuidKey),
		syntaxCSN:                  byKey(csnKey),
		syntaxCertificateExact:     validateAssertion(certificateAssertion),
		syntaxCertificateListExact: validateAssertion(certificateListAssertion),
		syntaxAttributeCertificate: validateSequence,
		syntaxAuthz:                validateDirectoryString,
		syntaxDNWithBinary:         validateDNWith('B'),
		syntaxDNWithString:         validateDNWith('S'),
		syntaxADCaseIgnore:         validateDirectoryString,
		syntaxADLargeInteger:       validateLargeInteger,
		syntaxADSecurity:           validateNothing,
		syntaxADCaseExact:          validateDirectoryString,
		syntaxNISNetgroupTriple:    validateNetgroupTriple,
		syntaxBootParameter:        validateBootParameter,
	}
}

// byKey returns a validator that accepts a value if the function key returns no error for
// it.
func byKey(key func([]byte) ([]byte, error)) validator {
	return func(_ *Schema, v []byte) error {
		_, err := key(v)
		return err
	}
}

var errEmpty = errors.New("empty")

// aByteError returns the error for a byte that the syntax does not allow at its position.
func aByteError(v []byte, at int, what string) error {
	return fmt.Errorf("byte %d, %#02x, is not %s", at, v[at], what)
}

func validateDirectoryString(_ *Schema, v []byte) error {
	if len(v) == 0 {
		return errEmpty
	}
	if !utf8.Valid(v) {
		return errNotUTF8
	}
	return nil
}

func validateIA5(_ *Schema, v []byte) error {
	for i, c := range v {
		if c >= utf8.RuneSelf {
			return aByteError(v, i, "ASCII")
		}
	}
	return nil
}

func validatePrintable(_ *Schema, v []byte) error {
	if len(v) == 0 {
		return errEmpty
	}
	for i, c := range v {
		if !isPrintable(c) {
			return aByteError(v, i, "a PrintableCharacter: letters, digits, space, '()+,-.=/:?")
		}
	}
	return nil
}

// isPrintable reports whether c is a PrintableCharacter (RFC 4517, 3.2).
func isPrintable(c byte) bool {
	return isAlnum(c) || c == ' ' || c == '\'' || '(' <= c && c <= ')' || '+' <= c && c <= '/' || c == ':' || c == '=' || c == '?'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isAlnum(c byte) bool { return isAlpha(c) || isDigit(c) }

func validateNumericString(_ *Schema, v []byte) error {
	if len(v) == 0 {
		return errEmpty
	}
	for i, c := range v {
		if !isDigit(c) && c != ' ' {
			return aByteError(v, i, "a digit or space")
		}
	}
	return nil
}

func validateInteger(_ *Schema, v []byte) error {
	if !validInteger(v) {
		return errInteger
	}
	return nil
}

func validateTime(_ *Schema, v []byte) error {
	_, err := parseTime(v)
	return err
}

var errUTCTime = errors.New("not a UTC time: YYMMDDHHMM[SS][Z|+HHMM|-HHMM]")

// validateUTCTime validates a UTC Time (RFC 4517, 3.3.34): YYMMDDHHMM[SS], followed by Z,
// a time difference or nothing. A UTCTime has no leap seconds, and a time difference must
// contain minutes.
func validateUTCTime(_ *Schema, v []byte) error {
	zone := bytes.TrimLeft(v, "0123456789")
	digits := len(v) - len(zone)
	if digits != 10 && digits != 12 || len(zone) != 0 && len(zone) != 1 && len(zone) != 5 {
		return errUTCTime
	}
	full := append([]byte("20"), v...)
	if len(zone) == 0 {
		full = append(full, 'Z')
	}
	if t, err := parseTime(full); err != nil || t.second > 59 {
		return errUTCTime
	}
	return nil
}

func validateCountry(s *Schema, v []byte) error {
	if len(v) != 2 || !isPrintable(v[0]) || !isPrintable(v[1]) {
		return errors.New("not a country code of two characters")
	}
	return nil
}

func validateDN(_ *Schema, v []byte) error {
	_, err := dn.Parse(string(v))
	return err
}

func validateNameAndUID(s *Schema, v []byte) error {
	name, _ := splitUID(v)
	return validateDN(s, name)
}

func validateOID(_ *Schema, v []byte) error {
	if !validOIDWord(string(v)) {
		return errOID
	}
	return nil
}

// validNumericOID reports whether s is a numeric OID (RFC 4512, 1.4): two or more numbers
// without leading zeros, separated by dots.
func validNumericOID(s string) bool { return numericOID(s, false) }

// numericOID is validNumericOID. If zeros is set, the numbers may have leading zeros.
func numericOID(s string, zeros bool) bool {
	if strings.IndexByte(s, '.') < 0 {
		return false
	}
	start := 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && isDigit(s[i]) {
			continue
		}
		if i < len(s) && s[i] != '.' || i == start || !zeros && s[start] == '0' && i > start+1 {
			return false
		}
		start = i + 1
	}
	return true
}

// description returns a validator for definitions in the subschema subentry. It requires
// terms that the parser, which also reads schema files, does not require (RFC 4512, 4.1.3
// and 4.1.4).
func description(e element) validator {
	return func(_ *Schema, v []byte) error {
		d, err := parseDefinition(e, string(v))
		switch {
		case err != nil:
			return err
		case e == matchingRules && d.syntax == "":
			return errors.New("SYNTAX is missing")
		case e == matchingRuleUse && len(d.applies) == 0:
			return errors.New("APPLIES is missing")
		}
		return nil
	}
}
