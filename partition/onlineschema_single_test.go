package partition_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// singles are types whose values are stored in different forms.
var singles = []string{
	"( 2.25.4.1 NAME 'room' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )",
	"( 2.25.4.2 NAME 'seal' SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )", // without keys
	"( 2.25.4.3 NAME 'store' SUP room )",                            // with an index
}

// retype makes all types in singles SINGLE-VALUE, or multi-valued if single is false.
func retype(t testing.TB, p *partition.Partition, single bool) error {
	t.Helper()
	var lines []string
	for i, text := range singles {
		if single {
			text = strings.TrimSuffix(text, ")") + "SINGLE-VALUE )"
		}
		lines = append(lines, fmt.Sprintf("delete attributeTypes 2.25.4.%d", i+1), "add attributeTypes "+text)
	}
	return changeSchema(t, p, lines...)
}

func withRooms(t testing.TB) *partition.Partition {
	t.Helper()
	p := open(t)
	must(t, changeSchema(t, p, "add attributeTypes "+singles[0], "add attributeTypes "+singles[1], "add attributeTypes "+singles[2]))
	must(t, onlineschema.SetIndexes(t.Context(), p, append(p.Config().Indexes, catalog.Index{Attribute: "store", Layout: catalog.ColumnLayout})))
	must(t, add(t, p, "dc=example,dc=com", "objectClass: dcObject", "objectClass: organization", "o: Example", "dc: example"))
	return p
}

// longRoom is the beginning of values whose keys are too long for a column.
var longRoom = strings.Repeat("long ", 150)

// addRooms adds entries with one value for each description.
func addRooms(t testing.TB, p *partition.Partition) {
	t.Helper()
	for cn, lines := range map[string][]string{
		"short": {"room: 1", "seal: a", "store: 1"}, "long": {"room: " + longRoom + "1", "store: " + longRoom + "1"},
		"tagged": {"room;x-a: 1", "room: 1", "store;x-a: 1"}, "replaced": {"room: 1", "store: 1", "seal: a"},
	} {
		must(t, add(t, p, "cn="+cn+",dc=example,dc=com", append(lines, "objectClass: device", "objectClass: extensibleObject", "cn: "+cn)...))
	}
}

func addMany(t testing.TB, p *partition.Partition) {
	t.Helper()
	lines := []string{"objectClass: device", "objectClass: extensibleObject", "cn: many"}
	for i := range 120 {
		lines = append(lines, fmt.Sprintf("room: %d", i+1), fmt.Sprintf("store: %d", i+1))
	}
	must(t, add(t, p, "cn=many,dc=example,dc=com", lines...))
}

// leaveOne removes, from each attribute with many values, all values except the first.
func leaveOne(t testing.TB, p *partition.Partition) {
	t.Helper()
	var gone []op.Modification
	for _, a := range []string{"room", "store"} {
		c := op.Modification{Kind: op.ModDelete, PartialAttribute: op.PartialAttribute{Description: a}}
		for i := 1; i < 120; i++ {
			c.Values = append(c.Values, fmt.Append(nil, i+1))
		}
		gone = append(gone, c)
	}
	must(t, update(t, p, func(tx *partition.Tx) error {
		return tx.Modify(t.Context(), name("cn=many,dc=example,dc=com"), gone)
	}))
}

// modifies makes changes in one modify and then verifies the whole directory.
func modifies(t testing.TB, p *partition.Partition, cn string, want partition.Problem, changes ...string) {
	t.Helper()
	err := update(t, p, func(tx *partition.Tx) error {
		return tx.Modify(t.Context(), name("cn="+cn+",dc=example,dc=com"), schemaChange(changes...))
	})
	var problem *partition.Error
	if want == 0 && err != nil || want != 0 && (!errors.As(err, &problem) || problem.Problem != want) {
		t.Errorf("%s: %q: %v, want problem %d", cn, changes, err, want)
	}
	verifyClean(t, p)
}

