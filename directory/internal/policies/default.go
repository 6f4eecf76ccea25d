package policies

import (
	"bytes"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/account"
	"github.com/seed-4dac0d86/ldapd/directory/internal/known"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition/configure"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// DefaultName is the name of the default policy: the entry with the settings of the
// directory.
const DefaultName = "cn=config"

// Class is the object class of policies.
const Class = "pwdPolicy"

func isDefault(name dn.DN) bool {
	return len(name) == 1 && len(name[0]) == 1 && strings.EqualFold(name.String(), DefaultName)
}

// ParseDefault reads a default policy from its attributes.
func ParseDefault(attributes []configure.PolicyAttribute) (*account.Policy, error) {
	return account.ParseDefault(DefaultName, func(name string) []string {
		for _, a := range attributes {
			if strings.EqualFold(a.Name, name) {
				return a.Values
			}
		}
		return nil
	})
}

// ApplyDefault applies changes of the attributes of cn=config, including its object
// classes, to the default policy. It returns nil if cn=config is no policy afterwards.
func ApplyDefault(k *known.Elements, old []configure.PolicyAttribute, changes []op.Modification, permissive bool) ([]configure.PolicyAttribute, error) {
	ed := &editor{known: k, permissive: permissive}
	ed.read(old)
	for i := range changes {
		if err := ed.change(&changes[i]); err != nil {
			return nil, err
		}
	}
	return ed.policy()
}

// editor has the attributes of cn=config that a modify may change, except the access
// rules.
type editor struct {
	known      *known.Elements
	permissive bool
	attributes []entry.Attribute
}

var configClasses = []string{"top", "directoryConfiguration"}

func (ed *editor) read(old []configure.PolicyAttribute) {
	classes := configClasses
	if old != nil {
		classes = append(slices.Clone(classes), Class)
	}
	ed.set(ed.known.ObjectClass, classes)
	for _, a := range old {
		if t := ed.known.Schema.Attribute(a.Name); t != nil {
			ed.set(t, a.Values)
		}
	}
}

func (ed *editor) set(t *schema.AttributeType, values []string) {
	a := entry.Attribute{Type: t}
	for _, v := range values {
		a.Values = append(a.Values, []byte(v))
	}
	ed.attributes = append(ed.attributes, a)
}

func (ed *editor) change(c *op.Modification) error {
	t, options := ed.known.Schema.Describe(c.Description)
	switch {
	case t == nil:
		return op.Errorf(op.UndefinedAttributeType, "attribute type %q is not in the schema", c.Description)
	case options != "":
		return op.Errorf(op.ConstraintViolation, "%s takes no options at %s", t.Name(), DefaultName)
	case t != ed.known.ObjectClass && !ed.ofPolicies(t):
		return op.Errorf(op.UnwillingToPerform, "of %s only the access rules and the default password policy can be changed", DefaultName)
	case c.Kind == op.ModIncrement:
		return op.Errorf(op.ConstraintViolation, "%s cannot be incremented at %s", t.Name(), DefaultName)
	case c.Kind == op.ModAdd && len(c.Values) == 0:
		return op.Errorf(op.ProtocolError, "add of %s: no values given", t.Name())
	}
	for _, v := range c.Values {
		if err := t.Syntax.Validate(v); err != nil {
			return op.Errorf(op.InvalidAttributeSyntax, "%s: %v", t.Name(), err)
		}
	}
	return ed.apply(t, c)
}

// ofPolicies reports whether policies have values of a type.
func (ed *editor) ofPolicies(t *schema.AttributeType) bool {
	c := ed.known.Policy
	return c != nil && (slices.Contains(c.May, t) || slices.Contains(c.Must, t))
}

func (ed *editor) apply(t *schema.AttributeType, c *op.Modification) error {
	i := slices.IndexFunc(ed.attributes, func(a entry.Attribute) bool { return a.Type == t })
	if i < 0 {
		i = len(ed.attributes)
		ed.attributes = append(ed.attributes, entry.Attribute{Type: t})
	}
	a := &ed.attributes[i]
	if c.Kind == op.ModReplace || c.Kind == op.ModDelete && len(c.Values) == 0 {
		if c.Kind == op.ModDelete && len(a.Values) == 0 && !ed.permissive {
			return op.Errorf(op.NoSuchAttribute, "the entry has no %s to delete", t.Name())
		}
		a.Values = nil
	}
	for _, v := range c.Values {
		at := slices.IndexFunc(a.Values, func(x []byte) bool { return same(t, x, v) })
		switch {
		case c.Kind == op.ModDelete && at >= 0:
			a.Values = slices.Delete(a.Values, at, at+1)
		case c.Kind == op.ModDelete && !ed.permissive:
			return op.Errorf(op.NoSuchAttribute, "attribute %s has no such value to delete", t.Name())
		case c.Kind != op.ModDelete && at < 0:
			a.Values = append(a.Values, v)
		case c.Kind != op.ModDelete && !ed.permissive:
			return op.Errorf(op.AttributeOrValueExists, "attribute %s has this value already", t.Name())
		}
	}
	return nil
}

func same(t *schema.AttributeType, a, b []byte) bool {
	if t.Equality == nil {
		return bytes.Equal(a, b)
	}
	x, err := t.Equality.Key(a)
	y, err2 := t.Equality.Key(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// policy returns the default policy that the attributes make, and refuses attributes that
// make none.
func (ed *editor) policy() ([]configure.PolicyAttribute, error) {
	is, err := ed.isPolicy()
	if err != nil {
		return nil, err
	}
	var policy []configure.PolicyAttribute
	for _, a := range ed.attributes {
		if a.Type == ed.known.ObjectClass || len(a.Values) == 0 {
			continue
		}
		if !is {
			return nil, op.Errorf(op.ObjectClassViolation, "attribute %s is allowed at %s only with the object class %s", a.Type.Name(), DefaultName, Class)
		}
		p := configure.PolicyAttribute{Name: a.Type.Name()}
		for _, v := range a.Values {
			p.Values = append(p.Values, string(v))
		}
		policy = append(policy, p)
	}
	if !is {
		return nil, nil
	}
	return policy, CheckDefault(ed.known, policy)
}

// isPolicy reports whether cn=config has the class of policies. It refuses any other
// change of its classes.
func (ed *editor) isPolicy() (is bool, err error) {
	for _, want := range configClasses {
		if !slices.ContainsFunc(ed.attributes[0].Values, func(v []byte) bool { return ed.known.IsNamed(string(v), want) }) {
			return false, op.Errorf(op.ObjectClassViolation, "%s must have the object class %s", DefaultName, want)
		}
	}
	for _, v := range ed.attributes[0].Values {
		switch {
		case ed.known.IsNamed(string(v), Class) && ed.known.Policy != nil:
			is = true
		case !slices.ContainsFunc(configClasses, func(c string) bool { return ed.known.IsNamed(string(v), c) }):
			return false, op.Errorf(op.ObjectClassViolation, "%s cannot have the object class %q", DefaultName, v)
		}
	}
	return is, nil
}

// CheckDefault returns an error if attributes cannot be the default policy.
func CheckDefault(k *known.Elements, attributes []configure.PolicyAttribute) error {
	has := func(name string) bool {
		return slices.ContainsFunc(attributes, func(a configure.PolicyAttribute) bool { return strings.EqualFold(a.Name, name) })
	}
	for _, t := range k.Policy.Must {
		if !has(t.Name()) {
			return op.Errorf(op.ObjectClassViolation, "object class %s requires attribute %s", Class, t.Name())
		}
	}
	if _, err := ParseDefault(attributes); err != nil {
		return op.Errorf(op.ConstraintViolation, "the password policy cannot be: %v", err)
	}
	return nil
}
