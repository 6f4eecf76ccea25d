package directory_test

import (
	"fmt"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

func psearchControl() op.Control {
	return op.Control{OID: "2.16.840.1.113730.3.4.3", Critical: true, Value: []byte{0x30, 9, 2, 1, 15, 1, 1, 0, 1, 1, 0xff}}
}

// TestSyncCollective uses a filter that tests an attribute that entries share through a
// subentry. When the subentry is added or changed, or its administrative role is removed, the
// entries must enter or leave the content, although the commit does not touch them.
func TestSyncCollective(t *testing.T) {
	const one = "cn=1,ou=a,dc=example,dc=com"
	w := watch(t, "(&(objectClass=device)(c-l=Oslo))", syncControl(3))
	w.wants("refreshPresent")
	w.do(&op.Modify{Name: "ou=a,dc=example,dc=com", Changes: changes(lines("add administrativeRole: collectiveAttributeSpecificArea"))})
	w.wants("newCookie")
	w.add("cn=office,ou=a,dc=example,dc=com", "collectiveAttributeSubentry\nobjectClass: subentry", "subtreeSpecification: {}\nc-l: Oslo")
	w.wants(one+" add", "newCookie")
	w.do(&op.Modify{Name: one, Changes: changes(lines("replace description: x"))})
	w.wants(one+" modify", "newCookie")
	w.do(&op.Modify{Name: "cn=office,ou=a,dc=example,dc=com", Changes: changes(lines("replace c-l: Bergen"))})
	w.wants(one+" delete", "newCookie")
	w.do(&op.Modify{Name: "cn=office,ou=a,dc=example,dc=com", Changes: changes(lines("add c-l: Oslo"))})
	w.wants(one+" add", "newCookie")
	w.do(&op.Modify{Name: "ou=a,dc=example,dc=com", Changes: changes(lines("replace administrativeRole"))})
	w.wants(one+" delete", "newCookie")
}

// TestPersistentCollective checks that a persistent search tests the collective attributes
// that an entry has at the time of each change.
func TestPersistentCollective(t *testing.T) {
	const one, above = "cn=1,ou=a,dc=example,dc=com", "ou=a,dc=example,dc=com"
	w := watch(t, "(|(c-l=Oslo)(ou=a))", psearchControl())
	w.wants(above) // the search has begun
	touch := func() { w.do(&op.Modify{Name: one, Changes: changes(lines("replace description: x"))}) }
	touch() // the search does not report this change
	w.do(&op.Modify{Name: above, Changes: changes(lines("add administrativeRole: collectiveAttributeSpecificArea"))})
	w.wants(above + " change 4")
	w.add("cn=office,ou=a,dc=example,dc=com", "collectiveAttributeSubentry\nobjectClass: subentry", "subtreeSpecification: { specificationFilter item:device }\nc-l: Oslo")
	touch()
	w.wants(one + " change 4")
	w.do(&op.Delete{Name: "cn=office,ou=a,dc=example,dc=com"})
	touch() // the search does not report this change
	w.add("cn=office,ou=a,dc=example,dc=com", "collectiveAttributeSubentry\nobjectClass: subentry", "subtreeSpecification: { specificationFilter item:device }\nc-l: Oslo")
	w.do(&op.Delete{Name: one})
	w.wants(one + " change 2")
}

// TestWatchSchema uses a filter that tests an attribute that is added to the schema only
// later. From then on, the search must report changes of the attribute.
func TestWatchSchema(t *testing.T) {
	const one = "cn=1,ou=a,dc=example,dc=com"
	for name, c := range map[string]struct {
		control op.Control
		told    []string
	}{
		"sync":              {syncControl(3), []string{"refreshPresent", "newCookie", one + " add", "newCookie", one + " modify", "newCookie"}},
		"persistent search": {psearchControl(), []string{one + " change 4", one + " change 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, "(shelf=a)", c.control)
			if name == "sync" {
				w.wants(c.told[0])
			}
			w.do(&op.Modify{Name: "cn=Subschema", Changes: changes(lines(
				"add attributeTypes: ( 1.3.6.1.4.1.55555.1 NAME 'shelf' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"))})
			if name == "sync" {
				w.wants(c.told[1])
				c.told = c.told[2:]
			}
			w.do(&op.Modify{Name: one, Changes: changes(lines("add objectClass: extensibleObject\nadd shelf: A"))})
			w.wants(c.told[:len(c.told)/2]...)
			w.do(&op.Modify{Name: one, Changes: changes(lines("replace description: x"))})
			w.wants(c.told[len(c.told)/2:]...)
		})
	}
}

// TestSyncSlowClient checks that writers do not wait for a client that does not read. The
// client receives the missed changes as one difference.
func TestSyncSlowClient(t *testing.T) {
	const one = "cn=1,ou=a,dc=example,dc=com"
	w := watch(t, "(objectClass=device)", syncControl(3))
	w.wants(one+" add", "refreshPresent")
	w.changeOften(one, 300)
	w.add("cn=last,ou=a,dc=example,dc=com", "device", "cn: last")
	most := cap(w.tape.messages) + 4 // the messages that fit on the tape, one that waits, and the difference
	for n := 1; <-w.tape.messages != "cn=last,ou=a,dc=example,dc=com add"; n++ {
		if n > most {
			t.Fatalf("more than %d messages", most)
		}
	}
}

// TestPersistentSlowClient checks that writers do not wait for the client of a persistent
// search that does not read. The search must report every change.
func TestPersistentSlowClient(t *testing.T) {
	const one = "cn=1,ou=a,dc=example,dc=com"
	w := watch(t, "(objectClass=device)", psearchControl())
	w.wants(one)
	w.changeOften(one, 300)
	for range 300 {
		w.wants(one + " change 4")
	}
}

// changeOften changes an entry n times.
func (w *watching) changeOften(name string, n int) {
	w.t.Helper()
	for i := range n {
		w.do(&op.Modify{Name: name, Changes: changes(lines(fmt.Sprintf("replace description: %d", i)))})
	}
}
