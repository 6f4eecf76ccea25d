// Package olc reads the access directives of OpenLDAP's slapd, both values of olcAccess and
// lines of slapd.conf. It translates them into rules.
package olc

import (
	"fmt"
	"net/netip"

	"github.com/seed-4dac0d86/ldapd/filter"
)

// A Directive has the form "to what by who access control ...".
type Directive struct {
	What    What
	Clauses []Clause
}

// A What is the set of entries and attributes that a directive is about.
type What struct {
	Style  Style  // the style Everything if the directive has no dn
	DN     string // a name, or a regular expression
	Filter filter.Filter
	// Attributes is nil if the directive is about all attributes, including the
	// pseudo-attributes entry and children.
	Attributes []Attribute
	Value      *string // the directive is about this value of its only attribute; nil: about all values
	// ValueStyle is "exact", or the style of a value that rules have no words for.
	ValueStyle string
	// Operations are words such as op=search, which restrict the directive to operations.
	Operations []string
}

// Style is the style of a name.
type Style string

const (
	Everything Style = ""
	Exact      Style = "exact"
	One        Style = "one"
	Subtree    Style = "subtree"
	Children   Style = "children"
	Regex      Style = "regex"
)

var styles = map[string]Style{"": Exact, "exact": Exact, "base": Exact, "baseobject": Exact, "one": One, "onelevel": One,
	"sub": Subtree, "subtree": Subtree, "children": Children, "subordinate": Children, "regex": Regex}

// An Attribute is a description, or a class with @ or ! in front.
type Attribute string

// A Clause has the form "by who access control".
type Clause struct {
	Who     []Who // the clause applies if all of them match
	Access  Access
	Control string // stop, continue or break
}

// WhoKind is the kind of a Who.
type WhoKind uint8

const (
	Any WhoKind = iota
	Anonymous
	Users
	Self
	DN
	DNAttr
	Group
	Peer    // an address
	Socket  // the sockurl or sockname of a socket on this machine
	SSF     // ssf and transport_ssf
	TLSSSF  // tls_ssf
	Set     // a set expression
	Unknown // a condition that rules have no words for
)

// A Who is one condition on the identity or the connection.
type Who struct {
	Kind      WhoKind
	Style     Style
	Expand    bool   // $1 and so on stand for the texts that groups of the What's regular expression matched
	Text      string // a name, a regular expression, an attribute, a set, or the whole word
	Level     int    // for a word such as self.level{1}: the level
	Class     string // for a group: its object class; "": groupOfNames
	Attribute string // for a group: its member attribute; "": member
	Network   netip.Prefix
	Loose     bool // addresses outside Network match too
	N         int  // for an ssf: the least strength
}

// Mask is a set of privileges.
type Mask uint8

const (
	Disclose Mask = 1 << iota
	Auth
	Compare
	Search
	Read
	Add
	Delete
	Manage
)

// Access is how a clause changes the privileges.
type Access struct {
	Mask Mask
	Op   byte // '=', '+' or '-'
	Self bool // only for values that are the identity's own name
}

// levels are the levels of access with their privileges.
var levels = map[string]Mask{"none": 0, "disclose": Disclose, "auth": Disclose | Auth, "compare": Disclose | Auth | Compare,
	"search": Disclose | Auth | Compare | Search, "read": Disclose | Auth | Compare | Search | Read,
	"add": Disclose | Auth | Compare | Search | Read | Add, "delete": Disclose | Auth | Compare | Search | Read | Delete,
	"write":  Disclose | Auth | Compare | Search | Read | Add | Delete,
	"manage": Disclose | Auth | Compare | Search | Read | Add | Delete | Manage}

var privileges = map[byte]Mask{'0': 0, 'd': Disclose, 'x': Auth, 'c': Compare, 's': Search, 'r': Read, 'w': Add | Delete, 'a': Add, 'z': Delete, 'm': Manage}

// Change returns the privileges that result from the privileges m if a clause has the access a.
func (a Access) Change(m Mask) Mask {
	switch a.Op {
	case '+':
		return m | a.Mask
	case '-':
		return m &^ a.Mask
	}
	return a.Mask
}

// An Error reports what is wrong with a directive, and where.
type Error struct {
	Offset int // in bytes, from 0
	Text   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("the directive is malformed at byte %d: %s", e.Offset, e.Text)
}