// hasValues checks that reads and filters see the wanted values of an entry.
func hasValues(t testing.TB, p *partition.Partition, cn, attribute string, want ...string) {
	t.Helper()
	s := state.Newest(p)
	defer s.Close()
	at, err := s.Find(context.Background(), name("cn="+cn+",dc=example,dc=com"))
	must(t, err)
	e, err := s.Entry(context.Background(), at.ID, false)
	must(t, err)
	var got []string
	for _, v := range e.Values(s.Schema().Attribute(attribute)) {
		got = append(got, string(v))
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("%s of %s: %q, want %q", attribute, cn, got, want)
	}
	for _, v := range want {
		if found := searched(t, p, "dc=example,dc=com", op.WholeSubtree, "(&(cn="+cn+")("+attribute+"="+v+"))"); len(found) != 1 {
			t.Errorf("(%s=%s) finds %q", attribute, v, found)
		}
		if found := searched(t, p, "dc=example,dc=com", op.WholeSubtree, "("+attribute+"=*"+v[len(v)-1:]+")"); len(found) == 0 {
			t.Errorf("(%s=*%s) finds nothing", attribute, v[len(v)-1:])
		}
	}
}

// TestBecomesSingle makes types SINGLE-VALUE while entries have values of them, and then
// changes these values. It checks that only an entry with several values prevents such a change
// of a type, and that the entries then have the right values.
func TestBecomesSingle(t *testing.T) {
	p := withRooms(t)
	addRooms(t, p)
	addMany(t, p)
	err := retype(t, p, true)
	var problem *partition.Error
	if !errors.As(err, &problem) || problem.Problem != partition.Unwilling || !strings.Contains(problem.Text, "Entry in the way: cn=many") {
		t.Fatalf("with many values: %v", err)
	}
	leaveOne(t, p)
	must(t, retype(t, p, true))
	verifyClean(t, p)

	for _, cn := range []string{"short", "many", "replaced"} {
		hasValues(t, p, cn, "room", "1")
		modifies(t, p, cn, partition.Constraint, "add room 2")
		modifies(t, p, cn, partition.ValueExists, "add room 1")
		modifies(t, p, cn, partition.NoSuchAttribute, "delete room 2")
	}
	hasValues(t, p, "long", "room", longRoom+"1")
	modifies(t, p, "long", partition.ValueExists, "add room "+longRoom+"1")
	modifies(t, p, "long", partition.Constraint, "add store "+longRoom+"2")
	modifies(t, p, "replaced", 0, "replace room 2", "replace store 2", "replace seal b")
	hasValues(t, p, "replaced", "room", "2")
	hasValues(t, p, "replaced", "store", "2")
	modifies(t, p, "tagged", partition.Constraint, "add room;x-a 2")
	modifies(t, p, "tagged", 0, "replace room;x-a 2", "replace store;x-a 2")
	for _, cn := range []string{"short", "many"} {
		modifies(t, p, cn, 0, "delete room 1", "add room 2")
		hasValues(t, p, cn, "room", "2")
		modifies(t, p, cn, 0, "delete room", "replace store 2")
		hasValues(t, p, cn, "room")
		hasValues(t, p, cn, "store", "2")
		modifies(t, p, cn, 0, "add room 3")
		hasValues(t, p, cn, "room", "3")
	}
	modifies(t, p, "long", 0, "delete room "+longRoom+"1", "add room "+longRoom+"2", "delete store")
	hasValues(t, p, "long", "room", longRoom+"2")
	must(t, update(t, p, func(tx *partition.Tx) error { return tx.Delete(t.Context(), name("cn=tagged,dc=example,dc=com")) }))
	verifyClean(t, p)
}

