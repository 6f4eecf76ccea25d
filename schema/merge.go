package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Merged is the change that adds definitions from elsewhere to a schema.
type Merged struct {
	Add, Remove []Definition // for Change
	// Notes describe what differs from the files, a line each.
	Notes []string
}

// Count returns how many definitions are added, replaced and removed.
func (m *Merged) Count() (added, replaced, removed int) {
	oids := map[string]bool{}
	for _, d := range m.Remove {
		oid, _ := d.Called()
		oids[d.Attribute+" "+oid] = true
	}
	for _, d := range m.Add {
		if oid, _ := d.Called(); oids[d.Attribute+" "+oid] {
			replaced++
		}
	}
	return len(m.Add) - replaced, replaced, len(m.Remove) - replaced
}

// Merge adds definitions from other servers' files, which may define standard elements
// differently. New definitions are added. One that the schema already has, by its OID or,
// for a built-in element, by its names, is treated like this:
//
//   - it stays if it means the same, apart from text, lengths and extensions;
//   - it gets the names that it lacks;
//   - an element that uses one of its names for something else loses that name, and
//     is secret if the name's owner is;
//   - a class is widened: it requires what both require and allows what
//     either does, and if it is built in, takes over the file's kind and
//     superclasses;
//   - a type allows several values if either does;
//   - a built-in type with another syntax, other rules or another usage stays as it is,
//     with a note; for any other type this is a conflict.
//
// What the server itself needs always stays. Matching rules cannot be added. If a type
// names one that this server does not have, or one of the wrong kind, it is defined
// without that, with a note.
//
// An error lists all the conflicts, each with its file and line.
func (s *Schema) Merge(ds []Definition) (*Merged, error) {
	errs := make([]error, len(ds))
	m := s.mergeAll(ds, errs)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	out := m.merged()
	_, err := s.Change(out.Add, out.Remove)
	return out, err
}

// MergeGood is Merge without the definitions that are malformed, in conflict with others
// or refer to missing ones. Wrong has their errors, in order. The error is one that
// cannot be attributed to a single definition.
func (s *Schema) MergeGood(ds []Definition) (out *Merged, wrong []error, err error) {
	left := make([]error, len(ds)) // of the definitions left out
	for {
		errs := slices.Clone(left)
		out = s.mergeAll(ds, errs).merged()
		if _, err = s.Change(out.Add, out.Remove); err == nil {
			return out, slices.DeleteFunc(errs, func(err error) bool { return err == nil }), nil
		}
		// Definitions that were refused because of it may be good now.
		i := blamed(err, ds, errs)
		if i < 0 {
			return nil, nil, err
		}
		left[i] = err
	}
}

// mergeAll merges the definitions without an error, and sets the errors of those that
// cannot be merged.
func (s *Schema) mergeAll(ds []Definition, errs []error) *merger {
	m := &merger{schema: s, replaced: map[*definition]*definition{}}
	for _, d := range s.definitions {
		m.enter(d)
	}
	for i, text := range ds {
		if errs[i] != nil {
			continue
		}
		d, err := text.parse()
		if err == nil {
			err = m.take(d)
		}
		errs[i] = err
	}
	return m
}

// blamed returns the index of the definition that an error is about, by its source, or
// -1.
func blamed(err error, ds []Definition, errs []error) int {
	var wrong *DefinitionError
	if !errors.As(err, &wrong) || wrong.Source == "" {
		return -1
	}
	last := -1
	for i, d := range ds {
		if errs[i] != nil || d.Source != wrong.Source {
			continue
		}
		last = i
		if oid, names := d.Called(); oid == wrong.Definition || slices.Contains(names, wrong.Definition) {
			return i
		}
	}
	return last
}

// merger is a merge in progress.
type merger struct {
	schema *Schema
	by     [numElements]map[string]*definition // by OID and names, lower case
	added  []*definition
	// replaced maps definitions of the schema to their replacements.
	replaced map[*definition]*definition
	notes    []string
}

func (m *merger) enter(d *definition) {
	by := &m.by[d.element]
	if *by == nil {
		*by = map[string]*definition{}
	}
	for _, name := range append([]string{d.oid}, d.names...) {
		(*by)[strings.ToLower(name)] = d
	}
}

