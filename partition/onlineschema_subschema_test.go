package partition_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

const (
	floors   = "( 2.25.1.1 NAME 'floors' EQUALITY integerMatch ORDERING integerOrderingMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )"
	drawing  = "( 2.25.1.3 NAME 'floorPlan' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"
	building = "( 2.25.1.2 NAME 'building' SUP top STRUCTURAL MUST cn MAY ( floors $ floorPlan ) )"
)

// schemaChange parses lines of the form "add attributeTypes ( ... )".
func schemaChange(lines ...string) (cs []op.Modification) {
	kinds := map[string]op.ModKind{"add": op.ModAdd, "delete": op.ModDelete, "replace": op.ModReplace}
	for _, l := range lines {
		f := strings.SplitN(l, " ", 3)
		c := op.Modification{Kind: kinds[f[0]], PartialAttribute: op.PartialAttribute{Description: f[1]}}
		if len(f) > 2 {
			c.Values = [][]byte{[]byte(f[2])}
		}
		cs = append(cs, c)
	}
	return cs
}

func changeSchema(t testing.TB, p *partition.Partition, lines ...string) error {
	t.Helper()
	return changeSchemaIn(context.Background(), p, lines...)
}

func changeSchemaIn(ctx context.Context, p *partition.Partition, lines ...string) error {
	_, err := onlineschema.UpdateSchema(ctx, p, partition.By{Name: "cn=admin"}, func(tx *partition.Tx) error {
		return onlineschema.Modify(ctx, tx, name(catalog.SubschemaName), schemaChange(lines...))
	})
	return err
}

// withBuildings opens a directory that has an object class of its own and four entries.
func withBuildings(t testing.TB) *partition.Partition {
	t.Helper()
	p := open(t)
	must(t, changeSchema(t, p, "add objectClasses "+building, "add attributeTypes "+floors, "add attributeTypes "+drawing))
	must(t, add(t, p, "dc=example,dc=com", "objectClass: dcObject", "objectClass: organization", "o: Example", "dc: example"))
	must(t, add(t, p, "cn=a,dc=example,dc=com", "objectClass: building", "cn: a", "floors: 2", "floors: 3"))
	must(t, add(t, p, "cn=b,dc=example,dc=com", "objectClass: building", "cn: b", "floorPlan: none"))
	must(t, add(t, p, "cn=c,dc=example,dc=com", "objectClass: person", "cn: c", "sn: c"))
	return p
}

func verifyClean(t testing.TB, p *partition.Partition) {
	t.Helper()
	_, err := verify.Verify(context.Background(), p, verify.Options{Found: func(f *verify.Finding) error { t.Errorf("check: %s", f); return nil }})
	must(t, err)
}

func TestSchemaChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		changes []string
		problem partition.Problem // 0: success
		text    string
	}{
		{"a type", []string{"add attributeTypes ( 2.25.2.1 NAME 'x' SUP name )"}, 0, ""},
		{"in any order", []string{"add objectClasses ( 2.25.2.2 NAME 'c' AUXILIARY MAY x )", "add attributeTypes ( 2.25.2.1 NAME 'x' SUP name )"}, 0, ""},
		{"an order number", []string{"add attributeTypes {12}( 2.25.2.1 NAME 'x' SUP name )"}, 0, ""},
		{"malformed", []string{"add attributeTypes ( 2.25.2.1 NAME x"}, partition.InvalidSyntax, ""},
		{"an OID with a macro", []string{"add attributeTypes ( root:1 NAME 'x' SUP name )"}, partition.Constraint, "definition of x: nothing defines the macro root"},
		{"a name with a colon", []string{"add attributeTypes ( 2.25.2.1 NAME 'x:y' SUP name )"}, partition.Constraint, "colon"},
		{"refers to nothing", []string{"add attributeTypes ( 2.25.2.1 NAME 'x' SUP y )"}, partition.Constraint, "definition of x"},
		{"is there", []string{"add attributeTypes " + floors}, partition.ValueExists, "floors"},
		{"taken name", []string{"add attributeTypes ( 2.25.2.1 NAME 'cn' SUP name )"}, partition.ValueExists, "cn"},
		{"removed by its OID", []string{"add attributeTypes ( 2.25.2.1 NAME 'x' SUP name )", "delete attributeTypes 2.25.2.1"}, 0, ""},
		{"not there to remove", []string{"delete attributeTypes ( 2.25.2.1 NAME 'x' SUP name )"}, partition.NoSuchAttribute, ""},
		{"none there to remove", []string{"delete nameForms"}, partition.NoSuchAttribute, "nameForms"},
		{"removed twice", []string{"add nameForms ( 2.25.3.1 NAME 'bf' OC building MUST cn )", "delete nameForms", "delete nameForms"}, partition.NoSuchAttribute, "nameForms"},
		{"built in, not needed", []string{"delete objectClasses ( 2.5.6.18 NAME 'userSecurityInformation' )"}, 0, ""},
		{"built in, needed", []string{"delete attributeTypes ( 2.5.4.0 NAME 'objectClass' )"}, partition.Unwilling, "objectClass"},
		{"used by a class", []string{"delete attributeTypes 2.25.1.1"}, partition.Unwilling, "building"},
		{"all values", []string{"delete attributeTypes"}, partition.Unwilling, "uses it"},
		{"matching rules", []string{"add matchingRules ( 2.25.2.9 NAME 'm' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"}, partition.Unwilling, "matchingRules"},
		{"another attribute", []string{"replace cn Other"}, partition.Unwilling, "cn"},
		{"no values", []string{"add attributeTypes"}, partition.BadOperand, ""},
		{"type and class in use", []string{"delete objectClasses 2.25.1.2", "delete attributeTypes 2.25.1.1"}, partition.Unwilling, "Entries in the way: cn="},
		{"type in use", []string{"replace-class ( 2.25.1.2 NAME 'building' SUP top STRUCTURAL MUST cn MAY floorPlan )", "delete attributeTypes 2.25.1.1"}, partition.Unwilling, "Entry in the way: cn=a,dc=example,dc=com"},
		{"MAY removed", []string{"replace-class ( 2.25.1.2 NAME 'building' SUP top STRUCTURAL MUST cn MAY floors )"}, partition.Unwilling, "Entry in the way: cn=b,dc=example,dc=com"},
		{"MUST added", []string{"replace-class ( 2.25.1.2 NAME 'building' SUP top STRUCTURAL MUST ( cn $ floors ) MAY floorPlan )"}, partition.Unwilling, "object class building requires attribute floors. Entry in the way: cn=b,dc=example,dc=com"},
		{"MUST that all have", []string{"replace-class ( 2.25.1.2 NAME 'building' SUP top STRUCTURAL MUST cn MAY ( floors $ floorPlan $ description ) )"}, 0, ""},
		{"kind", []string{"replace-class ( 2.25.1.2 NAME 'building' SUP top AUXILIARY MUST cn MAY ( floors $ floorPlan ) )"}, partition.Unwilling, "structural"},
		{"name lost", []string{"replace-class ( 2.25.1.2 NAME 'house' SUP top STRUCTURAL MUST cn MAY ( floors $ floorPlan ) )"}, partition.Unwilling, "loses a name"},
		{"name won", []string{"replace-class ( 2.25.1.2 NAME ( 'building' 'house' ) SUP top STRUCTURAL MUST cn MAY ( floors $ floorPlan ) )"}, 0, ""},
		{"superclass", []string{"replace-class ( 2.25.1.2 NAME 'building' SUP locality STRUCTURAL MUST cn MAY ( floors $ floorPlan ) )"}, partition.Unwilling, "locality"},
		{"single value", []string{"replace-type " + strings.Replace(floors, " )", " SINGLE-VALUE )", 1)}, partition.Unwilling, "several values of attribute floors, which becomes single-valued. Entry in the way: cn=a,dc=example,dc=com"},
		{"syntax", []string{"replace-type ( 2.25.1.1 NAME 'floors' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"}, partition.Unwilling, "syntax"},
		{"supertype", []string{"replace-type ( 2.25.1.1 NAME 'floors' SUP uidNumber EQUALITY integerMatch )"}, partition.Unwilling, "supertype"},
		{"name of a type", []string{"replace-type ( 2.25.1.1 NAME 'levels' EQUALITY integerMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )",
			"replace-class ( 2.25.1.2 NAME 'building' SUP top STRUCTURAL MUST cn MAY ( levels $ floorPlan ) )"}, partition.Unwilling, "names change"},
		{"extensions", []string{"replace-type " + strings.Replace(floors, " )", " X-ORIGIN 'here' )", 1)}, 0, ""},
		{"content rule broken", []string{"add dITContentRules ( 2.25.1.2 NAME 'b' NOT floors )"}, partition.Unwilling, "cn=a,dc=example,dc=com"},
		{"content rule kept", []string{"add dITContentRules ( 2.25.1.2 NAME 'b' MAY description )"}, 0, ""},
		{"name form broken", []string{"add nameForms ( 2.25.3.1 NAME 'bf' OC building MUST floors )"}, partition.Unwilling, "name form bf"},
		{"name form kept", []string{"add nameForms ( 2.25.3.1 NAME 'bf' OC building MUST cn )"}, 0, ""},
		{"structure rule broken", []string{"add nameForms ( 2.25.3.1 NAME 'bf' OC building MUST cn )", "add dITStructureRules ( 1 NAME 'br' FORM bf )"}, partition.Unwilling, "structure rule"},
		{"structure rule kept", []string{"add nameForms ( 2.25.3.1 NAME 'bf' OC building MUST cn )", "add nameForms ( 2.25.3.2 NAME 'of' OC organization MUST dc )",
			"add nameForms ( 2.25.3.3 NAME 'pf' OC person MUST cn )", "add dITStructureRules ( 3 FORM pf SUP 2 )",
			"add dITStructureRules ( 1 NAME 'br' FORM bf SUP 2 )", "add dITStructureRules ( 2 FORM of )"}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := withBuildings(t)
			before := p.Schema()
			var lines []string
			for _, l := range c.changes {
				if text, ok := strings.CutPrefix(l, "replace-class "); ok {
					lines = append(lines, "delete objectClasses 2.25.1.2", "add objectClasses "+text)
				} else if text, ok := strings.CutPrefix(l, "replace-type "); ok {
					lines = append(lines, "delete attributeTypes 2.25.1.1", "add attributeTypes "+text)
				} else {
					lines = append(lines, l)
				}
			}
			err := changeSchema(t, p, lines...)
			var problem *partition.Error
			switch {
			case c.problem == 0:
				must(t, err)
			case !errors.As(err, &problem) || problem.Problem != c.problem || !strings.Contains(problem.Text, c.text):
				t.Fatalf("got %v, want problem %d with %q", err, c.problem, c.text)
			case p.Schema() != before:
				t.Error("a refused change changed the schema")
			}
			verifyClean(t, p)
		})
	}
}

