// Package schema holds what a directory knows about its attributes and
// classes: attribute types, object classes, syntaxes and matching rules (RFC
// 4512, 4517), read from definition text, and the string preparation of RFC
// 4518 that matching stands on.
//
// A [Schema] is immutable; changing it makes another. [Core] is the built-in
// one. Everything is found by name (any case) or OID.
//
// Matching is by keys: a [MatchingRule] turns an attribute value into a key
// such that values match exactly when their keys are equal bytes, and such that
// bytes.Compare of keys is the order of the ordering rule. Rules that share a
// [Form] share keys, so an index built for an equality rule answers the ordering
// and substrings rules of the same form as well.
package schema
