// Package aci reads values of the attribute aci, in which 389 Directory Server, OpenDJ and
// PingDirectory store access control. It translates them into rules.
package aci

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/filter"
)

// Dialect is the kind of server that a value comes from. The kinds differ in what * and +
// mean.
type Dialect uint8

const (
	DS389  Dialect = iota // * in targetattr is every attribute; * in a DN matches commas too
	OpenDJ                // * is every user attribute, + every operational one; * in a DN is part of one RDN
)

// An ACI is a parsed value.
type ACI struct {
	Name string
	// Target restricts the value to some of the entries at and below the entry that
	// contains the value. If it is nil, the value is about all of them.
	Target *Target
	Scope  string // in lower case: base, onelevel, subtree or subordinate; "": subtree
	// Attributes is nil if the value has no targetattr.
	Attributes *Attributes
	Filter     *Filter
	Values     *Values // targattrfilters
	To, From   *Target
	Controls   []string // targetcontrol
	Operations []string // extop
	Clauses    []Clause
}

// A Target is a DN or a DN with wildcards.
type Target struct {
	Not bool
	DN  string // without ldap:///
}

// Attributes is the list of a targetattr.
type Attributes struct {
	Not   bool
	Names []string
}

// A Filter is a targetfilter.
type Filter struct {
	Not    bool
	Filter filter.Filter
}

// Values are the lists of targattrfilters: filters of the values that may be added and
// deleted.
type Values struct {
	Not      bool
	Add, Del []ValueFilter
}

// A ValueFilter is a filter of the values of one attribute.
type ValueFilter struct {
	Attribute string
	Filter    filter.Filter
}

// A Clause is a permission with a bind rule. The permission applies if the bind rule
// holds.
type Clause struct {
	Deny   bool
	Rights Rights
	Bind   Bind
}

// Rights is a set of the rights of an aci.
type Rights uint16

const (
	Read Rights = 1 << iota
	Search
	Compare
	Write
	Add
	Delete
	SelfWrite
	Proxy
	Import
	Export
	ModDN

	// All is the set of rights that the word "all" stands for.
	All = Read | Search | Compare | Write | Add | Delete | SelfWrite
)

var rightWords = map[string]Rights{"read": Read, "search": Search, "compare": Compare, "write": Write, "add": Add,
	"delete": Delete, "selfwrite": SelfWrite, "self": SelfWrite, "proxy": Proxy, "import": Import, "export": Export,
	"moddn": ModDN, "all": All}

// A Bind is a bind rule: an *And, *Or, *Not or *Keyword.
type Bind interface{ isBind() }

type (
	And struct{ Left, Right Bind }
	Or  struct{ Left, Right Bind }
	Not struct{ Bind }
	// A Keyword is a comparison such as userdn = "ldap:///self". Values are the parts of
	// the text between ||.
	Keyword struct {
		Name   string // in lower case
		Op     string // =, !=, <, >, <=, >=
		Values []string
	}
)

func (*And) isBind()     {}
func (*Or) isBind()      {}
func (*Not) isBind()     {}
func (*Keyword) isBind() {}

// keywords are the words of bind rules.
var keywords = []string{"userdn", "groupdn", "roledn", "userattr", "userdnattr", "groupdnattr", "ip", "dns", "timeofday", "dayofweek",
	"authmethod", "ssf", "secure", "oauthscope"}

// An Error reports what is wrong with a value, and where.
type Error struct {
	Offset int // in bytes, from 0
	Text   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("the aci is malformed at byte %d: %s", e.Offset, e.Text)
}

// IsOpenDJ reports whether the value has words that 389 Directory Server does not know.
func (a *ACI) IsOpenDJ() bool {
	if a.Scope != "" || a.Controls != nil || a.Operations != nil || a.Attributes != nil && slices.Contains(a.Attributes.Names, "+") {
		return true
	}
	if a.Target != nil && strings.Contains(a.Target.DN, "**") {
		return true
	}
	for _, c := range a.Clauses {
		if c.Rights&(Import|Export) != 0 || uses(c.Bind, "secure") || uses(c.Bind, "oauthscope") {
			return true
		}
	}
	return false
}

// uses reports whether a bind rule has a keyword.
func uses(b Bind, name string) bool {
	switch b := b.(type) {
	case *And:
		return uses(b.Left, name) || uses(b.Right, name)
	case *Or:
		return uses(b.Left, name) || uses(b.Right, name)
	case *Not:
		return uses(b.Bind, name)
	case *Keyword:
		return b.Name == name
	}
	return false
}