// TestPermissiveSchema checks that a permissive modify ignores additions of existing
// definitions and removals of missing definitions.
func TestPermissiveSchema(t *testing.T) {
	p := withBuildings(t)
	permissively := func(lines ...string) error {
		_, err := onlineschema.UpdateSchema(t.Context(), p, partition.By{}, func(tx *partition.Tx) error {
			tx.Rules.Permissive = true
			return onlineschema.Modify(t.Context(), tx, name(catalog.SubschemaName), schemaChange(lines...))
		})
		return err
	}
	must(t, permissively("add attributeTypes "+strings.Replace(floors, " )", " X-ORIGIN 'elsewhere' )", 1), "add objectClasses "+building))
	must(t, permissively("delete attributeTypes 2.25.9.9", "delete nameForms", "add attributeTypes ( 2.25.9.8 NAME 'x' SUP name )"))
	must(t, permissively("delete attributeTypes 2.25.9.8", "delete attributeTypes ( 2.25.9.8 NAME 'x' )", "add attributeTypes ( 2.25.9.8 NAME 'x' SUP name )"))
	if p.Schema().Attribute("x") == nil {
		t.Error("what was deleted and added again is not there")
	}
	for change, want := range map[string]partition.Problem{
		// This definition differs from the existing one.
		"add attributeTypes ( 2.25.1.1 NAME 'floors' SUP name )": partition.ValueExists,
		"add attributeTypes ( 2.25.9.9 NAME 'y":                  partition.InvalidSyntax,
		"delete attributeTypes 2.25.1.1":                         partition.Unwilling,
	} {
		var problem *partition.Error
		if err := permissively(change); !errors.As(err, &problem) || problem.Problem != want {
			t.Errorf("%s: %v, want problem %d", change, err, want)
		}
	}
	verifyClean(t, p)
}

