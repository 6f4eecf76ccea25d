package directory_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// device is an entry of the sorting tests, with the attributes to sort by.
type device struct {
	cn     string
	l, ser []string // l has a row index, serialNumber has no index
}

func (d *device) least(attribute string) string {
	values := map[string][]string{"cn": {d.cn}, "l": d.l, "serialNumber": d.ser}[attribute]
	if len(values) == 0 {
		return "\xff" // sorts after all values
	}
	lower := make([]string, len(values))
	for i, v := range values {
		lower[i] = strings.ToLower(v)
	}
	return slices.Min(lower)
}

// newDevices returns a directory with 40 devices whose values are in no order, and the
// devices. A device has up to two values of l, and the same number of values of serialNumber.
func newDevices(t *testing.T) (*directory.Directory, []device) {
	d, s := newPeople(t, 0)
	var all []device
	for i := range 40 {
		x := device{cn: fmt.Sprintf("%c%02d", "zAyB"[i%4], (i*17)%40)}
		for n := range i % 3 {
			x.l = append(x.l, fmt.Sprintf("%c%d", "Mn"[i%2], (i*7+n*11)%30))
			x.ser = append(x.ser, fmt.Sprint((i*13+n*29)%23))
		}
		ls := []line{{"objectClass", "device"}, {"cn", x.cn}}
		for n := range x.l {
			ls = append(ls, line{"l", x.l[n]}, line{"serialNumber", x.ser[n]})
		}
		serve(t, s, &op.Add{Name: "cn=" + x.cn + ",dc=example,dc=com", Attributes: attributes(ls)})
		all = append(all, x)
	}
	return d, all
}

// sorted runs a sorted search in pages, or without pages if size is 0. It returns the
// names in the order in which they were received.
func sorted(t *testing.T, s *directory.Session, filter, key string, size int) (names []string) {
	t.Helper()
	var cookie []byte
	for i := 0; i == 0 || len(cookie) > 0; i++ {
		m := &op.Message{Request: devices(filter), Controls: []op.Control{namedControl("sort " + key + " critical")}}
		if size > 0 {
			m.Controls = append(m.Controls, pagedControl(size, cookie))
		}
		var out answers
		s.Serve(t.Context(), m, &out)
		if out.done.Code != op.Success || i > 100 {
			t.Fatalf("%s by %s: %v", filter, key, &out.done.Result)
		}
		if len(out.entries) > 0 && !inOrder(out.done) {
			t.Fatalf("%s by %s: entries, but no word that they are sorted", filter, key)
		}
		cookie = cookieOf(out.done)
		if len(cookie) > 0 && len(out.entries) != size {
			t.Fatalf("a page of %d of %d", len(out.entries), size)
		}
		for _, e := range out.entries {
			name := strings.TrimPrefix(strings.TrimSpace(e), "dn: cn=")
			names = append(names, strings.TrimSuffix(name, ",dc=example,dc=com"))
		}
	}
	return names
}

// TestSortedSearches checks that each entry is returned once and in order. It sorts by a
// list and by an index, with pages and without.
func TestSortedSearches(t *testing.T) {
	d, all := newDevices(t)
	for _, cheap := range []int{2048, 3} {
		directory.SetListCheap(t, cheap)
		for _, filter := range []string{"(objectClass=device)", "(!(description=x))", "(l=*)", "(&(serialNumber=*)(objectClass=device))"} {
			for _, key := range []string{"cn", "-cn", "l", "-l", "serialNumber", "-serialNumber", "l cn", "-l -cn"} {
				for _, size := range []int{0, 1, 7, 100} {
					s := d.NewSession(nil)
					got := sorted(t, s, filter, key, size)
					checkSorted(t, fmt.Sprintf("%s by %s, pages of %d, cheap %d", filter, key, size, cheap), all, got, filter, key)
				}
			}
		}
	}
}