func (m *merger) find(e element, name string) *definition { return m.by[e][strings.ToLower(name)] }

// canonical returns the OID of a name of any kind.
func (m *merger) canonical(name string) string {
	for _, e := range []element{objectClasses, attributeTypes, matchingRules, nameForms} {
		if d := m.find(e, name); d != nil {
			return d.oid
		}
	}
	return strings.ToLower(name)
}

func (m *merger) note(d *definition, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	m.notes = append(m.notes, fmt.Sprintf("%s: %s: %s", d.source, d.name(), text))
}

// take merges one definition.
func (m *merger) take(d *definition) error {
	switch d.element {
	case matchingRules, matchingRuleUse:
		if behaviours[d.oid] == nil && d.element == matchingRules {
			m.note(d, "this server has no such matching rule")
		}
		return nil
	}
	old := m.counterpart(d)
	if old == nil {
		return m.add(d)
	}
	switch d.element {
	case attributeTypes:
		return m.mergeType(old, d)
	case objectClasses:
		return m.mergeClass(old, d)
	case ldapSyntaxes:
		return nil
	}
	if essence(old, m.canonical) != essence(d, m.canonical) {
		return d.fail("it is defined already, as something else: %s", old)
	}
	return nil
}

// dropRules removes from a type the rules that cannot be used as it states.
func (m *merger) dropRules(d *definition) {
	for _, x := range []struct {
		name *string
		use  Use
		what string
	}{{&d.equality, Equality, "EQUALITY"}, {&d.ordering, Ordering, "ORDERING"}, {&d.substr, Substrings, "SUBSTR"}} {
		if *x.name == "" {
			continue
		}
		if r := m.schema.Rule(*x.name); r == nil || r.Use != x.use {
			m.note(d, "%s %s is left out: this server has no such rule for that use", x.what, *x.name)
			*x.name = ""
		}
	}
}

// counterpart returns the definition that d redefines: by OID or, for built-in elements,
// by all its names.
func (m *merger) counterpart(d *definition) *definition {
	if old := m.find(d.element, d.oid); old != nil {
		return old
	}
	var old *definition
	for _, name := range d.names {
		x := m.find(d.element, name)
		if x == nil || old != nil && x != old || !builtIn(x) {
			return nil
		}
		old = x
	}
	return old
}

// builtIn reports whether the built-in schema has the element, even if changed.
func builtIn(d *definition) bool { return Core().definition(d.element, d.oid) != nil }

func (m *merger) add(d *definition) error {
	if d.element == attributeTypes {
		m.dropRules(d)
	}
	var free []string
	for _, name := range d.names {
		x := m.find(d.element, name)
		if x == nil {
			free = append(free, name)
			continue
		}
		if !builtIn(x) || len(d.names) == 1 {
			return d.fault(Exists, "the name %q is that of %s already%s", name, x.oid, x.at())
		}
		m.note(d, "it is not also called %s here, which is %s", name, x.oid)
		if x.says("X-SECRET") {
			d.extensions = append(d.extensions, Extension{"X-SECRET", []string{"TRUE"}})
		}
	}
	d.names = free
	m.added = append(m.added, d)
	m.enter(d)
	return nil
}

// at returns the source of a definition.
func (d *definition) at() string {
	if d.source == "" {
		return ""
	}
	return " (" + d.source + ")"
}

func (m *merger) mergeType(old, d *definition) error {
	if what := m.otherType(old, d); what != "" {
		if !builtIn(old) {
			return d.fail("its %s is not that of the definition there is%s: %s", what, old.at(), old)
		}
		m.note(d, "its %s is another one here: %s", what, old)
	}
	merged := *old
	if err := m.addNames(&merged, d); err != nil {
		return err
	}
	if !d.single && !old.needed() {
		merged.single = false
	}
	m.replace(old, &merged, d)
	return nil
}

