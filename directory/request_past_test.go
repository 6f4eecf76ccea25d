package directory_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/revision"
)

// readAt reads one value in a past state. If the search finds no entry, readAt returns the
// result code and the diagnostic message.
func readAt(t *testing.T, s *directory.Session, moment string) string {
	t.Helper()
	var out answers
	s.Serve(t.Context(), &op.Message{
		Request:  &op.Search{Base: "dc=example,dc=com", Filter: filter.MustParse("(objectClass=*)"), Attributes: []string{"description"}},
		Controls: []op.Control{namedControl("at " + moment)},
	}, &out)
	if len(out.entries) == 1 {
		_, value, _ := strings.Cut(out.entries[0], "description: ")
		return strings.TrimSpace(value)
	}
	return fmt.Sprint(out.done.Code, " ", out.done.Diagnostic)
}

// TestPastByTime reads by times and revisions, in several spellings. Two reads of the
// same past moment must show the same state, even if a change is made directly after the first
// read.
func TestPastByTime(t *testing.T) {
	p := newPartition(t)
	s := newDirectory(t, p, directory.Options{}).NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	serve(t, s, &op.Add{Name: "dc=example,dc=com", Attributes: attributes(lines("objectClass: domain\ndescription: old"))})
	wrote := state.Newest(p).Revision()
	then := time.Now().UTC()
	if got := readAt(t, s, then.Format(time.RFC3339Nano)); got != "old" {
		t.Fatal(got)
	}
	serve(t, s, &op.Modify{Name: "dc=example,dc=com", Changes: changes(lines("replace description: new"))})
	for moment, want := range map[string]string{
		then.Format(time.RFC3339Nano):                              "old",
		then.Format("20060102150405.000000Z"):                      "old",
		then.In(time.FixedZone("", 7200)).Format(time.RFC3339Nano): "old",
		wrote.String():                      "old",
		state.Newest(p).Revision().String(): "new",
		"now":                               "new",
		then.Add(-time.Hour).Format(time.RFC3339): "32 ",
		then.Add(time.Hour).Format(time.RFC3339):  "53 at " + then.Add(time.Hour).Format(time.RFC3339) + ": the state requested is in the future",
		revision.At(then.Add(time.Hour)).String(): "53 at " + revision.At(then.Add(time.Hour)).String() + ": no such revision",
	} {
		if got := readAt(t, s, moment); !strings.HasPrefix(got, want) {
			t.Errorf("at %s: %s, want %s", moment, got, want)
		}
	}
}
