package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Merged is the change of a schema that adds definitions from files.
type Merged struct {
	Add, Remove []Definition // arguments of Change
	// Notes describe how the merged definitions differ from the definitions in the files,
	// one note per line.
	Notes []string
	// Better are the names of existing types whose matching rules are replaced or completed.
	// Such a change is impossible if entries have values of the type.
	Better []string
}

// WithoutBetter returns the given definitions without those of the types in m.Better, and the
// names of these types. If derived is set, it takes account only of types whose rules would be
// derived.
func (m *Merged) WithoutBetter(ds []Definition, derived bool) (rest []Definition, names []string) {
	for _, d := range ds {
		_, called := d.Called()
		i := slices.IndexFunc(m.Better, func(name string) bool { return slices.Contains(called, name) })
		if i < 0 || derived && !d.Derive {
			rest = append(rest, d)
			continue
		}
		names = append(names, m.Better[i])
	}
	return rest, names
}

// Count returns the numbers of definitions that are added, replaced and removed.
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

// Merge returns the change that adds definitions from files of other servers. These files
// may define standard elements differently. Merge adds new definitions. If the schema
// already has a definition with the same OID, or a built-in definition with the same
// names, Merge applies these rules:
//
//   - a definition with the same meaning, apart from descriptions, lengths and
//     extensions, stays as it is;
//   - an existing type or class gets the names that it lacks;
//   - a class requires the types that both definitions require, and allows all other
//     types that either definition requires or allows;
//   - a built-in class gets the kind and the superclasses of the definition in the file;
//     for any other class, a different kind or different superclasses are a conflict;
//   - a type allows several values if either definition allows several values;
//   - a type that is not built-in gets the matching rules that it lacks, and rules that were
//     only derived from its syntax are replaced, with a note;
//   - a built-in type keeps its syntax, rules and usage, with a note if those in the file
//     differ; for any other type, a difference is a conflict.
//
// A definition with the OID of an existing definition, but without a common name and with
// another meaning, is a conflict. Known collisions get another OID, with a note.
//
// If Definition.Derive is set and a type has neither an equality rule nor a supertype, the type
// gets the default rules of its syntax.
//
// If a new definition uses a name of a built-in element with another OID, the new element
// does not get the name. If it is the only name of the new definition, this is a conflict. If
// the definition of the built-in element has X-SECRET, the new element is secret too.
//
// Definitions that the server needs stay as they are, except that types get the names that
// they lack, and that classes allow more types. Matching rules cannot be added. If a new type names a matching rule that this
// server does not have, or a rule of the wrong kind, the type is defined without the rule,
// with a note.
//
// The error lists conflicts, each with its source.
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

// MergeGood merges definitions as Merge does, but leaves out the definitions that are
// malformed, that conflict with others, or that refer to missing definitions. The result
// wrong contains the errors of these definitions, in the order of the definitions. The
// result err is an error that is not about a single definition.
func (s *Schema) MergeGood(ds []Definition) (out *Merged, wrong []error, err error) {
	left := make([]error, len(ds)) // the errors of the definitions that are left out
	for {
		errs := slices.Clone(left)
		out = s.mergeAll(ds, errs).merged()
		if _, err = s.Change(out.Add, out.Remove); err == nil {
			return out, slices.DeleteFunc(errs, func(err error) bool { return err == nil }), nil
		}
		// Leave out the definition that is wrong, and merge again: definitions that
		// conflicted with it may now be good.
		i := blamed(err, ds, errs)
		if i < 0 {
			return nil, nil, err
		}
		left[i] = err
	}
}

// mergeAll merges each definition ds[i] for which errs[i] is nil. It sets the elements of errs
// for the definitions that cannot be merged.
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
			m.separate(d)
			if m.overrides = text.Derive; m.overrides {
				d.derive()
			}
			err = m.take(d)
		}
		errs[i] = err
	}
	m.noteDerived()
	return m
}

// blamed returns the index of the definition that an error is about, or -1. It finds the
// definition by the source in the error.
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