// TestSchemaLives changes a schema several times and reopens the directory in between. Each
// state must have its own schema.
func TestSchemaLives(t *testing.T) {
	ctx := context.Background()
	store := tabletest.NewBatchMem()
	reopen := func(p *partition.Partition) *partition.Partition {
		if p != nil {
			must(t, p.Close(ctx))
		}
		p, err := partition.Open(ctx, store, partition.Options{Format: *storeFormat, Create: true})
		must(t, err)
		return p
	}
	p := reopen(nil)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}))
	must(t, add(t, p, "dc=example,dc=com", "objectClass: dcObject", "objectClass: organization", "o: Example", "dc: example"))
	if err := add(t, p, "cn=a,dc=example,dc=com", "objectClass: building", "cn: a"); err == nil {
		t.Fatal("a class that is not there was taken")
	}
	old := state.Newest(p)
	defer old.Close()
	must(t, changeSchema(t, p, "add attributeTypes "+floors, "add attributeTypes "+drawing, "add objectClasses "+building, "delete objectClasses 2.5.6.18"))
	must(t, add(t, p, "cn=a,dc=example,dc=com", "objectClass: building", "cn: a", "floors: 2"))
	if old.Schema().Class("building") != nil {
		t.Error("an older snapshot shows the new schema")
	}
	with := state.Newest(p).Revision()

	p = reopen(p)
	if p.Schema().Class("building") == nil || p.Schema().Class("2.5.6.18") != nil {
		t.Error("the schema did not survive")
	}
	if got := searched(t, p, "dc=example,dc=com", op.WholeSubtree, "(floors>=2)"); len(got) != 1 {
		t.Errorf("found %v", got)
	}
	must(t, onlineschema.SetIndexes(ctx, p, append(p.Config().Indexes, catalog.Index{Attribute: "floors", Layout: catalog.ColumnLayout})))
	verifyClean(t, p)

	// The definitions are removed, but states of the past keep them.
	must(t, update(t, p, func(tx *partition.Tx) error { return tx.Delete(ctx, name("cn=a,dc=example,dc=com")) }))
	must(t, changeSchema(t, p, "delete attributeTypes 2.25.1.1", "delete attributeTypes 2.25.1.3", "delete objectClasses 2.25.1.2"))
	if slices.ContainsFunc(p.Config().Indexes, func(x catalog.Index) bool { return x.Attribute == "floors" }) {
		t.Error("the index of a type that went is still there")
	}
	names, err := store.Names(ctx)
	must(t, err)
	if slices.Contains(names, "index_floors") {
		t.Error("the table of a type that went is still there")
	}
	p = reopen(p)
	defer p.Close(ctx)
	if p.Schema().Class("building") != nil {
		t.Error("the class came back")
	}
	s, err := state.At(ctx, p, with)
	must(t, err)
	defer s.Close()
	if s.Schema().Class("building") == nil {
		t.Fatal("the past has lost its schema")
	}
	at, err := s.Find(ctx, name("dc=example,dc=com"))
	must(t, err)
	n := 0
	f := filter.Resolve(filter.MustParse("(floors=2)"), s.Schema())
	for r, err := range search.Search(ctx, s, partition.Query{Base: at.ID, Scope: op.WholeSubtree, Filter: f}) {
		must(t, err)
		if n++; len(r.Entry.Values(s.Schema().Attribute("floors"))) != 1 {
			t.Errorf("%s has no floors", r.Name)
		}
	}
	if n != 1 {
		t.Errorf("%d entries of the past found, want 1", n)
	}
	verifyClean(t, p)
}

// TestSchemaInOneTransaction checks that a transaction can use the definitions that it adds
// itself.
func TestSchemaInOneTransaction(t *testing.T) {
	ctx := context.Background()
	p := open(t)
	_, err := onlineschema.UpdateSchema(ctx, p, partition.By{Name: "cn=admin"}, func(tx *partition.Tx) error {
		for _, l := range []string{"add attributeTypes " + floors, "add attributeTypes " + drawing, "add objectClasses " + building} {
			if err := onlineschema.Modify(ctx, tx, name(catalog.SubschemaName), schemaChange(l)); err != nil {
				return err
			}
		}
		_, err := tx.Add(ctx, name("dc=example,dc=com"), attrs("objectClass: building", "objectClass: dcObject", "cn: a", "dc: example", "floors: 1"), false)
		return err
	})
	must(t, err)
	if got := searched(t, p, "dc=example,dc=com", op.BaseObject, "(floors=1)"); len(got) != 1 {
		t.Errorf("found %v", got)
	}
	verifyClean(t, p)
}

