package acl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A part is a [Part] whose attributes have been resolved by the schema.
type part struct {
	written    Part
	rights     Rights
	named      bool // the rule lists attributes for this part; the list may be "*"
	in, except []attribute
	uses       []string // for the right "use": the names and OIDs that may be used, in lower case, or "*"
	usesNot    []string
}

// An attribute is one item in a part's list of attributes. One item may denote many attributes.
type attribute struct {
	user, operational bool // all user or all operational attributes, except reserved ones
	types             map[*schema.AttributeType]bool
	options           string
	values            *values // nil: all values
}

// values is a condition that selects some of the values of an attribute.
type values struct {
	self   bool
	key    []byte
	filter filter.Resolved
}

// reservedTypes are attributes that a rule grants only if the rule names them. They are
// accessRule and the attributes that contain the state of an account. Secret attributes
// are also reserved, although they are not in this map.
var reservedTypes = map[string]bool{
	"accessRule": true, "pwdHistory": true, "pwdReset": true, "pwdChangedTime": true,
	"pwdAccountLockedTime": true, "pwdFailureTime": true, "pwdGraceUseTime": true, "pwdLastSuccess": true,
	"pwdStartTime": true, "pwdEndTime": true, "pwdPolicySubentry": true, "nsAccountLock": true,
	"ds-pwp-account-disabled": true, "passwordExpirationTime": true,
}

// isRules reports whether the type is accessRule.
func isRules(t *schema.AttributeType) bool { return slices.Contains(t.Names, "accessRule") }

// Reserved reports whether a rule grants attributes of a type only if the rule names the
// type. "*", "+" and "@class" do not include reserved types.
func Reserved(t *schema.AttributeType) bool {
	return t.Secret() || slices.ContainsFunc(t.Names, func(n string) bool { return reservedTypes[n] })
}

func (k compiler) part(p Part) (out part, err error) {
	out.written, out.rights = p, p.Rights
	if p.Rights&Use != 0 {
		return out, k.uses(p, &out)
	}
	if len(p.Attributes) > 0 && p.Rights&onAttributes == 0 {
		return out, fmt.Errorf("%s is about entries and takes no attributes", p.Rights)
	}
	out.named = len(p.Attributes) > 0
	if !out.named {
		out.in = []attribute{{user: true}}
		return out, nil
	}
	if out.in, err = each(p.Attributes, k.attribute); err != nil {
		return out, err
	}
	out.except, err = each(p.Except, k.attribute)
	return out, err
}

// secrets returns the secret types that the part names.
func (p *part) secrets() (named []*schema.AttributeType) {
	for _, a := range p.in {
		for t, whole := range a.types {
			if whole && t.Secret() {
				named = append(named, t)
			}
		}
	}
	return named
}

func (k compiler) uses(p Part, out *part) error {
	if p.Rights != Use || len(p.Attributes) == 0 {
		return fmt.Errorf("use stands alone, with the names or OIDs of what may be used")
	}
	if len(k.place) > 0 || k.narrowed {
		return fmt.Errorf("use is a right on the server: write such rules at cn=config, without entries")
	}
	for _, a := range p.Attributes {
		out.uses = append(out.uses, strings.ToLower(a.Description))
	}
	for _, a := range p.Except {
		out.usesNot = append(out.usesNot, strings.ToLower(a.Description))
	}
	return nil
}

func (k compiler) attribute(a Attribute) (out attribute, err error) {
	switch {
	case a.Description == "*":
		out.user = true
		return out, nil
	case a.Description == "+":
		out.operational = true
		return out, nil
	case a.Description[0] == '@':
		out.types, err = k.class(a.Description[1:])
		return out, err
	}
	t, options := k.schema.Describe(a.Description)
	if t == nil {
		return out, fmt.Errorf("the attribute type %s is not known", a.Description)
	}
	out.options = entry.SortOptions(options)
	out.types = map[*schema.AttributeType]bool{}
	for _, sub := range k.schema.Subtypes(t) {
		out.types[sub] = sub == t || !Reserved(sub) || Reserved(t)
	}
	out.types[t] = true
	out.values, err = k.values(a, t)
	return out, err
}

