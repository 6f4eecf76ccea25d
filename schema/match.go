package schema

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"math/big"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// Key normalises an attribute value. Two values are equal under the rule's form if and
// only if their keys are equal. The key may share the bytes of v.
func (r *MatchingRule) Key(v []byte) ([]byte, error) { return r.Form.key(r.schema, v) }

// Assertion normalises an assertion value of the rule. An equality rule matches a value
// if Key(value) equals the normalised assertion, and an ordering rule if Key(value) is
// smaller than the normalised assertion (RFC 4517, 4.2). If Assertion
// returns an error, for example because the assertion breaks its syntax, the assertion is
// Undefined in a filter.
func (r *MatchingRule) Assertion(a []byte) ([]byte, error) {
	if r.Form.lenient {
		if err := r.Syntax.Validate(a); err != nil {
			return nil, err
		}
	}
	return r.does.assertion(r.schema, a)
}

// NameAssertion returns the normalised assertion of a name. It is Assertion of the name's
// text, but uses the key that the name keeps.
func (r *MatchingRule) NameAssertion(n *dn.Name) ([]byte, error) {
	if r.Form == distinguishedName {
		return n.Key(r.schema)
	}
	return r.Assertion([]byte(n.String()))
}

// Piece normalises one piece of a substring assertion (RFC 4518, 2.6). The assertion
// matches if Key(value) contains the pieces one after another, the initial piece at the
// start and the final piece at the end. The result may be empty.
func (r *MatchingRule) Piece(k Piece, b []byte) ([]byte, error) {
	if r.Form.piece == nil {
		return nil, errors.New(r.name + " does not match substrings")
	}
	return r.Form.piece(k, b)
}

// Match reports whether the key of a value matches a normalised assertion in an
// extensible match. An equality rule matches if the key is equal to the assertion, and an
// ordering rule if the key is smaller than the assertion. Each Special rule has its own
// definition of a match. A substrings rule requires an assertion of the form
// initial*any*final (RFC 4517, 3.3.30).
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

// AppliesTo reports whether the rule can be used with values of the type t (RFC 4512, 4.1.4,
// matching rule use). A rule can be used if its form supports the syntax of t, or is the form
// of the equality rule of t.
func (r *MatchingRule) AppliesTo(t *AttributeType) bool {
	return slices.Contains(r.Form.takes, t.Syntax.OID) || t.Equality != nil && t.Equality.Form == r.Form
}

// substringAssertion returns a function that encodes the pieces of initial*any*final (RFC
// 4517, 3.3.30) one after another. Each piece is encoded as its kind, the length of the
// prepared text as a varint, and the prepared text.
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

// Pieces yields the pieces of an assertion that a substrings rule has normalised.
func Pieces(assertion []byte) iter.Seq2[Piece, []byte] {
	return func(yield func(Piece, []byte) bool) {
		for len(assertion) > 0 {
			kind, piece, rest, ok := cutPiece(assertion)
			if !ok || !yield(kind, piece) {
				return
			}
			assertion = rest
		}
	}
}

// cutPiece cuts the first piece off an assertion. It returns false if the assertion is malformed.
func cutPiece(assertion []byte) (kind Piece, piece, rest []byte, ok bool) {
	n, w := binary.Uvarint(assertion[1:])
	if w <= 0 || n > uint64(len(assertion)-1-w) {
		return 0, nil, nil, false
	}
	rest = assertion[1+w:]
	return Piece(assertion[0]), rest[:n], rest[n:], true
}

func matchSubstrings(key, assertion []byte) bool {
	for len(assertion) > 0 {
		kind, piece, rest, ok := cutPiece(assertion)
		if !ok {
			return false
		}
		assertion = rest
		switch kind {
		case Initial:
			key, ok = bytes.CutPrefix(key, piece)
		case Final:
			key, ok = bytes.CutSuffix(key, piece)
		default:
			_, key, ok = bytes.Cut(key, piece)
		}
		if !ok {
			return false
		}
	}
	return true
}

// matchWord reports whether the assertion is a word or several successive words of the
// value (RFC 4517, 4.2.32). Keys begin and end with a space and have two spaces between
// words, so a match begins and ends at the boundaries of words.
func matchWord(key, assertion []byte) bool { return bytes.Contains(key, assertion) }

// matchKeyword reports the same as matchWord, except that punctuation is an additional
// boundary of words. RFC 4517, 4.2.21 leaves the definition of a keyword to the server.
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
