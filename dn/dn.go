// Package dn implements distinguished names. It parses and prints names as in RFC 4514,
// and normalises names into keys, by which names are compared and stored. The schema,
// through a [Matcher], determines which attribute values are equal.
//
// # Keys
//
// A normalised RDN ([Norm]) with one AVA is the OID of the type, "=", and the key of the
// value:
//
//	2.5.4.11=people
//
// A type may have a code in place of its OID: one octet 0x80 to 0xbf, or two octets of which the
// first is greater. No "=" follows a code:
//
//	a2 people
//
// A normalised RDN with several AVAs is "+", followed by the AVAs. Each AVA has the form
// above and is preceded by its length as a uvarint. The AVAs are sorted as bytes:
//
//	"+" 0x1e 0.9.2342.19200300.100.1.1=1234 0x0b 2.5.4.3=ann
//
// An OID begins with a digit or a letter and ends before the first "=", the first octet of a
// code says how long the code is, and the key of a single AVA extends to the end of the RDN. So no
// value can look like another AVA.
//
// The key of a name ([Key]) contains the normalised RDNs of the name, beginning with the
// RDN nearest to the root. Each RDN is preceded by its length as a uvarint. The key of
// one name is a prefix of the key of another name if and only if the first name is an
// ancestor of the second name or equal to it. So the keys of the names in a subtree are a
// contiguous range.
package dn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A DN is a distinguished name. Its first RDN is the RDN of the entry itself. The DN of
// the root is empty.
type DN []RDN

// An RDN is one or more attribute value assertions (AVAs). The order of the AVAs has no
// meaning.
type RDN []AVA

// An AVA is one "type=value" of an RDN, with the value unescaped. A value written as #hex
// is BER-encoded: Value is the contents if the BER type is a string type, and the whole
// encoding if it is not.
type AVA struct {
	Type  string
	Value []byte
}

// A Matcher normalises AVAs: NormalizeAVA returns the OID or the code of an AVA's type and the key of
// its value. An OID must not contain "=" or begin with "+".
type Matcher interface {
	NormalizeAVA(attribute string, value []byte) (typ string, key []byte, err error)
}

// A Norm is a normalised RDN. Two RDNs are equal if and only if their Norms are equal.
type Norm string

// IsCN reports whether an RDN is cn=value. It ignores case, and accepts all names of the
// type cn.
func (r RDN) IsCN(value string) bool {
	if len(r) != 1 || !strings.EqualFold(string(r[0].Value), value) {
		return false
	}
	t := r[0].Type
	return strings.EqualFold(t, "cn") || strings.EqualFold(t, "commonName") || t == "2.5.4.3"
}

// Parent returns the name of the parent: d without its first RDN. The parent of the root
// is the root.
func (d DN) Parent() DN {
	if len(d) == 0 {
		return d
	}
	return d[1:]
}

// Normalize returns the normalised form of r.
func (r RDN) Normalize(m Matcher) (Norm, error) {
	var room [64]byte
	b, err := r.appendNorm(room[:0], m)
	return Norm(b), err
}

// Normalize returns the normalised RDNs in the order of d.
func (d DN) Normalize(m Matcher) ([]Norm, error) {
	if len(d) == 0 {
		return nil, nil
	}
	var room [160]byte
	var err error
	b := room[:0]
	ends := make([]int, 0, 16)
	for _, r := range d {
		if b, err = r.appendNorm(b, m); err != nil {
			return nil, err
		}
		ends = append(ends, len(b))
	}
	all, start := Norm(b), 0 // one string that contains all Norms
	ns := make([]Norm, len(d))
	for i, end := range ends {
		ns[i], start = all[start:end], end
	}
	return ns, nil
}

