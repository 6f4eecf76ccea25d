// Package dn has distinguished names: it parses and prints them as in RFC 4514, and
// normalises them into keys by which they are compared and stored. The schema
// determines which attribute values are equal, through a [Matcher].
//
// # Keys
//
// A normalised RDN ([Norm]) of one AVA is the OID of its type, "=" and the key of its
// value:
//
//	2.5.4.11=people
//
// That of several AVAs is "+", then each of them in the form above with its length in
// front (a uvarint), sorted as bytes:
//
//	"+" 0x0b 2.5.4.3=ann 0x1e 0.9.2342.19200300.100.1.1=1234
//
// An OID begins with a digit and ends at the first "=", and the key of a lone AVA goes
// to the end. So nothing in a value can look like another AVA.
//
// The key of a whole name ([Key]) is its normalised RDNs from the root down, each with
// its length in front (a uvarint). One name's key is a prefix of another's exactly if
// the first name is an ancestor of the second or equal to it. So the keys of a subtree
// are a contiguous range.
package dn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A DN is a distinguished name, with the entry's own RDN first. The root's is empty.
type DN []RDN

// An RDN is one or more attribute value assertions. Their order has no meaning.
type RDN []AVA

// An AVA is one "type=value" of an RDN, with its value unescaped. For a value written
// as #hex, which is its BER encoding, Value is the contents if that is of a string
// type, or else the whole encoding.
type AVA struct {
	Type  string
	Value []byte
}

// A Matcher returns the OID of an AVA's type and the key of its value. The OID must not
// contain "=" or begin with "+".
type Matcher interface {
	NormalizeAVA(attribute string, value []byte) (oid string, key []byte, err error)
}

// A Norm is a normalised RDN. RDNs are equal exactly if their Norms are.
type Norm string

// Parent returns the name without its first RDN. The root's parent is the root.
func (d DN) Parent() DN {
	if len(d) == 0 {
		return d
	}
	return d[1:]
}

// Normalize returns the normalised RDN.
func (r RDN) Normalize(m Matcher) (Norm, error) {
	var room [64]byte
	b, err := r.appendNorm(room[:0], m)
	return Norm(b), err
}

// Normalize returns the normalised RDNs in the DN's order.
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
	all, start := Norm(b), 0 // one string for all of them
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
	slices.SortFunc(parts, slices.Compare)
	b = append(b, '+')
	for i, part := range parts {
		if i > 0 && slices.Equal(part, parts[i-1]) {
			return nil, fmt.Errorf("the RDN %q has the same attribute value twice", r)
		}
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b, nil
}

func (a *AVA) appendNorm(b []byte, m Matcher) ([]byte, error) {
	oid, key, err := m.NormalizeAVA(a.Type, a.Value)
	if err != nil {
		return nil, err
	}
	b = append(b, oid...)
	b = append(b, '=')
	return append(b, key...), nil
}

// SplitKey returns the normalised RDNs, the entry's own first, of which [Key] made a key.
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

// Key joins normalised RDNs, the entry's own first, into bytes that are equal exactly
// if the names are. A name's key begins with the keys of its ancestors.
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