// merger contains the data of one merge.
type merger struct {
	schema *Schema
	by     [numElements]map[string]*definition // by OID and by name, in lower case
	added  []*definition
	// replaced maps definitions of the schema to the definitions that replace them.
	replaced map[*definition]*definition
	notes    []string
	// overrides is set while a definition is merged that may replace one of the same files.
	overrides bool
	better    []string // names of types whose rules improve
	derived   []string // names of types that get derived rules
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

// canonical returns the OID of the class, type, rule or name form with the given name. If
// there is none, it returns the name in lower case.
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

// take merges one definition into the schema.
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

// dropRules removes from a type each matching rule that the server cannot use as the type
// requires.
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

// counterpart returns the definition that d redefines, or nil. It is the definition with
// the same OID, or the built-in definition that has all names of d.
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

// builtIn reports whether the built-in schema defines the element, even if the definition
// has been changed.
func builtIn(d *definition) bool { return Core().definition(d.element, d.oid) != nil }

func (m *merger) add(d *definition) error {
	if err := d.colons(); err != nil {
		return err
	}
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
	if d.says(derivedRules) {
		m.derived = append(m.derived, d.name())
	}
	d.names = free
	m.added = append(m.added, d)
	m.enter(d)
	return nil
}

// The method "at" returns the source of a definition, enclosed in parentheses, for errors.
func (d *definition) at() string {
	if d.source == "" {
		return ""
	}
	return " (" + d.source + ")"
}

func (m *merger) mergeType(old, d *definition) error {
	merged, whole := *old, *d
	if d.says(derivedRules) && (builtIn(old) || m.effective(old).equality != "") {
		d.equality, d.ordering, d.substr = "", "", "" // the rules there are say more
	}
	if !builtIn(old) {
		m.dropRules(d)
	}
	better := m.improve(&merged, d)
	what := m.otherType(&merged, d)
	if err := m.stranger(old, d, what); err != nil {
		return err
	}
	if what != "" {
		if m.override(old, &whole) {
			return nil
		}
		if !builtIn(old) {
			return d.fail("its %s is not that of the definition there is%s: %s", what, old.at(), old)
		}
		m.note(d, "its %s differs here: %s", what, old)
	}
	if better {
		m.better = append(m.better, merged.name())
		if d.says(derivedRules) {
			m.derived = append(m.derived, merged.name())
		} else {
			m.note(d, "it becomes %s", &merged)
		}
	}
	if err := m.addNames(&merged, d); err != nil {
		return err
	}
	if !d.single && !old.needed() {
		merged.single = false
	}
	m.replace(old, &merged, d)
	return nil
}

// override replaces a definition of the files by a later one with another meaning, with a
// note, if the server that they come from does the same: 389 Directory Server lets the schema
// of an instance override that of the system. It returns false if it does not.
func (m *merger) override(old, d *definition) bool {
	if !m.overrides || !slices.Contains(m.added, old) {
		return false
	}
	m.note(d, "it overrides the definition%s: %s", old.at(), old)
	m.replace(old, d, d)
	return true
}

// otherType returns the name of a property in which two definitions of a type differ, or
// "". A matching rule that only one definition has is not a difference.
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

// effective returns a type with its inherited properties. It terminates even if a type is
// its own supertype. Change later returns an error for such a type.
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
	what := ""
	if old.kind != d.kind || !m.sameSup(old, d) {
		what = "kind or superclasses"
	}
	if err := m.stranger(old, d, what); err != nil {
		return err
	}
	if what != "" && m.override(old, d) {
		return nil
	}
	merged := *old
	if err := m.addNames(&merged, d); err != nil {
		return err
	}
	if !old.needed() {
		merged.must = m.both(old.must, d.must)
	}
	merged.may = m.either(merged.must, slices.Concat(old.must, old.may, d.must, d.may))
	switch {
	case what == "":
	case !builtIn(old):
		return d.fail("its kind or its superclasses are not those of the definition there is%s: %s", old.at(), old)
	case old.needed():
		m.note(d, "its %s are others here, which the server needs: %s", what, old)
	default:
		merged.kind, merged.sup = d.kind, d.sup
	}
	if essence(&merged, m.canonical) != essence(old, m.canonical) {
		m.note(d, "becomes %s", &merged)
	}
	m.replace(old, &merged, d)
	return nil
}

// sameSup reports whether two classes have the same superclasses. A class without
// superclass is treated like a subclass of top.
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

// The method "both" returns the names of the list a that are also in the list b.
func (m *merger) both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !m.among(b, name) })
}

// The method "either" returns the given names that are not in the list must, each only once.
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

// addNames adds the names of d to the definition target, except the names that target
// already has. If target is not built-in, addNames also leaves out the names of built-in
// elements. Any other name that another element has is an error.
func (m *merger) addNames(target, d *definition) error {
	target.names = slices.Clone(target.names)
	for _, name := range d.names {
		if target.called(name) {
			continue
		}
		x := m.find(d.element, name)
		switch {
		case x == nil:
			target.names = append(target.names, name)
		case builtIn(target) || !builtIn(x): // otherwise a built-in element keeps the name
			return d.fault(Exists, "the name %q is that of %s already%s", name, x.oid, x.at())
		}
	}
	return nil
}

// replace notes that the definition merged takes the place of the definition old, if the two
// differ.
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

// merged returns the changes: replacements in the order of the schema, then additions in
// the order of the files.
func (m *merger) merged() *Merged {
	out := &Merged{Notes: m.notes, Better: m.better}
	give := func(d *definition) Definition {
		return Definition{Attribute: elementNames[d.element], Text: d.String(), Source: d.source}
	}
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