func checkSorted(t *testing.T, what string, all []device, got []string, filter, key string) {
	t.Helper()
	byName := map[string]*device{}
	var want []string
	for i := range all {
		byName[all[i].cn] = &all[i]
		if len(all[i].l) > 0 || !strings.Contains(filter, "=*") {
			want = append(want, all[i].cn)
		}
	}
	got = slices.DeleteFunc(got, func(n string) bool { return byName[n] == nil }) // remove the naming context
	attribute, reverse := strings.CutPrefix(strings.Fields(key)[0], "-")
	inOrder := slices.IsSortedFunc(got, func(a, b string) int {
		c := cmp.Compare(byName[a].least(attribute), byName[b].least(attribute))
		if reverse {
			return -c
		}
		return c
	})
	if !inOrder {
		t.Errorf("%s: not in order: %q", what, got)
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := gocmp.Diff(want, got); d != "" {
		t.Errorf("%s:\n%s", what, d)
	}
}

// TestSortedPagesShowOneState checks that all pages of a sorted search show the state of the
// first page, even if the order comes from an index. Other servers must be able to send the
// next pages.
func TestSortedPagesShowOneState(t *testing.T) {
	for _, cheap := range []int{2048, 3} {
		directory.SetListCheap(t, cheap)
		d, s := newPeople(t, 9)
		ask := func(s *directory.Session, cookie []byte) *answers {
			var out answers
			s.Serve(t.Context(), &op.Message{Request: devices("(objectClass=device)"), Controls: []op.Control{
				namedControl("sort cn"), pagedControl(4, cookie)}}, &out)
			return &out
		}
		first := ask(s, nil)
		serve(t, s, &op.Delete{Name: "cn=d05,dc=example,dc=com"})
		other := newOther(t, d, "k").NewSession(nil)
		serve(t, other, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
		second := ask(other, cookieOf(first.done))
		third := ask(s, cookieOf(second.done))
		got := slices.Concat(first.entries, second.entries, third.entries)
		if len(got) != 9 || !slices.IsSorted(got) || len(cookieOf(third.done)) > 0 {
			t.Errorf("cheap %d: %q", cheap, got)
		}
		// A cookie must be refused in a search with another order.
		var out answers
		s.Serve(t.Context(), &op.Message{Request: devices("(objectClass=device)"), Controls: []op.Control{
			namedControl("sort -cn"), pagedControl(4, cookieOf(first.done))}}, &out)
		if out.done.Code != op.UnwillingToPerform {
			t.Errorf("with another order: %v", &out.done.Result)
		}
	}
}

// TestSortMemory checks sorted searches for which the sort memory is too small. If an index
// has the order, the search must use the index. Otherwise the sort response control must
// contain adminLimitExceeded.
func TestSortMemory(t *testing.T) {
	d, _ := newDevices(t)
	d = newDirectory(t, directory.PartitionOf(d), directory.Options{Limits: directory.Limits{SortMemory: 1000}})
	for _, c := range []struct {
		controls string
		code     op.Code
		entries  int
		sort     byte
	}{
		{"sort l", op.Success, 40, 0},
		{"sort serialNumber", op.Success, 40, 11},
		{"sort serialNumber critical", op.UnavailableCriticalExtension, 0, 11},
		{"sort serialNumber; vlv 0 1 1/0", op.VirtualListViewError, 0, 11},
	} {
		var m op.Message
		for _, text := range strings.Split(c.controls, "; ") {
			m.Controls = append(m.Controls, namedControl(text))
		}
		m.Request = devices("(objectClass=device)")
		var out answers
		d.NewSession(nil).Serve(t.Context(), &m, &out)
		if out.done.Code != c.code || len(out.entries) != c.entries {
			t.Errorf("%s: %v, %d entries", c.controls, &out.done.Result, len(out.entries))
		}
		for _, r := range out.done.Controls {
			if r.OID == sortResponse && r.Value[4] != c.sort || r.OID == viewResponse && r.Value[10] != c.sort {
				t.Errorf("%s: response %x", c.controls, r.Value)
			}
		}
		if c.code != op.Success && !strings.Contains(out.done.Diagnostic, "the limit on sort memory, 1000 bytes") {
			t.Errorf("%s: %s", c.controls, out.done.Diagnostic)
		}
	}
}
