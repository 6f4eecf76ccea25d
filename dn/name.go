package dn

import (
	"math"
	"sync/atomic"
)

// A Name is the name of an entry as the store spells it: the text of a DN. The DN is
// parsed when it is first needed, and then kept, because most names are only printed, but
// some names are examined in every request. So is the key. A nil Name is the name of the
// root.
type Name struct {
	text   string
	parsed atomic.Pointer[parsedName]
}

// A parsedName is a DN and its key.
type parsedName struct {
	dn  DN
	key atomic.Pointer[nameKey]
}

// A nameKey is the key of a name as one Matcher normalises it.
type nameKey struct {
	by  Matcher
	key []byte
}

// NewName returns the name with the given text.
func NewName(text string) *Name {
	if text == "" {
		return nil
	}
	return &Name{text: text}
}

// NameOf returns the Name with the DN d.
func NameOf(d DN) *Name {
	n := NewName(d.String())
	if n != nil {
		n.parsed.Store(&parsedName{dn: d})
	}
	return n
}

// String returns the text of the name. The text of the root's name is "".
func (n *Name) String() string {
	if n == nil {
		return ""
	}
	return n.text
}

// MarshalText returns the text of the name, for logs and JSON.
func (n *Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// DN returns the parsed name. The caller must not change the result, which is shared. The
// error is an error of [Parse].
func (n *Name) DN() (DN, error) {
	if n == nil {
		return nil, nil
	}
	p, err := n.parse()
	if err != nil {
		return nil, err
	}
	return p.dn, nil
}

func (n *Name) parse() (*parsedName, error) {
	if p := n.parsed.Load(); p != nil {
		return p, nil
	}
	d, err := parse(n.text, math.MaxInt) // what is stored may have been moved deep
	if err != nil {
		return nil, err
	}
	p := &parsedName{dn: d}
	n.parsed.Store(p)
	return p, nil
}

// Key returns the name's [Key]. The type of m must be comparable. The caller must not change
// the result, which is shared. The error is an error of [Parse] or of m.
func (n *Name) Key(m Matcher) ([]byte, error) {
	if n == nil {
		return Key(nil), nil
	}
	p, err := n.parse()
	if err != nil {
		return nil, err
	}
	if k := p.key.Load(); k != nil && k.by == m {
		return k.key, nil
	}
	ns, err := p.dn.Normalize(m)
	if err != nil {
		return nil, err
	}
	k := &nameKey{m, Key(ns)}
	p.key.Store(k)
	return k.key, nil
}