// otherType returns in which property two definitions of a type differ, or "". Rules that
// only one of them has do not matter.
func (m *merger) otherType(a, b *definition) string {
	x, y := m.effective(a), m.effective(b)
	other := func(p, q string) bool { return p != "" && q != "" && m.canonical(p) != m.canonical(q) }
	switch {
	case x.syntax != y.syntax:
		return "SYNTAX"
	case other(x.equality, y.equality):
		return "EQUALITY"
	case other(x.ordering, y.ordering):
		return "ORDERING"
	case other(x.substr, y.substr):
		return "SUBSTR"
	case a.usage != b.usage:
		return "USAGE"
	case a.collective != b.collective:
		return "COLLECTIVE"
	case a.noUserMod != b.noUserMod:
		return "NO-USER-MODIFICATION"
	}
	return ""
}

// effective returns a type with its inherited properties. A type that is its own
// supertype is detected later.
func (m *merger) effective(d *definition) definition {
	e := *d
	for range 20 {
		if len(d.sup) == 0 {
			break
		}
		if d = m.find(attributeTypes, d.sup[0]); d == nil {
			break
		}
		for _, x := range []struct {
			to   *string
			from string
		}{{&e.equality, d.equality}, {&e.ordering, d.ordering}, {&e.substr, d.substr}, {&e.syntax, d.syntax}} {
			if *x.to == "" {
				*x.to = x.from
			}
		}
	}
	return e
}

func (m *merger) mergeClass(old, d *definition) error {
	merged := *old
	if err := m.addNames(&merged, d); err != nil {
		return err
	}
	merged.must = m.both(old.must, d.must)
	merged.may = m.either(merged.must, slices.Concat(old.must, old.may, d.must, d.may))
	if old.kind != d.kind || !m.sameSup(old, d) {
		if !builtIn(old) {
			return d.fail("its kind or its superclasses are not those of the definition there is%s: %s", old.at(), old)
		}
		merged.kind, merged.sup = d.kind, d.sup
	}
	if essence(&merged, m.canonical) != essence(old, m.canonical) {
		if old.needed() {
			m.note(d, "is another one here, which the server needs: %s", old)
			return nil
		}
		m.note(d, "becomes %s", &merged)
	}
	m.replace(old, &merged, d)
	return nil
}

// sameSup compares superclasses. No superclass is the same as top.
func (m *merger) sameSup(a, b *definition) bool {
	of := func(d *definition) []string {
		var oids []string
		for _, name := range d.sup {
			if oid := m.canonical(name); oid != "2.5.6.0" {
				oids = append(oids, oid)
			}
		}
		slices.Sort(oids)
		return oids
	}
	return slices.Equal(of(a), of(b))
}

// both returns the names of a that are also in b.
func (m *merger) both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !m.among(b, name) })
}

// either returns each of the names once, without those in must.
func (m *merger) either(must, names []string) []string {
	var out []string
	for _, name := range names {
		if !m.among(must, name) && !m.among(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (m *merger) among(names []string, name string) bool {
	oid := m.canonical(name)
	return slices.ContainsFunc(names, func(n string) bool { return m.canonical(n) == oid })
}

// addNames adds the names of another definition that to lacks.
func (m *merger) addNames(to, d *definition) error {
	to.names = slices.Clone(to.names)
	for _, name := range d.names {
		if to.called(name) {
			continue
		}
		x := m.find(d.element, name)
		switch {
		case x == nil:
			to.names = append(to.names, name)
		case builtIn(to) || !builtIn(x): // otherwise the name is left out, as add does
			return d.fault(Exists, "the name %q is that of %s already%s", name, x.oid, x.at())
		}
	}
	return nil
}

// replace replaces old by merged, if they differ.
func (m *merger) replace(old, merged, d *definition) {
	if merged.String() == old.String() {
		return
	}
	merged.source = d.source
	if i := slices.Index(m.added, old); i >= 0 {
		m.added[i] = merged
	} else {
		from := old
		for original, now := range m.replaced {
			if now == old {
				from = original
			}
		}
		m.replaced[from] = merged
	}
	m.enter(merged)
}

// merged returns the changes, in the order of the schema and the files.
func (m *merger) merged() *Merged {
	out := &Merged{Notes: m.notes}
	give := func(d *definition) Definition { return Definition{elementNames[d.element], d.String(), d.source} }
	for _, old := range m.schema.definitions {
		if now := m.replaced[old]; now != nil {
			out.Remove = append(out.Remove, give(old))
			out.Add = append(out.Add, give(now))
		}
	}
	for _, d := range m.added {
		out.Add = append(out.Add, give(d))
	}
	return out
}
