package directory_test

import (
	"fmt"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/load"
)

// TestDeleteLargeTree checks that a tree that is too large for one commit is deleted in
// several commits. The assertion and the pre-read controls must apply to the state before
// the first commit.
func TestDeleteLargeTree(t *testing.T) {
	const n = 5200
	d, s := newPeople(t, 0)
	l, err := load.Load(t.Context(), directory.PartitionOf(d), load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		at, err := dn.Parse(fmt.Sprintf("cn=%d,dc=example,dc=com", i))
		if err == nil {
			err = l.Add(t.Context(), at, attributes([]line{{"objectClass", "device"}}))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	request := &op.Message{Request: &op.Delete{Name: "dc=example,dc=com"}, Controls: []op.Control{
		namedControl("treeDelete critical"), namedControl("assertion (o=Example)"), namedControl("preRead o numSubordinates"),
	}}
	c := &client{t: t, d: d, s: s}
	for _, step := range []struct{ control, want string }{
		{"noOp critical", "16654 (the operation would have succeeded; nothing was changed)\npreRead: dc=example,dc=com\n  o: Example\n  numSubordinates: 5200\n"},
		{"", "0 (deleted 5201 entries in 2 commits)\npreRead: dc=example,dc=com\n  o: Example\n  numSubordinates: 5200\n"},
		{"", "32 (no entry dc=example,dc=com)\n"},
	} {
		m := *request
		if step.control != "" {
			m.Controls = append(m.Controls[:3:3], namedControl(step.control))
		}
		var out answers
		s.Serve(t.Context(), &m, &out)
		if got := c.print(&out); got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
	}
}

// TestDeleteNamedTree deletes a tree whose entries are named by more values than one commit
// may remove. It is deleted in smaller commits, and no value that names an entry of the tree
// stays.
func TestDeleteNamedTree(t *testing.T) {
	const devices, groups = 300, 20 // 6,000 values
	p := newPartitionWith(t, partition.Options{References: catalog.DefaultReferences()})
	d := newDirectory(t, p, directory.Options{})
	c := &client{t: t, p: p, d: d, s: d.NewSession(nil)}
	c.must("bind", "dn: "+admin, "password: secret")
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	c.must("add", "dn: ou=goes,dc=example,dc=com", "objectClass: organizationalUnit")
	group := []string{"objectClass: groupOfNames", "member: dc=example,dc=com"}
	for i := range devices {
		name := fmt.Sprintf("cn=%d,ou=goes,dc=example,dc=com", i)
		c.must("add", "dn: "+name, "objectClass: device")
		group = append(group, "member: "+name)
	}
	for i := range groups {
		c.must("add", append([]string{fmt.Sprintf("dn: cn=g%d,dc=example,dc=com", i)}, group...)...)
	}
	got := c.do("delete", "dn: ou=goes,dc=example,dc=com", "control: treeDelete critical")
	if want := "0 (deleted 301 entries in 2 commits)\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := c.do("search", "base: dc=example,dc=com", "scope: sub", "filter: (|(ou=goes)(member=*ou=goes*))", "attrs: 1.1"); got != "0\n" {
		t.Errorf("left behind: %s", got)
	}
	if got := c.do("search", "base: cn=g7,dc=example,dc=com", "scope: base", "attrs: member"); got != "dn: cn=g7,dc=example,dc=com\n  member: dc=example,dc=com\n0\n" {
		t.Errorf("members of a group: %s", got)
	}
}
