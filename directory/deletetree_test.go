package directory_test

import (
	"fmt"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition/transfer"
)

// TestDeleteLargeTree checks that a tree that is too large for one commit is deleted in
// several commits. The assertion and the pre-read controls must apply to the state before
// the first commit.
func TestDeleteLargeTree(t *testing.T) {
	const n = 5200
	d, s := newPeople(t, 0)
	l, err := transfer.Load(t.Context(), directory.PartitionOf(d), transfer.LoadOptions{})
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
