package materialized

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// Name is the name of the entry above the definitions.
const Name = "cn=views"

// Limits on definitions.
const (
	MaxViews  = 64
	MaxTotals = 8
	MaxGroups = 4
	MaxOrders = 4
	MaxShown  = 32 // attributes of a list
	MaxJoins  = 8
)

// A Kind is a kind of view: the object class of its definitions.
type Kind string

const (
	Totals Kind = "totalsView" // groups of entries, each with totals such as counts and sums
	List   Kind = "listView"   // entries in order
)

var kinds = []Kind{Totals, List}

// An Op is a kind of total.
type Op string

const (
	Count Op = "count"
	Sum   Op = "sum"
	Min   Op = "min"
	Max   Op = "max"
)

// A Total is one number of each record.
type Total struct {
	Op        Op
	Attribute string // the name of its type; empty for Count
	typ       *schema.AttributeType
}

// A Definition describes a view as it is defined in one state.
type Definition struct {
	ID   entry.ID // id of the entry that defines the view
	Name *dn.Name // name of that entry
	Kind Kind

	// For views of the kind Totals:
	Groups []*schema.AttributeType
	Totals []Total

	// For views of the kind List: Shown contains the types whose values a record has,
	// including the types by which the list is ordered.
	Shown []*schema.AttributeType
	Joins []Join
	order []search.SortKey

	base   dn.DN
	filter filter.Resolved
	// needs lists all types whose values are read from the entries to compute the records.
	needs []*schema.AttributeType
	// key identifies what the records depend on, apart from the entries: see keyOf.
	key string
}

