// Package schema implements the schema of a directory: attribute types, object classes,
// syntaxes and matching rules (RFC 4512, 4517), parsed from definitions, and the string
// preparation of RFC 4518 that matching is based on.
//
// A [Schema] is immutable; changing it makes another. [Core] is the built-in one, from
// the files in definitions/. Elements are found by name (in any case) or OID.
//
// Matching uses keys. A [MatchingRule] turns an attribute value into a key such that
// values match exactly if their keys are equal bytes, and such that bytes.Compare of keys
// gives the order of the ordering rule. Rules that share a [Form] share keys, so an index
// for an equality rule also serves the ordering and substrings rules of the same form.
//
// # Forms
//
// The keys are:
//
//   - caseIgnore, caseExact (also of the IA5 rules): the prepared string with one
//     space at each end and two for each run of spaces inside, exactly as in RFC 4518,
//     2.6.1: " foo  bar ". The pieces of a substring assertion then match if they
//     occur in it one after another.
//   - caseIgnoreList: such a string for each line, with LF between them.
//   - numericString, telephoneNumber: the prepared string without spaces, and
//     hyphens (RFC 4518, 2.6.2 and 2.6.3).
//   - integer: 0x80 + the number of digits (0xf0 + the length of that number and
//     the number, from 112 digits on), the digits; all bits inverted if negative.
//   - generalizedTime: YYYYMMDDHHMMSS in UTC, and ".digits" if there is a
//     fraction of a second.
//   - distinguishedName: dn.Key. nameAndOptionalUID: the length of the bit
//     string, the bit string, dn.Key.
//   - objectIdentifier: the numeric OID; for an unknown name, the name in lower
//     case. The first-component forms have the key of that component.
//   - uuid: its 16 bytes. csn: the text, lower case, its parts at full length.
//   - boolean, bitString, octetString: the value.
//   - approximate: the words, folded, without accents and punctuation, with
//     spaces around: " muller ludenscheidt ".
//
// A string with code points that RFC 4518, 2.4 prohibits is a valid value that no
// assertion matches. Its key has two bytes, 0xf0 and up, for each of the value's.
//
// Whether a code point is assigned depends on the Unicode version of golang.org/x/text,
// and not on 3.2 as in the RFC; see [Version].
package schema
