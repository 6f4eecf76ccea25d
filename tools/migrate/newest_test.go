package migrate

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// TestNewest checks which copies of entries are left out of a batch. An action is written as
// ID=NAME, or as ID=- if the entry is deleted.
func TestNewest(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"1=a 1=a 1=a", "1=a"},
		{"1=a 2=b 1=a 2=b 3=c", "1=a 2=b 3=c"},
		{"1=a 1=b 1=a", "1=a 1=b 1=a"},     // renamed, and another entry may have had the name
		{"1=a 1=- 1=a 1=a", "1=a 1=- 1=a"}, // deleted and added again
		{"0=a 0=a 0=b", "0=a 0=a 0=b"},     // the server shows no ids
		{"1=a 2=b 1=- 2=b", "1=a 1=- 2=b"}, // of several copies, the last one is kept
		{"1=a 2=- 1=b 1=b", "1=a 2=- 1=b"},
		{"", ""},
	} {
		var as []action
		for _, f := range strings.Fields(c.in) {
			id, name, _ := strings.Cut(f, "=")
			a := action{del: entry.ID{15: id[0] - '0'}}
			if name != "-" {
				parsed, err := dn.Parse("cn=" + name)
				if err != nil {
					t.Fatal(err)
				}
				a = action{put: &copied{id: a.del, name: parsed}}
			}
			as = append(as, a)
		}
		var got []string
		for a := range slices.Values(newest(as)) {
			name := "-"
			if a.put != nil {
				name = strings.TrimPrefix(a.put.name.String(), "cn=")
			}
			got = append(got, string('0'+a.entryID()[15])+"="+name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
}
