package schema

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/big"
	"slices"
	"strings"
)

// Key normalises an attribute value. Two values are equal under the rule's form exactly
// if their keys are. The result may share v's bytes.
func (r *MatchingRule) Key(v []byte) ([]byte, error) { return r.Form.key(r.schema, v) }

// Assertion normalises an assertion value of the rule. An equality rule matches if
// Key(value) equals it, an ordering rule if Key(value) is smaller (RFC 4517, 4.2). An
// error means that the assertion breaks its syntax (Undefined in a filter).
func (r *MatchingRule) Assertion(a []byte) ([]byte, error) {
	if r.Form.lenient {
		if err := r.Syntax.Validate(a); err != nil {
			return nil, err
		}
	}
	return r.does.assertion(r.schema, a)
}

// Piece normalises one piece of a substring assertion (RFC 4518, 2.6). The assertion
// matches if the pieces occur in Key(value) one after another, the initial one at its
// start and the final one at its end. A piece of insignificant characters only may be
// normalised to nothing.
func (r *MatchingRule) Piece(k Piece, b []byte) ([]byte, error) {
	if r.Form.piece == nil {
		return nil, errors.New(r.name + " does not match substrings")
	}
	return r.Form.piece(k, b)
}

// Match reports whether a value's key matches a normalised assertion in an extensible
// match: if it is equal, smaller (Ordering), or as a Special rule defines. A Substrings
// rule takes an assertion of the form initial*any*final (RFC 4517, 3.3.30).
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

// AppliesTo reports whether the rule can be used with values of t, because the rule's
// form supports t's syntax (RFC 4512, 4.1.4, matching rule use).
func (r *MatchingRule) AppliesTo(t *AttributeType) bool {
	return slices.Contains(r.Form.takes, t.Syntax.OID) || t.Equality != nil && t.Equality.Form == r.Form
}

// substringAssertion encodes the pieces of initial*any*final (RFC 4517, 3.3.30) one after
// another: the Piece, the length of the prepared text as a varint, the text.
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

// matchWord reports whether the assertion is a word or a run of words of the value (RFC
// 4517, 4.2.32). The outer spaces and doubled inner spaces of keys are the boundaries.
func matchWord(key, assertion []byte) bool { return bytes.Contains(key, assertion) }

// matchKeyword is matchWord with punctuation as a boundary too (RFC 4517, 4.2.21 leaves
// it to the server what a keyword is).
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
