package directory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestRangesOfManyValues reads a group in ranges. Each value of the group is stored
// separately. No value may occur twice, and the last range must end in "*".
func TestRangesOfManyValues(t *testing.T) {
	_, s := newPeople(t, 0)
	ls := []line{{"objectClass", "groupOfNames"}, {"cn", "g"}}
	for i := range 4000 {
		ls = append(ls, line{"member", fmt.Sprintf("cn=m%04d,dc=example,dc=com", i)})
	}
	serve(t, s, &op.Add{Name: "cn=g,dc=example,dc=com", Attributes: attributes(ls)})
	var all, ranges []string
	for from := 0; ; {
		var out answers
		s.Serve(t.Context(), &op.Message{Request: &op.Search{Base: "cn=g,dc=example,dc=com",
			Filter: filter.And{}, Attributes: []string{fmt.Sprintf("member;range=%d-*", from)}}}, &out)
		if out.done.Code != op.Success || len(out.entries) != 1 {
			t.Fatalf("%v, %d entries", &out.done.Result, len(out.entries))
		}
		values := strings.Split(strings.TrimSpace(out.entries[0]), "\n")[1:]
		description, _, _ := strings.Cut(strings.TrimSpace(values[0]), ":")
		for _, v := range values {
			all = append(all, strings.TrimSpace(strings.TrimPrefix(v, "  "+description+":")))
		}
		ranges = append(ranges, description)
		if from = len(all); strings.HasSuffix(description, "*") || len(ranges) > 10 {
			break
		}
	}
	want := []string{"member;range=0-1499", "member;range=1500-2999", "member;range=3000-*"}
	if !slices.Equal(ranges, want) {
		t.Errorf("%q, want %q", ranges, want)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != 4000 {
		t.Errorf("%d values", len(all))
	}
}
