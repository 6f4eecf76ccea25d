package policies

import (
	"bytes"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/internal/wellknown"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Class is the object class of policies.
const Class = "pwdPolicy"

func parseDefault(attributes []catalog.PolicyAttribute) (*account.Policy, error) {
	return account.ParseDefault(catalog.ConfigName, func(name string) []string { return catalog.PolicyValues(attributes, name) })
}

// ApplyDefault applies changes of the attributes of cn=config, objectClass included, to the
// default policy. If cn=config then lacks the object class of policies, there is no default
// policy any more, and ApplyDefault returns nil.
func ApplyDefault(k *wellknown.Elements, old []catalog.PolicyAttribute, changes []op.Modification, permissive bool) ([]catalog.PolicyAttribute, error) {
	ed := &editor{known: k, permissive: permissive}
	ed.read(old)
	for i := range changes {
		if err := ed.change(&changes[i]); err != nil {
			return nil, err
		}
	}
	return ed.policy()
}

// An editor applies modifications to the attributes of cn=config. It does not handle the
// access rules.
type editor struct {
	known      *wellknown.Elements
	permissive bool
	attributes []entry.Attribute
}

var configClasses = []string{"top", "directoryConfiguration"}

func (ed *editor) read(old []catalog.PolicyAttribute) {
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
		return op.Errorf(op.ConstraintViolation, "%s takes no options at %s", t.Name(), catalog.ConfigName)
	case t != ed.known.ObjectClass && !ed.ofPolicies(t):
		return op.Errorf(op.UnwillingToPerform, "only the access rules and the default password policy of %s can be changed", catalog.ConfigName)
	case c.Kind == op.ModIncrement:
		return op.Errorf(op.ConstraintViolation, "%s cannot be incremented at %s", t.Name(), catalog.ConfigName)
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

// ofPolicies reports whether the class of policies allows or requires an attribute type.
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
	switch c.Kind {
	case op.ModDelete:
		return ed.delete(a, c.Values)
	case op.ModReplace:
		a.Values = nil
	}
	return ed.add(a, c.Values)
}

func (ed *editor) add(a *entry.Attribute, values [][]byte) error {
	for _, v := range values {
		if indexOf(a, v) < 0 {
			a.Values = append(a.Values, v)
		} else if !ed.permissive {
			return op.Errorf(op.AttributeOrValueExists, "attribute %s has this value already", a.Type.Name())
		}
	}
	return nil
}

// delete removes the given values of an attribute. If no values are given, it removes all
// values.
func (ed *editor) delete(a *entry.Attribute, values [][]byte) error {
	if len(values) == 0 {
		if len(a.Values) == 0 && !ed.permissive {
			return op.Errorf(op.NoSuchAttribute, "the entry has no %s to delete", a.Type.Name())
		}
		a.Values = nil
		return nil
	}
	for _, v := range values {
		if i := indexOf(a, v); i >= 0 {
			a.Values = slices.Delete(a.Values, i, i+1)
		} else if !ed.permissive {
			return op.Errorf(op.NoSuchAttribute, "attribute %s has no such value to delete", a.Type.Name())
		}
	}
	return nil
}

func indexOf(a *entry.Attribute, value []byte) int {
	return slices.IndexFunc(a.Values, func(v []byte) bool { return same(a.Type, v, value) })
}

func same(t *schema.AttributeType, a, b []byte) bool {
	if t.Equality == nil {
		return bytes.Equal(a, b)
	}
	x, err := t.Equality.Key(a)
	y, err2 := t.Equality.Key(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// policy returns the default policy, or nil if cn=config does not have the class of
// policies. It returns an error if the object classes of cn=config do not allow its
// attributes, or if the attributes are no valid policy.
func (ed *editor) policy() ([]catalog.PolicyAttribute, error) {
	is, err := ed.isPolicy()
	if err != nil {
		return nil, err
	}
	var policy []catalog.PolicyAttribute
	for _, a := range ed.attributes {
		if a.Type == ed.known.ObjectClass || len(a.Values) == 0 {
			continue
		}
		if !is {
			return nil, op.Errorf(op.ObjectClassViolation, "attribute %s is allowed at %s only with the object class %s", a.Type.Name(), catalog.ConfigName, Class)
		}
		p := catalog.PolicyAttribute{Name: a.Type.Name()}
		for _, v := range a.Values {
			p.Values = append(p.Values, string(v))
		}
		policy = append(policy, p)
	}
	if !is {
		return nil, nil
	}
	return policy, checkDefault(ed.known, policy)
}

// isPolicy reports whether cn=config has the class of policies. It returns an error if
// cn=config lacks one of its own classes, or has a class of another kind.
func (ed *editor) isPolicy() (is bool, err error) {
	for _, want := range configClasses {
		if !slices.ContainsFunc(ed.attributes[0].Values, func(v []byte) bool { return ed.known.IsNamed(string(v), want) }) {
			return false, op.Errorf(op.ObjectClassViolation, "%s must have the object class %s", catalog.ConfigName, want)
		}
	}
	for _, v := range ed.attributes[0].Values {
		switch {
		case ed.known.IsNamed(string(v), Class) && ed.known.Policy != nil:
			is = true
		case !slices.ContainsFunc(configClasses, func(c string) bool { return ed.known.IsNamed(string(v), c) }):
			return false, op.Errorf(op.ObjectClassViolation, "%s cannot have the object class %q", catalog.ConfigName, v)
		}
	}
	return is, nil
}

// checkDefault returns an error if the attributes are no valid default policy.
func checkDefault(k *wellknown.Elements, attributes []catalog.PolicyAttribute) error {
	for _, t := range k.Policy.Must {
		if catalog.PolicyValues(attributes, t.Name()) == nil {
			return op.Errorf(op.ObjectClassViolation, "object class %s requires attribute %s", Class, t.Name())
		}
	}
	if _, err := parseDefault(attributes); err != nil {
		return op.Errorf(op.ConstraintViolation, "the password policy is not valid: %v", err)
	}
	return nil
}
