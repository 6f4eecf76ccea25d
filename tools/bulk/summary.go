package bulk

import (
	"errors"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Cause is a reason why records were bad.
type Cause string

const (
	Undefined  Cause = "attribute types or object classes that the schema does not define"
	Schema     Cause = "definitions of another server's schema, which are no entries"
	NoOption   Cause = "attribute options that are not known"
	TwoClasses Cause = "structural object classes that exclude each other"
	Forbidden  Cause = "object classes or attributes that the schema does not permit so"
	BadValues  Cause = "values that break the syntax or a rule of their attribute"
	NoParent   Cause = "no superior entry"
	Outside    Cause = "a name outside all naming contexts"
	Present    Cause = "the name of an entry that exists already"
	Misfit     Cause = "changes that do not fit the entry, or whose entry does not exist"
	Unreadable Cause = "text that is not LDIF, or not of this kind"
	Cut        Cause = "a file that cannot be read to its end, so that nobody knows what is missing"
	Other      Cause = "another reason"
)

// causes maps problems to causes. Problems that are not listed are Other.
var causes = map[partition.Problem]Cause{
	partition.UndefinedType: Undefined, partition.NoSuchEntry: NoParent, partition.EntryExists: Present,
	partition.ClassViolation: Forbidden, partition.ClassModification: Forbidden, partition.NamingViolation: Forbidden,
	partition.InvalidSyntax: BadValues, partition.Constraint: BadValues, partition.ValueExists: BadValues,
	partition.NoMatching: BadValues, partition.InvalidName: BadValues,
}

// misfits are the problems of changes that were made for another state of their entry.
var misfits = []partition.Problem{
	partition.NoSuchEntry, partition.EntryExists, partition.NotLeaf, partition.NotOnRDN, partition.NoSuchAttribute,
	partition.ValueExists, partition.BadOperand,
}

// A Summary counts the causes of all bad records of an import.
type Summary struct {
	Records map[Cause]int
	// Types and Classes are the names that the schema does not define, Options are the attribute
	// descriptions with unknown options, and Pairs are the structural classes that exclude each
	// other, with the number of records in which they occur.
	Types, Classes, Options, Pairs map[string]int
}

func newSummary() *Summary {
	return &Summary{Records: map[Cause]int{}, Types: map[string]int{}, Classes: map[string]int{}, Options: map[string]int{}, Pairs: map[string]int{}}
}

// add counts a bad record. The schema is nil if it is not known.
func (s *Summary) add(x *item, err error, sch *schema.Schema) {
	var l *ldif.Error
	var p *partition.Error
	cause := Other
	if errors.As(err, &l) {
		cause = Unreadable
	}
	if errors.As(err, &p) && causes[p.Problem] != "" {
		cause = causes[p.Problem]
	}
	switch {
	case x.cut:
		cause = Cut
	case x.definesThere():
		cause, sch = Schema, nil
	case errors.Is(err, load.ErrOutside):
		cause, sch = Outside, nil
	case errors.Is(err, load.ErrRefused):
		cause = NoParent
	case p != nil && x.changesEntry() && slices.Contains(misfits, p.Problem):
		cause = Misfit
	}
	if sch != nil && x.Record != nil && (cause == Undefined || cause == Forbidden || cause == BadValues) {
		cause = s.examine(x, sch, cause)
	}
	s.Records[cause]++
}

// examine counts what the schema lacks for a record, and returns the cause.
func (s *Summary) examine(x *item, sch *schema.Schema, cause Cause) Cause {
	undefined, options := false, false
	miss := func(in map[string]int, name string) {
		in[name]++
		undefined = true
	}
	missIn := func(name string) {
		for _, t := range undefinedIn(name, sch) {
			miss(s.Types, t)
		}
	}
	missIn(x.DN)
	var structural []*schema.ObjectClass
	for a := range x.descriptions() {
		name, _, _ := strings.Cut(a.Description, ";")
		switch t := sch.Attribute(name); {
		case t == nil && !isForeign(name):
			miss(s.Types, name)
		case t == nil:
		case t.NamesEntries():
			for _, v := range a.Values {
				missIn(string(v))
			}
		}
		if t, _ := sch.Describe(a.Description); t == nil && sch.Attribute(name) != nil {
			s.Options[a.Description]++
			options = true
		}
		if !strings.EqualFold(name, "objectClass") {
			continue
		}
		for _, v := range a.Values {
			switch c := sch.Class(string(v)); {
			case c == nil:
				miss(s.Classes, string(v))
			case c.Kind == schema.Structural:
				structural = append(structural, c)
			}
		}
	}
	pair := exclusive(structural)
	switch {
	case undefined:
		return Undefined
	case options && cause == Undefined:
		return NoOption
	case pair != "" && cause == Forbidden:
		s.Pairs[pair]++
		return TwoClasses
	}
	return cause
}

// undefinedIn returns the attribute types of a name that the schema does not define.
func undefinedIn(name string, sch *schema.Schema) []string {
	var types []string
	d, _ := dn.Parse(name) // a name with a mistake has another cause
	for _, rdn := range d {
		for _, ava := range rdn {
			if sch.Attribute(ava.Type) == nil && !isForeign(ava.Type) {
				types = append(types, ava.Type)
			}
		}
	}
	return types
}

// definesThere reports whether a record has definitions of another server's schema.
func (x *item) definesThere() bool {
	if x.Record == nil || x.ofSubschema() {
		return false
	}
	for a := range x.descriptions() {
		name := strings.ToLower(a.Description)
		if slices.Contains([]string{"attributetypes", "objectclasses"}, strings.TrimPrefix(name, "olc")) {
			return true
		}
	}
	return false
}

// changesEntry reports whether a record changes an entry that exists.
func (x *item) changesEntry() bool {
	if x.Record == nil {
		return false
	}
	switch x.Change.(type) {
	case *op.Modify, *op.ModifyDN, *op.Delete:
		return true
	}
	return false
}

// exclusive returns two of the classes of which neither is a superclass of the other, or "".
func exclusive(classes []*schema.ObjectClass) string {
	for i, a := range classes {
		for _, b := range classes[:i] {
			if !a.Is(b) && !b.Is(a) {
				return b.Name() + " and " + a.Name()
			}
		}
	}
	return ""
}

// descriptions yields the attributes that a record contains or changes.
func (x *item) descriptions() func(func(op.PartialAttribute) bool) {
	return func(yield func(op.PartialAttribute) bool) {
		as := x.Attributes
		switch c := x.Change.(type) {
		case *op.Add:
			as = c.Attributes
		case *op.Modify:
			for _, m := range c.Changes {
				as = append(as, m.PartialAttribute)
			}
		}
		for _, a := range as {
			if !yield(a) {
				return
			}
		}
	}
}