func (r RDN) appendNorm(b []byte, m Matcher) ([]byte, error) {
	switch len(r) {
	case 0:
		return nil, fmt.Errorf("an RDN needs at least one attribute value")
	case 1:
		return r[0].appendNorm(b, m)
	}
	parts := make([][]byte, len(r))
	for i := range r {
		part, err := r[i].appendNorm(nil, m)
		if err != nil {
			return nil, err
		}
		parts[i] = part
	}
	b = appendParts(b, parts)
	for i := 1; i < len(parts); i++ {
		if slices.Equal(parts[i], parts[i-1]) {
			return nil, fmt.Errorf("the RDN %q has the same attribute value twice", r)
		}
	}
	return b, nil
}

// appendParts appends the form of an RDN with several AVAs. It sorts the AVAs.
func appendParts(b []byte, parts [][]byte) []byte {
	slices.SortFunc(parts, slices.Compare)
	b = append(b, '+')
	for _, part := range parts {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b
}

func (a *AVA) appendNorm(b []byte, m Matcher) ([]byte, error) {
	typ, key, err := m.NormalizeAVA(a.Type, a.Value)
	if err != nil {
		return nil, err
	}
	return append(appendType(b, typ), key...), nil
}

// appendType appends what precedes the key in an AVA.
func appendType(b []byte, typ string) []byte {
	b = append(b, typ...)
	if CodeLength(typ) == 0 {
		b = append(b, '=')
	}
	return b
}

// CodeLength returns the length of the code with which a text begins, or 0 if it begins with an OID
// or a name.
func CodeLength(text string) int {
	switch {
	case text == "" || text[0] < 0x80:
		return 0
	case text[0] < 0xc0 || len(text) == 1:
		return 1
	}
	return 2
}

// A NormAVA is an AVA of a normalised RDN.
type NormAVA struct {
	Type string // OID or code
	Key  string
}

func splitAVA(s string) NormAVA {
	if n := CodeLength(s); n > 0 {
		return NormAVA{s[:n], s[n:]}
	}
	typ, key, _ := strings.Cut(s, "=")
	return NormAVA{typ, key}
}

// AVAs splits a normalised RDN into its AVAs. If n has several AVAs and a length in it is malformed,
// AVAs returns nil.
func (n Norm) AVAs() (parts []NormAVA) {
	rest, several := strings.CutPrefix(string(n), "+")
	if !several {
		return []NormAVA{splitAVA(rest)}
	}
	for rest != "" {
		size, k := binary.Uvarint([]byte(rest))
		if k <= 0 || uint64(len(rest)-k) < size {
			return nil
		}
		parts, rest = append(parts, splitAVA(rest[k:k+int(size)])), rest[k+int(size):]
	}
	return parts
}

// JoinAVAs returns the normalised RDN with the given AVAs. It is the inverse of [Norm.AVAs].
func JoinAVAs(avas []NormAVA) Norm {
	parts := make([][]byte, len(avas))
	for i, a := range avas {
		parts[i] = append(appendType(nil, a.Type), a.Key...)
	}
	if len(parts) == 1 {
		return Norm(parts[0])
	}
	return Norm(appendParts(nil, parts))
}

// SplitKey returns the normalised RDNs from which [Key] made the key. The first RDN is
// the RDN of the entry itself.
func SplitKey(key []byte) ([]Norm, error) {
	var ns []Norm
	for len(key) > 0 {
		size, n := binary.Uvarint(key)
		if n <= 0 || uint64(len(key)-n) < size {
			return nil, errKey
		}
		ns = append(ns, Norm(key[n:n+int(size)]))
		key = key[n+int(size):]
	}
	slices.Reverse(ns)
	return ns, nil
}

var errKey = errors.New("not the key of a name")

// Key joins the normalised RDNs of a name into the key of the name. The first RDN must be
// the RDN of the entry itself. Two keys are equal if and only if their names are equal.
// The key of a name begins with the keys of its ancestors.
func Key(ns []Norm) []byte {
	size := 0
	for _, n := range ns {
		size += len(n) + 2
	}
	key := make([]byte, 0, size)
	for _, n := range slices.Backward(ns) {
		key = binary.AppendUvarint(key, uint64(len(n)))
		key = append(key, n...)
	}
	return key
}