// Definitions returns the definitions in a state, sorted by name. The map "wrong" contains the
// ids of the entries that are not valid definitions, each with the reason.
func Definitions(ctx context.Context, s *state.Snapshot) (defs []*Definition, wrong map[entry.ID]error, err error) {
	at, found, err := top(ctx, s)
	if err != nil || !found {
		return nil, nil, err
	}
	for row, err := range s.Reader.Scan(ctx, s.Partition.Tree, tree.Children(at), table.Select{Families: []table.Family{tree.TreeInfo}}) {
		if err != nil {
			return nil, nil, err
		}
		id, ok := tree.ID(row)
		if !ok {
			continue
		}
		e, err := s.Entry(ctx, id, false)
		if err != nil {
			return nil, nil, err
		}
		if e == nil || kindOf(s.Catalog.Types, e) == "" {
			continue
		}
		name, err := s.Name(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		d, bad := define(s.Catalog, name, e)
		if bad == nil && len(defs) == MaxViews {
			bad = fmt.Errorf("there are more than %d views", MaxViews)
		}
		if bad != nil {
			if wrong == nil {
				wrong = map[entry.ID]error{}
			}
			wrong[id] = bad
			continue
		}
		defs = append(defs, d)
	}
	return defs, wrong, nil
}

// top finds the entry cn=views, the parent of the definitions.
func top(ctx context.Context, s *state.Snapshot) (id entry.ID, found bool, err error) {
	name, err := dn.Parse(Name)
	if err != nil {
		return id, false, err
	}
	pl, err := s.Locate(ctx, name)
	return pl.ID, pl.Found && err == nil, err
}

// kindOf returns the kind of view that an entry defines, or "" if it defines none.
func kindOf(k *catalog.Types, e *entry.Entry) Kind {
	for _, kind := range kinds {
		c := k.Schema.Class(string(kind))
		if c != nil && slices.ContainsFunc(e.Values(k.ObjectClass), func(v []byte) bool { return k.Schema.Class(string(v)) == c }) {
			return kind
		}
	}
	return ""
}

// Find returns the definition with the given name, or nil if there is none. If the definition is
// not valid, it returns an error with the problem [catalog.Unwilling].
func Find(ctx context.Context, s *state.Snapshot, name dn.DN) (*Definition, error) {
	pl, err := s.Locate(ctx, name)
	if err != nil || !pl.Found {
		return nil, err
	}
	return Of(ctx, s, pl.ID)
}

// Of returns the definition in an entry, or nil if the entry defines no view. It returns
// an error with the problem [catalog.Unwilling] if the definition is wrong.
func Of(ctx context.Context, s *state.Snapshot, id entry.ID) (*Definition, error) {
	e, err := s.Entry(ctx, id, false)
	if err != nil || e == nil || kindOf(s.Catalog.Types, e) == "" {
		return nil, err
	}
	name, err := s.Name(ctx, id)
	if err != nil {
		return nil, err
	}
	d, err := define(s.Catalog, name, e)
	if err != nil {
		return nil, catalog.Errorf(catalog.Unwilling, "%s cannot be a view: %v", name, err)
	}
	return d, nil
}

// Attributes returns the names of the attributes that determine the records of a view of
// this kind.
func (k Kind) Attributes() []string {
	if k == List {
		return []string{"viewBase", "viewFilter", "viewOrder", "viewShow", "viewJoin"}
	}
	return []string{"viewBase", "viewFilter", "viewGroup", "viewTotal"}
}

// define reads a definition from its entry.
func define(c *catalog.Catalog, name *dn.Name, e *entry.Entry) (*Definition, error) {
	d := &Definition{ID: e.ID, Name: name, Kind: kindOf(c.Types, e)}
	values := map[string][]string{}
	for _, attribute := range d.Kind.Attributes() {
		if t := c.Schema.Attribute(attribute); t != nil {
			for _, v := range e.Values(t) {
				values[attribute] = append(values[attribute], string(v))
			}
		}
		slices.Sort(values[attribute])
	}
	if n := len(values["viewBase"]); n != 1 {
		return nil, fmt.Errorf("viewBase: it has %d values, but one is needed", n)
	}
	if len(values["viewFilter"]) == 0 {
		values["viewFilter"] = []string{"(objectClass=*)"}
	}
	steps := []func() error{
		func() error { return d.readBase(c, values["viewBase"][0]) },
		func() error { return d.readFilter(c.Types, values["viewFilter"][0]) },
	}
	if d.Kind == List {
		steps = append(steps,
			func() error { return d.readOrder(c.Types, values["viewOrder"]) },
			func() error { return d.readShown(c.Types, values["viewShow"]) },
			func() error { return d.readJoins(c.Types, values["viewJoin"]) })
	} else {
		steps = append(steps,
			func() error { return d.readGroups(c.Types, values["viewGroup"]) },
			func() error { return d.readTotals(c.Types, values["viewTotal"]) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	d.needs = append(d.needs, c.ObjectClass)
	d.key = keyOf(c, values)
	return d, nil
}

// keyOf returns the key of a definition. A change of the schema, an erasure, or a new
// version of the normal forms changes the key too, and on a shared store a new division into
// lanes. The attributes that a list shows are not part of the key, because they are read from the
// entries.
func keyOf(c *catalog.Catalog, values map[string][]string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d", schema.Version(), c.Subschema.Since, erasures(c))
	for _, attribute := range []string{"viewBase", "viewFilter", "viewGroup", "viewTotal", "viewOrder"} {
		fmt.Fprintf(h, " %q", values[attribute])
	}
	if c.Shared() {
		fmt.Fprint(h, " lanes are ranges")
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func erasures(c *catalog.Catalog) int { return c.Header.Erasures }

func (d *Definition) readBase(c *catalog.Catalog, text string) (err error) {
	if d.base, err = dn.Parse(text); err != nil {
		return fmt.Errorf("viewBase: %v", err)
	}
	norms, err := d.base.Normalize(c.Schema)
	if err != nil {
		return fmt.Errorf("viewBase: %v", err)
	}
	views, err := dn.Parse(Name)
	if err != nil {
		return err
	}
	above, err := views.Normalize(c.Schema)
	if err != nil {
		return err
	}
	switch n := len(norms); {
	case n == 0:
		return fmt.Errorf("viewBase: it must be a naming context or an entry below one")
	case norms[n-1] == above[0]:
		return fmt.Errorf("viewBase: there are no views of views")
	}
	return nil
}

func (d *Definition) readFilter(k *catalog.Types, text string) error {
	f, err := filter.Parse(text)
	if err != nil {
		return fmt.Errorf("viewFilter: %v", err)
	}
	if err := checkFilter(k, f); err != nil {
		return fmt.Errorf("viewFilter %s: %v", f, err)
	}
	d.filter = filter.Resolve(f, k.Schema)
	for test := range filter.Tests(d.filter) {
		d.needs = append(d.needs, test.Types...)
	}
	return nil
}

// checkFilter returns an error if a filter cannot be evaluated from the stored values of
// an entry alone.
func checkFilter(k *catalog.Types, f filter.Filter) error {
	for leaf := range filter.Leaves(f) {
		if err := checkLeaf(k, leaf); err != nil {
			return err
		}
	}
	return nil
}

func checkLeaf(k *catalog.Types, leaf filter.Filter) error {
	description := filter.Description(leaf)
	switch x, ok := leaf.(*filter.Extensible); {
	case ok && (description == "" || x.DNAttrs):
		return fmt.Errorf("it must name an attribute in each part, and must not test names of entries")
	case description == "":
		return fmt.Errorf("it has a part of an unknown kind")
	}
	name, _, _ := strings.Cut(description, ";")
	if _, err := storedType(k, name); err != nil {
		return err
	}
	if filter.Resolve(leaf, k.Schema) == filter.Resolved(filter.Const(filter.Undefined)) {
		return fmt.Errorf("%s can match nothing: the attribute has no such rule, or the value breaks its syntax", leaf)
	}
	return nil
}

// storedOperational contains the operational attributes that are stored with an entry and
// change only when the entry changes.
var storedOperational = []string{"createTimestamp", "creatorsName", "modifyTimestamp", "modifiersName", "structuralObjectClass"}

// storedType returns the type with a name. It returns an error if views cannot depend on
// values of the type.
func storedType(k *catalog.Types, name string) (*schema.AttributeType, error) {
	t := k.Schema.Attribute(name)
	switch {
	case t == nil:
		return nil, fmt.Errorf("attribute type %q is not in the schema", name)
	case t.Secret():
		return nil, fmt.Errorf("%s is secret", t.Name())
	case t.Collective:
		return nil, fmt.Errorf("%s is collective, and not stored with entries", t.Name())
	case t.Operational() && !slices.Contains(storedOperational, t.Name()):
		return nil, fmt.Errorf("%s is operational, and not stored with entries as users see it", t.Name())
	}
	return t, nil
}

func (d *Definition) readGroups(k *catalog.Types, names []string) error {
	if n := len(names); n < 1 || n > MaxGroups {
		return fmt.Errorf("viewGroup: it has %d values, but 1 to %d are needed", n, MaxGroups)
	}
	for _, name := range names {
		t, err := storedType(k, name)
		if err == nil && t.Equality == nil {
			err = fmt.Errorf("%s has no equality rule", t.Name())
		}
		if err == nil && slices.Contains(d.Groups, t) {
			err = fmt.Errorf("%s is there twice", t.Name())
		}
		if err != nil {
			return fmt.Errorf("viewGroup: %v", err)
		}
		d.Groups = append(d.Groups, t)
	}
	slices.SortFunc(d.Groups, func(a, b *schema.AttributeType) int { return strings.Compare(a.OID, b.OID) })
	d.needs = append(d.needs, d.Groups...)
	return nil
}

func (d *Definition) readTotals(k *catalog.Types, texts []string) error {
	if n := len(texts); n < 1 || n > MaxTotals {
		return fmt.Errorf("viewTotal: it has %d values, but 1 to %d are needed", n, MaxTotals)
	}
	for _, text := range texts {
		t, err := readTotal(k, text)
		if err == nil && slices.Contains(d.Totals, t) {
			err = fmt.Errorf("it is there twice")
		}
		if err != nil {
			return fmt.Errorf("viewTotal %q: %v", text, err)
		}
		d.Totals = append(d.Totals, t)
		if t.typ != nil {
			d.needs = append(d.needs, t.typ)
		}
	}
	return nil
}

func readTotal(k *catalog.Types, text string) (t Total, err error) {
	words := strings.Fields(text)
	switch {
	case len(words) == 1 && strings.EqualFold(words[0], string(Count)):
		return Total{Op: Count}, nil
	case len(words) != 2 || !slices.Contains([]Op{Sum, Min, Max}, Op(strings.ToLower(words[0]))):
		return t, fmt.Errorf("it must be count, sum ATTRIBUTE, min ATTRIBUTE or max ATTRIBUTE")
	}
	typ, err := storedType(k, words[1])
	if err != nil {
		return t, err
	}
	if typ.Syntax.OID != catalog.IntegerSyntax {
		return t, fmt.Errorf("%s has no integers as values", typ.Name())
	}
	return Total{Op(strings.ToLower(words[0])), typ.Name(), typ}, nil
}