// TestIsNoLongerSingle removes SINGLE-VALUE from types while entries have values of them, and
// then changes these values. It checks that no entry prevents such a change of a type, and that
// the entries then have the right values.
func TestIsNoLongerSingle(t *testing.T) {
	p := withRooms(t)
	must(t, retype(t, p, true))
	addRooms(t, p)
	modifies(t, p, "short", partition.Constraint, "add room 2")
	must(t, retype(t, p, false))
	verifyClean(t, p)

	for _, cn := range []string{"short", "replaced"} {
		hasValues(t, p, cn, "room", "1")
		modifies(t, p, cn, partition.ValueExists, "add room 1")
		modifies(t, p, cn, 0, "add room 2", "add store 2")
		hasValues(t, p, cn, "room", "1", "2")
		hasValues(t, p, cn, "store", "1", "2")
		modifies(t, p, cn, partition.ValueExists, "add room 1")
	}
	modifies(t, p, "replaced", 0, "replace room 3", "replace seal b", "delete store 1")
	hasValues(t, p, "replaced", "room", "3")
	hasValues(t, p, "replaced", "store", "2")
	modifies(t, p, "short", 0, "delete room 1")
	hasValues(t, p, "short", "room", "2")
	modifies(t, p, "long", 0, "add room "+longRoom+"2", "add store "+longRoom+"2")
	hasValues(t, p, "long", "room", longRoom+"1", longRoom+"2")
	modifies(t, p, "long", 0, "delete room "+longRoom+"1")
	hasValues(t, p, "long", "room", longRoom+"2")

	// A value without a position becomes one of many values. It must still be found.
	more := op.Modification{Kind: op.ModAdd, PartialAttribute: op.PartialAttribute{Description: "room;x-a"}}
	for i := 1; i < 120; i++ {
		more.Values = append(more.Values, fmt.Append(nil, i+1))
	}
	must(t, update(t, p, func(tx *partition.Tx) error {
		return tx.Modify(t.Context(), name("cn=tagged,dc=example,dc=com"), []op.Modification{more})
	}))
	verifyClean(t, p)
	modifies(t, p, "tagged", partition.ValueExists, "add room;x-a 1")
	modifies(t, p, "tagged", 0, "delete room;x-a 1")
	modifies(t, p, "tagged", partition.NoSuchAttribute, "delete room;x-a 1")
	modifies(t, p, "tagged", 0, "delete room;x-a")

	// Now the types become SINGLE-VALUE again.
	modifies(t, p, "long", 0, "delete store "+longRoom+"2")
	modifies(t, p, "short", 0, "delete store 2")
	must(t, retype(t, p, true))
	verifyClean(t, p)
	hasValues(t, p, "short", "store", "1")
	modifies(t, p, "short", partition.Constraint, "add store 2")
}

// TestSingleBesideServers makes a type SINGLE-VALUE, and later multi-valued again, while three
// servers add and replace values of the type. No state may show an entry with more values than
// the schema of the state allows.
func TestSingleBesideServers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ps := servers(t, tabletest.NewMem(), 3)
	must(t, add(t, ps[0], "cn=0,dc=example,dc=com", "objectClass: building", "cn: 0", "floors: 0"))
	var writers errgroup.Group
	for i, p := range ps {
		must(t, p.CatchUp(ctx))
		writers.Go(func() error {
			for n := i; ctx.Err() == nil; n += len(ps) {
				kind := []op.ModKind{op.ModAdd, op.ModReplace}[n/len(ps)%2]
				_, err := write.Update(context.Background(), p, partition.By{}, modifying("cn=0,dc=example,dc=com", kind, fmt.Sprintf("floors: %d", n)))
				if !passing(err) {
					return err
				}
			}
			return nil
		})
	}
	single := strings.TrimSuffix(floors, ")") + "SINGLE-VALUE )"
	became := 0
	for i := 0; i < 40 && became < 3; i++ {
		err := changeSchema(t, ps[i%len(ps)], "delete attributeTypes 2.25.1.1", "add attributeTypes "+single)
		if !passing(err) {
			t.Fatal(err)
		}
		if err != nil {
			continue
		}
		became++
		eventually(t, "it is several-valued again", func() bool {
			return changeSchema(t, ps[(i+1)%len(ps)], "delete attributeTypes 2.25.1.1", "add attributeTypes "+floors) == nil
		})
	}
	cancel()
	must(t, writers.Wait())
	t.Logf("it became SINGLE-VALUE %d times", became)
	must(t, ps[0].CatchUp(context.Background()))
	checkSingle(t, ps[0])
	verifyClean(t, ps[0])
}

// checkSingle checks the state at each commit. If the attribute floors is SINGLE-VALUE in the
// state, no entry that the commit touched may have several values of it.
func checkSingle(t *testing.T, p *partition.Partition) {
	t.Helper()
	ctx := context.Background()
	now := state.Newest(p)
	defer now.Close()
	for c, err := range changestream.Shown(ctx, now, nil) {
		must(t, err)
		var s *partition.Snapshot
		eventually(t, "the other servers have no older commits to come", func() bool {
			s, err = state.At(ctx, p, c.Revision)
			return err == nil
		})
		typ := s.Schema().Attribute("floors")
		for _, id := range c.IDs {
			e, err := s.Entry(ctx, id, false)
			must(t, err)
			if e != nil && typ != nil && typ.SingleValue && len(e.Values(typ)) > 1 {
				t.Errorf("at %v an entry has %q", c.Revision, e.Values(typ))
			}
		}
		s.Close()
	}
}
