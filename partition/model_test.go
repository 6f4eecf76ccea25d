package partition_test

import (
	"bytes"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A model is a directory as the RFCs describe it, without rows, indexes or caches. It
// maps normalised names to entries, and finds entries by examining all of them. It shares
// only the schema with the partition.
type model struct {
	schema  *schema.Schema
	entries map[string]*modelEntry
}

// A modelEntry contains its values by description ("cn;lang-de"), in order.
type modelEntry struct {
	id     entry.ID
	name   dn.DN
	values map[string][]string
}

func newModel(s *schema.Schema) *model {
	return &model{schema: s, entries: map[string]*modelEntry{}}
}

func (m *model) clone() *model {
	c := newModel(m.schema)
	for k, e := range m.entries {
		c.entries[k] = e.clone()
	}
	return c
}

// with returns a clone that uses another schema.
func (m *model) with(s *schema.Schema) *model {
	c := newModel(s)
	for _, e := range m.entries {
		c.entries[c.key(e.name)] = e.clone()
	}
	return c
}

func (e *modelEntry) clone() *modelEntry {
	c := &modelEntry{e.id, e.name, map[string][]string{}}
	for d, vs := range e.values {
		c.values[d] = slices.Clone(vs)
	}
	return c
}

func (m *model) key(name dn.DN) string {
	norms, err := name.Normalize(m.schema)
	if err != nil {
		panic(err)
	}
	return string(dn.Key(norms))
}

func (m *model) find(name dn.DN) *modelEntry { return m.entries[m.key(name)] }

// The method "below" returns the entries below the entry with the given name.
func (m *model) below(name dn.DN) (es []*modelEntry) {
	k := m.key(name)
	for _, key := range slices.Sorted(maps.Keys(m.entries)) {
		if strings.HasPrefix(key, k) && key != k {
			es = append(es, m.entries[key])
		}
	}
	return es
}

// describe parses an attribute description.
func (m *model) describe(d string) (*schema.AttributeType, string) {
	name, options := d, ""
	if i := strings.IndexByte(d, ';'); i >= 0 {
		name, options = d[:i], entry.SortOptions(d[i:])
	}
	t := m.schema.Attribute(name)
	return t, t.Name() + options
}

// The function "same" reports whether two values of a type are equal.
func same(t *schema.AttributeType, a, b string) bool {
	if t.Equality == nil || t.Secret() {
		return a == b
	}
	ka, errA := t.Equality.Key([]byte(a))
	kb, errB := t.Equality.Key([]byte(b))
	return errA == nil && errB == nil && bytes.Equal(ka, kb)
}

func (e *modelEntry) index(t *schema.AttributeType, d, v string) int {
	return slices.IndexFunc(e.values[d], func(x string) bool { return same(t, x, v) })
}

// put appends values to a description.
func (m *model) put(e *modelEntry, d string, values [][]byte) partition.Problem {
	t, d := m.describe(d)
	for _, v := range values {
		if t.Syntax.Validate(v) != nil {
			return partition.InvalidSyntax
		}
		if e.index(t, d, string(v)) >= 0 {
			return partition.ValueExists
		}
		e.values[d] = append(e.values[d], string(v))
	}
	return 0
}

// The method "names" adds the values of an RDN that the entry does not have.
func (m *model) names(e *modelEntry, rdn dn.RDN) {
	for _, ava := range rdn {
		t, d := m.describe(ava.Type)
		if e.index(t, d, string(ava.Value)) < 0 {
			e.values[d] = append(e.values[d], string(ava.Value))
		}
	}
}

// classes returns the object classes with the given names, and all their superclasses.
func (m *model) classes(values []string) (all []*schema.ObjectClass) {
	for _, v := range values {
		all = m.closure(all, m.schema.Class(v))
	}
	return all
}

func (m *model) closure(all []*schema.ObjectClass, c *schema.ObjectClass) []*schema.ObjectClass {
	if slices.Contains(all, c) {
		return all
	}
	all = append(all, c)
	for _, s := range c.Sup {
		all = m.closure(all, s)
	}
	return all
}

// structural returns the most specific structural class. It returns nil if there is
// none, or if the structural classes are not one chain (RFC 4512, 2.4.2).
func structural(all []*schema.ObjectClass) (s *schema.ObjectClass) {
	for _, c := range all {
		if c.Kind == schema.Structural && (s == nil || c.Is(s)) {
			s = c
		}
	}
	for _, c := range all {
		if c.Kind == schema.Structural && !s.Is(c) {
			return nil
		}
	}
	return s
}

// addSuperclasses adds the superclasses of the entry's classes to objectClass.
func (m *model) addSuperclasses(e *modelEntry) {
	for _, c := range m.classes(e.values["objectClass"]) {
		if e.index(m.schema.Attribute("objectClass"), "objectClass", c.Name()) < 0 {
			e.values["objectClass"] = append(e.values["objectClass"], c.Name())
		}
	}
}

// The method "several" reports whether a description of a SINGLE-VALUE type has more than one
// value.
func (m *model) several(e *modelEntry) bool {
	for d, vs := range e.values {
		if t, _ := m.describe(d); t.SingleValue && len(vs) > 1 {
			return true
		}
	}
	return false
}

// check checks an entry as a whole.
func (m *model) check(e *modelEntry) partition.Problem {
	if m.several(e) {
		return partition.Constraint
	}
	all := m.classes(e.values["objectClass"])
	if structural(all) == nil {
		return partition.ClassViolation
	}
	has := map[*schema.AttributeType]bool{}
	for d, vs := range e.values {
		t, _ := m.describe(d)
		has[t] = has[t] || len(vs) > 0
	}
	for t, yes := range has {
		if yes && !allowed(all, t) {
			return partition.ClassViolation
		}
	}
	for _, c := range all {
		for _, t := range c.Must {
			if !has[t] {
				return partition.ClassViolation
			}
		}
	}
	return 0
}

func allowed(all []*schema.ObjectClass, t *schema.AttributeType) bool {
	return slices.ContainsFunc(all, func(c *schema.ObjectClass) bool {
		return c.Name() == "extensibleObject" || slices.Contains(c.Must, t) || slices.Contains(c.May, t)
	})
}

// add implements RFC 4511, 4.7.
func (m *model) add(name dn.DN, as []op.PartialAttribute) partition.Problem {
	e := &modelEntry{name: name, values: map[string][]string{}}
	for _, a := range as {
		if p := m.put(e, a.Description, a.Values); p != 0 {
			return p
		}
		if m.several(e) {
			return partition.Constraint
		}
	}
	m.addSuperclasses(e)
	m.names(e, name[0])
	if m.several(e) {
		return partition.NamingViolation
	}
	if p := m.check(e); p != 0 {
		return p
	}
	switch {
	case m.find(name) != nil:
		return partition.EntryExists
	case len(name) > 2 && m.find(name.Parent()) == nil:
		return partition.NoSuchEntry
	}
	// the parent's RDNs are in their stored spelling
	if above := m.find(name.Parent()); above != nil {
		e.name = append(dn.DN{name[0]}, above.name...)
	}
	m.entries[m.key(name)] = e
	return 0
}

// remove implements RFC 4511, 4.8.
func (m *model) remove(name dn.DN) partition.Problem {
	switch {
	case m.find(name) == nil:
		return partition.NoSuchEntry
	case len(m.below(name)) > 0:
		return partition.NotLeaf
	}
	delete(m.entries, m.key(name))
	return 0
}

// modify implements RFC 4511, 4.6.
func (m *model) modify(name dn.DN, changes []op.Modification) partition.Problem {
	old := m.find(name)
	if old == nil {
		return partition.NoSuchEntry
	}
	e := old.clone()
	cleared := false // objectClass was cleared within this request
	for _, c := range changes {
		_, d := m.describe(c.Description)
		cleared = cleared || d == "objectClass" && (c.Kind == op.ModReplace || len(c.Values) == 0)
		if p := m.change(e, &c); p != 0 {
			return p
		}
	}
	if p := m.reclass(old, e, cleared); p != 0 {
		return p
	}
	for _, ava := range e.name[0] {
		if t, d := m.describe(ava.Type); e.index(t, d, string(ava.Value)) < 0 {
			return partition.NotOnRDN
		}
	}
	if p := m.check(e); p != 0 {
		return p
	}
	*old = *e
	return 0
}

// reclass checks a change of object classes.
func (m *model) reclass(old, e *modelEntry, cleared bool) partition.Problem {
	before, after := m.classes(old.values["objectClass"]), m.classes(e.values["objectClass"])
	if structural(after) == nil {
		return partition.ClassViolation
	}
	if structural(before) != structural(after) {
		return partition.ClassModification
	}
	for _, c := range after {
		gone := e.index(m.schema.Attribute("objectClass"), "objectClass", c.Name()) < 0
		if gone && slices.Contains(before, c) && !cleared {
			return partition.ClassViolation
		}
	}
	m.addSuperclasses(e)
	return 0
}

// change makes one change of a modify.
func (m *model) change(e *modelEntry, c *op.Modification) partition.Problem {
	t, d := m.describe(c.Description)
	switch c.Kind {
	case op.ModAdd:
		if t.Equality == nil && len(e.values[d]) > 0 {
			return partition.NoMatching
		}
		return m.put(e, d, c.Values)
	case op.ModReplace:
		delete(e.values, d)
		return m.put(e, d, c.Values)
	case op.ModIncrement:
		return m.increment(e, d, c.Values)
	}
	switch {
	case len(c.Values) == 0 && len(e.values[d]) == 0:
		return partition.NoSuchAttribute
	case len(c.Values) == 0:
		delete(e.values, d)
	case t.Equality == nil:
		return partition.NoMatching
	}
	for _, v := range c.Values {
		i := e.index(t, d, string(v))
		if i < 0 {
			return partition.NoSuchAttribute
		}
		if e.values[d] = slices.Delete(e.values[d], i, i+1); len(e.values[d]) == 0 {
			delete(e.values, d)
		}
	}
	return 0
}

// increment implements RFC 4525.
func (m *model) increment(e *modelEntry, d string, operands [][]byte) partition.Problem {
	t, d := m.describe(d)
	by, ok := new(big.Int).SetString(string(operands[0]), 10)
	if !ok || t.Equality == nil || t.Equality.Name() != "integerMatch" {
		return partition.Constraint
	}
	if len(e.values[d]) == 0 {
		return partition.NoSuchAttribute
	}
	for i, v := range e.values[d] {
		n, _ := new(big.Int).SetString(v, 10)
		e.values[d][i] = n.Add(n, by).String()
	}
	return 0
}

// rename implements RFC 4511, 4.9.
func (m *model) rename(name dn.DN, rdn dn.RDN, deleteOld bool, parent *dn.DN) partition.Problem {
	old := m.find(name)
	if old == nil {
		return partition.NoSuchEntry
	}
	above := old.name.Parent()
	if parent != nil {
		if m.find(*parent) == nil {
			return partition.NoSuchEntry
		}
		above = m.find(*parent).name
	}
	to := append(dn.DN{rdn}, above...)
	switch at := m.find(to); {
	case at != nil && at != old:
		return partition.EntryExists
	case strings.HasPrefix(m.key(above), m.key(name)):
		return partition.Unwilling
	}
	e := old.clone()
	if deleteOld {
		m.unname(e, rdn)
	}
	m.names(e, rdn)
	if p := m.check(e); p != 0 {
		return p
	}
	m.move(old, e, to)
	return 0
}

// unname removes the values of the old RDN that the new RDN does not contain in the same
// spelling. If the new RDN contains a value in another spelling, the new spelling
// replaces the old one.
func (m *model) unname(e *modelEntry, rdn dn.RDN) {
	for _, ava := range e.name[0] {
		t, d := m.describe(ava.Type)
		stays := slices.ContainsFunc(rdn, func(n dn.AVA) bool {
			return m.schema.Attribute(n.Type) == t && string(n.Value) == string(ava.Value)
		})
		if i := e.index(t, d, string(ava.Value)); i >= 0 && !stays {
			if e.values[d] = slices.Delete(e.values[d], i, i+1); len(e.values[d]) == 0 {
				delete(e.values, d)
			}
		}
	}
}

// move renames an entry and all entries below it.
func (m *model) move(old, e *modelEntry, to dn.DN) {
	depth := len(old.name)
	below := m.below(old.name)
	for _, b := range below {
		delete(m.entries, m.key(b.name))
	}
	delete(m.entries, m.key(old.name))
	e.name = to
	m.entries[m.key(to)] = e
	for _, b := range below {
		b.name = append(slices.Clone(b.name[:len(b.name)-depth]), to...)
		m.entries[m.key(b.name)] = b
	}
}

// entry returns an entry as the partition returns it, without operational attributes
// except entryUUID.
func (m *model) entry(e *modelEntry, secrets bool) *entry.Entry {
	out := &entry.Entry{ID: e.id}
	for _, d := range slices.Sorted(maps.Keys(e.values)) {
		t, _ := m.describe(d)
		if len(e.values[d]) == 0 || t.Secret() && !secrets {
			continue
		}
		a := entry.Attribute{Type: t, Options: strings.TrimPrefix(d, t.Name())}
		for _, v := range e.values[d] {
			a.Values = append(a.Values, []byte(v))
		}
		out.Attributes = append(out.Attributes, a)
	}
	id := m.schema.Attribute("entryUUID")
	out.Attributes = append(out.Attributes, entry.Attribute{Type: id, Values: [][]byte{[]byte(e.id.String())}})
	return out
}