// class returns the types of an object class and the subtypes of these types, except
// reserved types.
func (k compiler) class(name string) (map[*schema.AttributeType]bool, error) {
	c := k.schema.Class(name)
	if c == nil {
		return nil, fmt.Errorf("the object class %s is not known", name)
	}
	types := map[*schema.AttributeType]bool{}
	var add func(c *schema.ObjectClass)
	add = func(c *schema.ObjectClass) {
		for _, t := range slices.Concat(c.Must, c.May) {
			for _, sub := range append(k.schema.Subtypes(t), t) {
				types[sub] = !Reserved(sub)
			}
		}
		for _, sup := range c.Sup {
			add(sup)
		}
	}
	add(c)
	return types, nil
}

func (k compiler) values(a Attribute, t *schema.AttributeType) (*values, error) {
	v := &values{self: a.Self}
	switch {
	case a.Self && !isName(t):
		return nil, fmt.Errorf("values of %s are not names, so that none can be self", a.Description)
	case a.Self:
	case a.Value != nil:
		if t.Equality == nil || t.Secret() {
			return nil, fmt.Errorf("values of %s cannot be compared", a.Description)
		}
		key, err := t.Equality.Key([]byte(*a.Value))
		if err != nil {
			return nil, fmt.Errorf("the value %q of %s: %w", *a.Value, a.Description, err)
		}
		v.key = key
	case a.Filter != nil:
		f, err := k.filter(a.Filter)
		if err != nil {
			return nil, err
		}
		for test := range filter.Tests(f) {
			if !slices.Contains(test.Types, t) {
				return nil, fmt.Errorf("the filter %s chooses values of %s, but asks about another attribute", a.Filter, a.Description)
			}
		}
		v.filter = f
	default:
		return nil, nil
	}
	return v, nil
}

// covers reports whether the attribute includes all or some values of the attribute
// description that consists of t and options.
func (a *attribute) covers(t *schema.AttributeType, options string) bool {
	switch {
	case a.types != nil:
		return a.types[t] && entry.HasOptions(options, a.options)
	case Reserved(t):
		return false
	case t.Operational():
		return a.operational
	}
	return a.user
}

// partly reports whether the attribute includes only some descriptions of t or only some
// values of t.
func (a *attribute) partly(t *schema.AttributeType) bool {
	return a.types[t] && (a.options != "" || a.values != nil)
}

// A subjectValue is the value that a decision is about. If the field value is nil, the
// decision is about all values of the description.
type subjectValue struct {
	typ     *schema.AttributeType
	options string
	value   []byte
	program *Program
	// The field more means that the decision is also about descriptions with further options,
	// besides those in the field options.
	more bool
}

// covers reports whether the part includes the value of v, or all values of the description if
// v has no value.
func (p *part) covers(v *subjectValue) bool {
	return slices.ContainsFunc(p.in, v.is) && !slices.ContainsFunc(p.except, v.touches)
}

// mayCover reports whether the part includes the value of v, or at least one possible value of
// the description if v has no value.
func (p *part) mayCover(v *subjectValue) bool {
	return slices.ContainsFunc(p.in, v.touches) && !slices.ContainsFunc(p.except, v.is)
}

// The method "is" reports whether the attribute a includes the value of v, or all values if v has
// no value.
func (v *subjectValue) is(a attribute) bool {
	return a.covers(v.typ, v.options) && (a.values == nil || v.value != nil && a.values.has(v))
}

// touches reports whether the attribute a includes the value of v, or at least one possible
// value if v has no value.
func (v *subjectValue) touches(a attribute) bool {
	if !a.covers(v.typ, v.options) && !(v.more && a.about(v.typ)) {
		return false
	}
	return a.values == nil || v.value == nil || a.values.has(v)
}

// The method "has" reports whether w selects the value of v.
func (w *values) has(v *subjectValue) bool {
	switch {
	case w.filter != nil:
		e := entry.Entry{Attributes: []entry.Attribute{{Type: v.typ, Options: v.options, Values: [][]byte{v.value}}}}
		src := filter.EntrySource{Schema: v.program.set.schema, Entry: &e}
		return w.filter.Match(&src) == filter.True
	case v.typ.Equality == nil:
		return false
	}
	key, err := v.typ.Equality.Key(v.value)
	if err != nil {
		return false
	}
	if w.self {
		return v.program.isOwnName(v.typ, key)
	}
	return string(key) == string(w.key)
}
