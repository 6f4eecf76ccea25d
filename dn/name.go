package dn

import "sync/atomic"

// A Name is the name of an entry as the store spells it: the text of a DN. The DN is
// parsed when it is first needed, and then kept, because most names are only printed, but
// some names are examined in every request. A nil Name is the name of the root.
type Name struct {
	text   string
	parsed atomic.Pointer[DN]
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
		n.parsed.Store(&d)
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
