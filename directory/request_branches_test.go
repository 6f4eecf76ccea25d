package directory_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// branchStores are the kinds of stores that have branches.
var branchStores = map[string]func(*testing.T) table.Store{
	"embedded": func(t *testing.T) table.Store {
		s, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	},
	"shared": func(*testing.T) table.Store { return tabletest.NewMem() },
}

var anyBranchText = regexp.MustCompile(`(?m)^(  (?:targetEntryUUID|changeTime): ).*$`)

var anyRevision = regexp.MustCompile(`\br[0-9a-f]{10}-[0-9a-f]+-[0-9a-f]+\b`)

// newBranched returns a directory that can have branches.
func newBranched(t *testing.T, s table.Store, o directory.Options) (*partition.Partition, *directory.Directory) {
	t.Helper()
	ctx := context.Background()
	p, err := partition.Open(ctx, s, partition.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(ctx) })
	if err := onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}); err != nil {
		t.Fatal(err)
	}
	return p, newDirectory(t, p, o)
}

// TestBranchTranscripts runs testdata/branches on each kind of store that has branches.
func TestBranchTranscripts(t *testing.T) {
	const path = "testdata/branches"
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	for name, store := range branchStores {
		t.Run(name, func(t *testing.T) {
			p, d := newBranched(t, store(t), directory.Options{Version: "test"})
			c := &client{t: t, p: p, d: d}
			c.s = c.d.NewSession(nil)
			datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
				c.t = t
				return anyBranchText.ReplaceAllString(anyRevision.ReplaceAllString(c.command(td), "r..."), "$1...")
			})
		})
	}
}

// TestBranchInAccessLog checks the access log of a session that works in a branch. The line
// of a search must name the branch. The line of a read of the root DSE must name no branch.
func TestBranchInAccessLog(t *testing.T) {
	var access bytes.Buffer
	_, d := newBranched(t, tabletest.NewMem(), directory.Options{Access: slog.New(slog.NewJSONHandler(&access, nil))})
	s := d.NewSessionIn("b", nil)
	serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	serve(t, s, &op.Add{Name: "cn=b,cn=branches", Attributes: []op.PartialAttribute{{Description: "objectClass", Values: [][]byte{[]byte("branch")}}}})
	access.Reset()
	root := &op.Search{Base: "", Filter: filter.MustParse("(objectClass=*)")}
	serve(t, s, root)
	if strings.Contains(access.String(), `"branch"`) {
		t.Errorf("the root DSE: %s", &access)
	}
	whole := &op.Search{Base: "", Scope: op.WholeSubtree, Filter: filter.MustParse("(objectClass=*)")}
	serve(t, s, whole)
	if n := strings.Count(access.String(), `"branch":"b"`); n != 1 {
		t.Errorf("%d lines with the branch: %s", n, &access)
	}
}

// TestBranchEndsBeneath discards or merges a branch while searches, updates and merges run
// in it. Each operation must succeed or fail with one of the errors that ended allows. In the
// end, maintain.Verify must find nothing wrong.
func TestBranchEndsBeneath(t *testing.T) {
	for name, store := range branchStores {
		t.Run(name, func(t *testing.T) {
			p, d := newBranched(t, store(t), directory.Options{})
			admin := func() *directory.Session {
				s := d.NewSession(nil)
				serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
				return s
			}
			s := admin()
			serve(t, s, &op.Add{Name: "dc=example,dc=com", Attributes: values("objectClass", "domain")})
			for round := range 6 {
				serve(t, s, &op.Add{Name: "cn=b,cn=branches", Attributes: values("objectClass", "branch")})
				var all sync.WaitGroup
				for i := range 4 {
					c := admin()
					all.Go(func() { workInBranch(t, c, fmt.Sprintf("ou=r%d-%d", round, i)) })
				}
				if round%2 == 0 {
					ended(t, s, &op.Delete{Name: "cn=b,cn=branches"})
				} else {
					ended(t, s, mergeOf("cn=b,cn=branches"))
				}
				all.Wait()
				ended(t, s, &op.Delete{Name: "cn=b,cn=branches"})
			}
			if _, err := verify.Verify(t.Context(), p, verify.Options{Found: func(f *verify.Finding) error { t.Error(f); return nil }}); err != nil {
				t.Error(err)
			}
		})
	}
}

func values(description, value string) []op.PartialAttribute {
	return []op.PartialAttribute{{Description: description, Values: [][]byte{[]byte(value)}}}
}

func mergeOf(name string) *op.Modify {
	return &op.Modify{Name: name, Changes: []op.Modification{{Kind: op.ModReplace, PartialAttribute: values("branchState", "merged")[0]}}}
}

// workInBranch adds some entries to the branch, finds each of them, and then merges the
// branch. It stops at the first addition or search that fails.
func workInBranch(t *testing.T, s *directory.Session, rdn string) {
	for i := range 8 {
		name := fmt.Sprintf("%s-%d,dc=example,dc=com,cn=b,cn=branches", rdn, i)
		for _, r := range []op.Request{
			&op.Add{Name: name, Attributes: values("objectClass", "organizationalUnit")},
			&op.Search{Base: name, Filter: filter.MustParse("(objectClass=*)")},
		} {
			if !ended(t, s, r) {
				return
			}
		}
	}
	ended(t, s, mergeOf("cn=b,cn=branches"))
}

// ended runs a request, and reports whether it succeeded. A request may fail because the
// branch is gone or because another request was quicker. Any other error fails the test.
func ended(t *testing.T, s *directory.Session, r op.Request) bool {
	var out answers
	s.Serve(t.Context(), &op.Message{Request: r}, &out)
	switch out.done.Code {
	case op.Success:
		return true
	case op.NoSuchObject, op.Busy:
	case op.Other: // the branch ended while the server committed
		if !strings.Contains(out.done.Diagnostic, "read to learn") {
			t.Errorf("%+v: %v", r, &out.done.Result)
		}
	default:
		t.Errorf("%+v: %v", r, &out.done.Result)
	}
	return false
}
