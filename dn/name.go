package dn

import "sync/atomic"

// A Name is the name of an entry as the store spells it: a text that is a DN. The DN is
// parsed when first needed and then kept, since most names are only printed, but some
// are examined in every request. Nil is the name of the root.
type Name struct {
	text   string
	parsed atomic.Pointer[DN]
}

// NewName returns the name spelled text.
func NewName(text string) *Name {
	if text == "" {
		return nil
	}
	return &Name{text: text}
}

// NameOf returns the name of a DN.
func NameOf(d DN) *Name {
	n := NewName(d.String())
	if n != nil {
		n.parsed.Store(&d)
	}
	return n
}

// String returns the text.
func (n *Name) String() string {
	if n == nil {
		return ""
	}
	return n.text
}

// MarshalText returns the text, for logs and JSON.
func (n *Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// DN returns the parsed text. It is shared: do not change it. The error is one of
// [Parse].
func (n *Name) DN() (DN, error) {
	if n == nil {
		return nil, nil
	}
	if d := n.parsed.Load(); d != nil {
		return *d, nil
	}
	d, err := Parse(n.text)
	if err != nil {
		return nil, err
	}
	n.parsed.Store(&d)
	return d, nil
}