// TestRulesOfTheTree adds, changes and moves entries under DIT content rules, name forms and
// DIT structure rules. It checks which operations are refused, and with which problem.
func TestRulesOfTheTree(t *testing.T) {
	ctx := context.Background()
	p := open(t)
	must(t, changeSchema(t, p, "add attributeTypes "+floors, "add attributeTypes "+drawing, "add objectClasses "+building,
		"add attributeTypes ( 2.25.1.4 NAME 'oldFloors' OBSOLETE SUP floors )",
		"add objectClasses ( 2.25.1.5 NAME 'oldBuilding' OBSOLETE SUP building STRUCTURAL )",
		"add dITContentRules ( 2.25.1.2 NAME 'b' AUX labeledURIObject MUST description MAY ( postalCode $ oldFloors ) NOT floorPlan )",
		"add nameForms ( 2.25.3.1 NAME 'bf' OC building MUST cn )",
		"add nameForms ( 2.25.3.2 NAME 'of' OC organization MUST ( dc ) MAY ( o ) )",
		"add nameForms ( 2.25.3.3 NAME 'uf' OC organizationalUnit MUST ou )",
		"add dITStructureRules ( 1 NAME 'top' FORM of )",
		"add dITStructureRules ( 2 NAME 'unit' FORM uf SUP 1 )",
		"add dITStructureRules ( 3 NAME 'inUnit' FORM bf SUP ( 2 3 ) )"))
	must(t, add(t, p, "dc=example,dc=com", "objectClass: dcObject", "objectClass: organization", "o: Example", "dc: example"))
	must(t, add(t, p, "ou=u,dc=example,dc=com", "objectClass: organizationalUnit", "ou: u"))
	must(t, add(t, p, "cn=x,ou=u,dc=example,dc=com", "objectClass: building", "objectClass: labeledURIObject", "cn: x", "description: d", "postalCode: 1"))
	must(t, add(t, p, "cn=y,cn=x,ou=u,dc=example,dc=com", "objectClass: building", "cn: y", "description: d"))
	for _, c := range []struct {
		what    string
		do      func(tx *partition.Tx) error
		problem partition.Problem
	}{
		{"an auxiliary class that is not listed", adding("cn=z,ou=u,dc=example,dc=com", "objectClass: building", "objectClass: simpleSecurityObject", "userPassword: x", "cn: z", "description: d"), partition.ClassViolation},
		{"a precluded attribute", adding("cn=z,ou=u,dc=example,dc=com", "objectClass: building", "cn: z", "description: d", "floorPlan: p"), partition.ClassViolation},
		{"without what the rule requires", adding("cn=z,ou=u,dc=example,dc=com", "objectClass: building", "cn: z"), partition.ClassViolation},
		{"an obsolete attribute", adding("cn=z,ou=u,dc=example,dc=com", "objectClass: building", "cn: z", "description: d", "oldFloors: 1"), partition.ClassViolation},
		{"an obsolete class", adding("cn=z,ou=u,dc=example,dc=com", "objectClass: oldBuilding", "cn: z", "description: d"), partition.ClassViolation},
		{"an obsolete class, by the server", func(tx *partition.Tx) error {
			tx.Rules.Accounts = true
			return adding("cn=z,ou=u,dc=example,dc=com", "objectClass: oldBuilding", "cn: z")(tx)
		}, partition.ClassViolation},
		{"another RDN than the form's", adding("description=z,ou=u,dc=example,dc=com", "objectClass: building", "cn: z", "description: z"), partition.NamingViolation},
		{"below what no rule says", adding("cn=z,dc=example,dc=com", "objectClass: building", "cn: z", "description: d"), partition.NamingViolation},
		{"a unit in a unit", adding("ou=z,ou=u,dc=example,dc=com", "objectClass: organizationalUnit", "ou: z"), partition.NamingViolation},
		{"what is not governed below what is", adding("cn=z,ou=u,dc=example,dc=com", "objectClass: person", "cn: z", "sn: z"), partition.NamingViolation},
		{"taking what the rule requires", modifying("cn=x,ou=u,dc=example,dc=com", op.ModDelete, "description"), partition.ClassViolation},
		{"adding what it precludes", modifying("cn=x,ou=u,dc=example,dc=com", op.ModAdd, "floorPlan: p"), partition.ClassViolation},
		{"adding an auxiliary class", modifying("cn=x,ou=u,dc=example,dc=com", op.ModAdd, "objectClass: extensibleObject"), partition.ClassViolation},
		{"adding an obsolete attribute", modifying("cn=x,ou=u,dc=example,dc=com", op.ModAdd, "oldFloors: 1"), partition.ClassViolation},
		{"adding what it allows", modifying("cn=y,cn=x,ou=u,dc=example,dc=com", op.ModAdd, "postalCode: 1"), 0},
		{"a move to where no rule is", moving("cn=x,ou=u,dc=example,dc=com", "dc=example,dc=com"), partition.NamingViolation},
		{"a move below its like", moving("cn=y,cn=x,ou=u,dc=example,dc=com", "ou=u,dc=example,dc=com"), 0},
	} {
		err := update(t, p, c.do)
		var problem *partition.Error
		if c.problem == 0 && err != nil || c.problem != 0 && (!errors.As(err, &problem) || problem.Problem != c.problem) {
			t.Errorf("%s: %v, want problem %d", c.what, err, c.problem)
		}
	}
	s := state.Newest(p)
	defer s.Close()
	at, err := s.Find(ctx, name("cn=x,ou=u,dc=example,dc=com"))
	must(t, err)
	if rule, err := write.GoverningRule(ctx, s, at.ID); err != nil || rule == nil || rule.ID != 3 {
		t.Errorf("governed by %v, %v", rule, err)
	}
	verifyClean(t, p)
}

