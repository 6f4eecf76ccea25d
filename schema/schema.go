// Package schema implements the schema of a directory: attribute types, object classes,
// syntaxes and matching rules (RFC 4512, 4517). All of them are parsed from definitions.
// The package also implements the string preparation of RFC 4518, on which matching is
// based.
//
// A [Schema] is immutable; [Schema.Change] returns a new Schema. [Core] returns the
// built-in Schema, which is made from the files in definitions/. Elements are found by
// OID or by name, ignoring case.
//
// Matching uses keys. A [MatchingRule] converts an attribute value to a key. Two values
// match if and only if their keys are equal, and bytes.Compare orders keys in the order
// of the ordering rule. Rules with the same [Form] have the same keys, so an index for an
// equality rule can also be used for the ordering and substrings rules of the same form.
//
// # Forms
//
// The keys are:
//
//   - caseIgnore, caseExact (also for the IA5 rules): the prepared string with one space
//     at each end and two spaces for each run of spaces between words, exactly as in RFC
//     4518, 2.6.1: " foo  bar ". A substring assertion then matches if the key contains
//     the pieces one after another.
//   - caseIgnoreList: such a string for each line, with LF between the strings.
//   - numericString: the prepared string without spaces (RFC 4518, 2.6.2).
//   - telephoneNumber: the prepared string without spaces and hyphens (RFC 4518, 2.6.3).
//   - integer: a byte 0x80 + n, where n is the number of digits, followed by the digits.
//     If n is 112 or more, the byte is 0xf0 + the length of n, and n follows. If the
//     integer is negative, all bits are inverted.
//   - generalizedTime: YYYYMMDDHHMMSS in UTC, followed by ".digits" if there is a
//     fraction of a second.
//   - distinguishedName, inChain: the result of dn.Key, in which types are written as codes or OIDs.
//   - nameAndOptionalUID: the length of the bit string, the bit string, and the result of
//     dn.Key.
//   - objectIdentifier: the code (codes.go) or the numeric OID, or an unknown name in lower case. The key of a
//     first-component form is the key of the first component.
//   - uuid: the 16 bytes of the UUID.
//   - csn: the text in lower case, with all parts at full length.
//   - boolean, bitString, octetString: the value.
//   - approximate: the words, case-folded, without accents and punctuation, with a space
//     before and after each word: " muller ludenscheidt ".
//   - certificateExact: the key of the serial number, and the key of the issuer.
//   - certificateListExact: the time of the update, a zero byte, and the key of the issuer.
//
// A string with code points that RFC 4518, 2.4 prohibits is a valid value that no
// assertion matches. The key of such a string contains two bytes, both 0xf0 or more, for
// each byte of the string.
//
// Whether a code point is assigned depends on the version of Go's package unicode. The RFC
// uses Unicode 3.2. See [Version].
package schema
