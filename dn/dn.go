// Package dn has distinguished names: parsed and printed as RFC 4514 says, and
// normalised into keys by which they are compared and stored. What makes two
// attribute values equal is the schema's business and comes in as a [Matcher].
package dn

import "errors"

var errStub = errors.New("dn: not written yet")

// A DN is a distinguished name, the entry's own RDN first; empty for the root.
type DN []RDN

// An RDN is one or more attribute value assertions; their order means nothing.
type RDN []AVA

// An AVA is one "type=value" of an RDN, its value without escapes. Hex says
// that it was written as #hex: the BER encoding of the value, of which Value
// has the contents if it is a string type, else the whole encoding.
type AVA struct {
	Type  string
	Value []byte
}

// A Matcher gives an AVA the OID of its type and the key of its value.
type Matcher interface {
	NormalizeAVA(attribute string, value []byte) (oid string, key []byte, err error)
}

// Norm is a normalised RDN: each AVA as its OID, "=" and its key, sorted and
// length-delimited (see AppendNorm); RDNs are equal exactly when these are.
type Norm string

// Parse reads a DN (RFC 4514, also the looser forms of RFC 2253: spaces around
// separators, semicolons, "OID." prefixes, quoted values). The error says at
// which byte and why.
func Parse(s string) (DN, error) { panic(errStub) }

// ParseRDN reads one RDN.
func ParseRDN(s string) (RDN, error) { panic(errStub) }

// String prints the name as RFC 4514 says, types as they were written.
func (d DN) String() string { panic(errStub) }

func (r RDN) String() string { panic(errStub) }

// Parent is the name without its first RDN; the root's is the root.
func (d DN) Parent() DN { panic(errStub) }

// Normalize gives the normalised RDN.
func (r RDN) Normalize(m Matcher) (Norm, error) { panic(errStub) }

// Normalize gives the normalised RDNs in the DN's order.
func (d DN) Normalize(m Matcher) ([]Norm, error) { panic(errStub) }

// Key joins normalised RDNs into bytes that are equal exactly when the names
// are. A name's key begins with the key of its ancestors: root first.
func Key(ns []Norm) []byte { panic(errStub) }