func adding(dn string, lines ...string) func(*partition.Tx) error {
	return func(tx *partition.Tx) error {
		_, err := tx.Add(context.Background(), name(dn), attrs(lines...), false)
		return err
	}
}

func modifying(dn string, kind op.ModKind, line string) func(*partition.Tx) error {
	a := op.PartialAttribute{Description: line}
	if strings.Contains(line, ": ") {
		a = attrs(line)[0]
	}
	return func(tx *partition.Tx) error {
		return tx.Modify(context.Background(), name(dn), []op.Modification{{Kind: kind, PartialAttribute: a}})
	}
}

func moving(from, to string) func(*partition.Tx) error {
	return func(tx *partition.Tx) error {
		above := name(to)
		return tx.Rename(context.Background(), name(from), name(from)[0], false, &above)
	}
}

// TestSchemaFindsUsersByIndex counts the keys that schema changes touch, in a directory with
// few unaffected entries and in a directory with many. The numbers must be about equal.
func TestSchemaFindsUsersByIndex(t *testing.T) {
	read := func(people int) (removed, tightened int64) {
		c := newCounted(t, noCache)
		must(t, changeSchema(t, c.p, "add attributeTypes "+floors, "add attributeTypes "+drawing, "add objectClasses "+building))
		must(t, update(t, c.p, func(tx *partition.Tx) error {
			for i := range people {
				if err := adding(fmt.Sprintf("cn=%d,dc=example,dc=com", i), "objectClass: person", "sn: x")(tx); err != nil {
					return err
				}
			}
			return nil
		}))
		must(t, add(t, c.p, "cn=b,dc=example,dc=com", "objectClass: building", "cn: b"))
		tightened = c.touched(func() {
			err := changeSchema(t, c.p, "delete objectClasses 2.25.1.2", "add objectClasses ( 2.25.1.2 NAME 'building' SUP top STRUCTURAL MUST ( cn $ floors ) )")
			if err == nil {
				t.Error("the entry without floors was not found")
			}
		})
		removed = c.touched(func() {
			must(t, changeSchema(t, c.p, "delete objectClasses 2.25.1.2", "delete attributeTypes 2.25.1.3", "add objectClasses ( 2.25.1.2 NAME 'building' SUP top STRUCTURAL MUST cn MAY floors )"))
		})
		return removed, tightened
	}
	c := counted{T: t}
	smallGone, smallTight := read(10)
	largeGone, largeTight := read(3000)
	c.within("removing a type", smallGone, largeGone)
	c.within("a class that requires more", smallTight, largeTight)
}

// TestSchemaKeepsNamesOfIndexes checks that the first name of an indexed type cannot
// change, because the name of the index's table contains the first name.
func TestSchemaKeepsNamesOfIndexes(t *testing.T) {
	p := open(t)
	must(t, changeSchema(t, p, "add attributeTypes "+floors))
	indexes := append(p.Config().Indexes, catalog.Index{Attribute: "floors", Layout: catalog.ColumnLayout})
	must(t, onlineschema.Reindex(context.Background(), p, indexes, verify.ReindexOptions{}))
	renamed := strings.Replace(floors, "'floors'", "( 'storeys' 'floors' )", 1)
	err := changeSchema(t, p, "delete attributeTypes 2.25.1.1", "add attributeTypes "+renamed)
	var e *partition.Error
	if !errors.As(err, &e) || e.Problem != partition.Unwilling || !strings.Contains(e.Text, "floors has an index") {
		t.Errorf("another first name: %v", err)
	}
	more := strings.Replace(floors, "'floors'", "( 'floors' 'storeys' )", 1)
	must(t, changeSchema(t, p, "delete attributeTypes 2.25.1.1", "add attributeTypes "+more))
}
