package directory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
)

// TestUnseenIsNotDereferenced checks that a dereference shows nothing of an entry that the
// requester does not see, although a rule lets the requester read attributes of the entry.
func TestUnseenIsNotDereferenced(t *testing.T) {
	c, _ := newNarrow(t)
	c.bindBy("all: allow users to read\nno: deny users to see in (uid=p0)")
	for uid, shown := range map[string]bool{"p1": false, "p11": true} {
		got := c.do("search", "base: uid="+uid+",ou=people,dc=example,dc=com", "attrs: 1.1", "control: deref manager:sn")
		if strings.Contains(got, "sn") != shown || !strings.HasPrefix(got, "dn: ") {
			t.Errorf("the manager of %s: %s", uid, got)
		}
	}
}

// TestHiddenKeysAreNoOrder checks that an entry comes last if the requester may not search
// its sort key. This must also hold in pages, and if an index has the order.
func TestHiddenKeysAreNoOrder(t *testing.T) {
	directory.SetListCheap(t, 1)
	c, _ := newNarrow(t)
	c.bindBy("all: allow users to read in \"dc=example,dc=com\"\nno: deny users to read, search uid in (|(uid=p10)(uid=p20)(uid=p30))\nsee: allow users to see")
	for _, control := range []string{"sort uid", "sort uid; paged 200 new"} {
		out := c.do("search", "base: ou=people,dc=example,dc=com", "scope: one", "attrs: 1.1", "control: "+control)
		var order []string
		for line := range strings.Lines(out) {
			if name, ok := strings.CutPrefix(line, "dn: uid="); ok {
				uid, _, _ := strings.Cut(name, ",")
				order = append(order, uid)
			}
		}
		if len(order) != 100 {
			t.Fatalf("%s: %s", control, out)
		}
		last := fmt.Sprint(order[97:])
		for _, uid := range []string{"p10", "p20", "p30"} {
			if !strings.Contains(last, uid) {
				t.Errorf("%s: %s is not among the last, %s", control, uid, last)
			}
		}
	}
}
