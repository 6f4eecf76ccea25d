package catalog

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// Conform checks the classes of a whole entry and the types of its attributes.
func (cs *Classes) Conform(has []*schema.AttributeType) error {
	if err := cs.auxiliaries(); err != nil {
		return err
	}
	var wrong Mistakes
	for _, t := range has {
		if !cs.Allows(t) {
			wrong.Add(NotAllowed(cs, t))
		}
	}
	for _, c := range cs.All {
		cs.complete(&wrong, c.Must, has)
	}
	if cs.rule != nil {
		cs.complete(&wrong, cs.rule.Must, has)
	}
	return wrong.Err()
}

func (cs *Classes) complete(wrong *Mistakes, must, has []*schema.AttributeType) {
	for _, t := range must {
		if !slices.Contains(has, t) {
			wrong.Add(Required(cs.Requires(t), t))
		}
	}
}

// Allows reports whether the classes and the DIT content rule allow values of exactly
// type t. Only a collective attribute subentry may have collective types, and it may have
// any of them (RFC 3671, 2.1).
func (cs *Classes) Allows(t *schema.AttributeType) bool {
	switch {
	case cs.rule != nil && slices.Contains(cs.rule.Not, t):
		return false
	case t.Collective:
		return cs.collects
	case t.Operational() || cs.extensible || cs.rule != nil && cs.rule.Allows(t):
		return true
	}
	for _, c := range cs.All {
		if slices.Contains(c.May, t) || slices.Contains(c.Must, t) {
			return true
		}
	}
	return false
}

// Requires returns the name of the class or content rule that requires a type (MUST), or
// "" if none does.
func (cs *Classes) Requires(t *schema.AttributeType) string {
	for _, c := range cs.All {
		if slices.Contains(c.Must, t) {
			return "object class " + c.Name()
		}
	}
	if cs.rule != nil && slices.Contains(cs.rule.Must, t) {
		return "DIT content rule " + cs.rule.Name()
	}
	return ""
}

func NotAllowed(cs *Classes, t *schema.AttributeType) *Error {
	if cs.rule != nil && slices.Contains(cs.rule.Not, t) {
		return Errorf(ClassViolation, "attribute %s is precluded by the DIT content rule %s", t.Name(), cs.rule.Name())
	}
	if t.Collective {
		return Errorf(ClassViolation, "attribute %s is collective: it belongs in a collectiveAttributeSubentry", t.Name())
	}
	return Errorf(ClassViolation, "attribute %s is not allowed by the entry's object classes (structural: %s)", t.Name(), cs.Structural.Name())
}

func Required(by string, t *schema.AttributeType) *Error {
	return Errorf(ClassViolation, "%s requires attribute %s", by, t.Name())
}

// Obsolete returns the error for the first use of an obsolete definition in an entry (RFC
// 4512, 4.1.1). An entry that already uses the definition may keep using it.
func Obsolete(what, name string) *Error {
	return Errorf(ClassViolation, "%s %s is obsolete: it cannot be added to entries any more", what, name)
}
