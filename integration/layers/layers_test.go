// Package layers checks the order of packages: a package imports only packages that precede
// it in the variable order.
package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/seed-4dac0d86/ldapd"

// order is the order of packages in docs/design/architecture.md, without the packages
// for tests and tools. Test files may import any package.
var order = strings.Fields(`
	store/pause partition/bounded directory/auth/reread cmd/ldapd/internal/passwordlist store/span store/span/otelspan dn/short ldap/ber dn schema schema/entry filter ldap/op
	ldap/wire ldap/control ldap/ldif tools/schemafile
	store/table ldap/monitor ldap/monitor/scrape store/lsm store/gss/layer store/gss store/hbase/internal/krb store/hbase/internal/zookeeper store/hbase/internal/alltime store/hbase partition/load/spill partition/load/spill/ondisk ldap/server/peer
	master tree index index/existence index/rowindex index/colindex index/plan
	store/revision store/journal store/archive store/snapshots store/txn
	partition/columns partition/cache partition/catalog partition/state partition/search partition/usage
	partition/write partition/load partition/verify partition/onlineschema
	partition/erase partition/changestream partition/materialized partition/branch partition
	partition/history partition/reformat directory/account directory/account/strength/words directory/account/strength directory/auth directory/auth/bearer directory/auth/gssapi directory/acl tools/aclimport/draft tools/aclimport/aci tools/aclimport/olc tools/aclimport directory/access tools/bulk tools/migrate
	cmd/ldapd/internal/hasher
	directory/internal/wellknown directory/internal/accesslog directory/internal/transaction directory/settings directory/internal/judge directory/internal/policies directory/internal/accountlog directory/internal/request
	directory/internal/collective directory/internal/membership directory/internal/filterprep directory/internal/identify directory/internal/accountcheck directory/internal/password
	directory/internal/bind directory/internal/render directory/internal/delivery directory/internal/virtual
	directory/internal/locate directory/internal/assertion directory/internal/search directory/internal/watch
	directory/internal/write directory
	web web/console web/scim
	ldap/server cmd/ldapd/internal/status cmd/ldapd/internal/tracing
	cmd/ldapd/internal/certs cmd/ldapd/internal/config cmd/ldapd/internal/handoff cmd/ldapd/internal/wallclock
	cmd/ldapd/internal/cli cmd/ldapd/internal/serving cmd/ldapd/internal/accesscmd cmd/ldapd/internal/remote cmd/ldapd/internal/look cmd/ldapd/internal/apply cmd/ldapd/internal/notify cmd/ldapd/internal/people cmd/ldapd/internal/glance cmd/ldapd
`)

// rooms are the folders at the top, in the same order: a room imports only rooms before it.
var rooms = strings.Fields("dn schema filter store ldap master tree index partition directory tools web cmd")

// aside are packages that only tests may import.
var aside = []string{"cmd/hbase-dev", "store/table/tabletest", "store/table/tabletest/conformance", "directory/auth/authtest", "store/lsm/lsmtest", "store/hbase/hbasetest", "store/hbase/internal/rpctest", "ldap/server/certstest", "integration/isolation", "integration/layers", "store/txn/model", "ldap/wire/wiretest", "ldaptest", "integration", "deploy/packages", "bench/figures"}

func TestImportsGoUp(t *testing.T) {
	seen := map[string]bool{}
	walk(t, func(pkg, path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		seen[pkg] = true
		check(t, pkg, path)
	})
	for _, p := range order {
		if !seen[p] {
			t.Errorf("package %s is in the order but not in the tree", p)
		}
	}
}

// walk calls f for every Go file of the tree, with the file's package and path. It skips
// hidden folders and folders of data.
func walk(t *testing.T, f func(pkg, path string)) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "testdata" || d.Name() == "data") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		pkg, err := filepath.Rel("../..", filepath.Dir(path))
		f(filepath.ToSlash(pkg), path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

const (
	mostFiles   = 40 // of a package, without tests
	mostMethods = 45 // of a type, without those that it embeds
)

// TestPackagesAndTypesAreSmall checks that a package has few files and a type few methods.
func TestPackagesAndTypesAreSmall(t *testing.T) {
	files, methods := map[string]int{}, map[string]int{}
	walk(t, func(pkg, path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		files[pkg]++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[pkg+"."+receiver(fn.Recv.List[0].Type)]++
			}
		}
	})
	for pkg, n := range files {
		if n > mostFiles {
			t.Errorf("package %s has %d files, more than %d: split it by what its files do", pkg, n, mostFiles)
		}
	}
	for name, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods, more than %d: let it hold values that have a part of them", name, n, mostMethods)
		}
	}
}

// receiver returns the name of the type of a receiver.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	}
	return x.(*ast.Ident).Name
}

// TestImportsAreGrouped checks that imports are in three groups: the standard library,
// other modules, and this module.
func TestImportsAreGrouped(t *testing.T) {
	walk(t, func(_, path string) {
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(f.Imports); i++ {
			before, this := f.Imports[i-1], f.Imports[i]
			gap := files.Position(this.Pos()).Line-files.Position(before.End()).Line > 1
			switch a, b := group(before.Path.Value), group(this.Path.Value); {
			case a > b:
				t.Errorf("%s: %s stands behind %s", path, this.Path.Value, before.Path.Value)
			case gap != (a != b):
				t.Errorf("%s: an empty line before %s: %v", path, this.Path.Value, gap)
			}
		}
	})
}

// group returns the number of the group to which a quoted import path belongs.
func group(quoted string) int {
	name, _ := strconv.Unquote(quoted)
	first, _, _ := strings.Cut(name, "/")
	switch {
	case strings.HasPrefix(name, module+"/"):
		return 2
	case strings.Contains(first, "."):
		return 1
	}
	return 0
}

func check(t *testing.T, pkg, path string) {
	if isAside(pkg) {
		return
	}
	mine := slices.Index(order, pkg)
	if mine < 0 {
		t.Errorf("package %s has no place in the order", pkg)
		return
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range f.Imports {
		name, _ := strconv.Unquote(i.Path.Value)
		name, ours := strings.CutPrefix(name, module+"/")
		if !ours {
			continue
		}
		if other := slices.Index(order, name); other < 0 || other >= mine {
			t.Errorf("%s imports %s, which is not above it", path, name)
		}
		if !mayImport(pkg, name) {
			t.Errorf("%s imports %s, which is reserved for other packages", path, name)
		}
		if slices.Index(rooms, room(name)) > slices.Index(rooms, room(pkg)) {
			t.Errorf("%s imports %s, whose folder at the top is not before its own", path, name)
		}
	}
}

// room returns the folder at the top that contains a package.
func room(pkg string) string {
	top, _, _ := strings.Cut(pkg, "/")
	return top
}

func isAside(pkg string) bool {
	return slices.ContainsFunc(aside, func(a string) bool { return pkg == a || strings.HasPrefix(pkg, a+"/") })
}

// TestMapIsWhole checks that docs/design/architecture.md names every package.
func TestMapIsWhole(t *testing.T) {
	text, err := os.ReadFile("../../docs/design/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range slices.Concat(order, aside) {
		if !strings.Contains(string(text), "`"+p+"`") {
			t.Errorf("docs/design/architecture.md does not name package %s", p)
		}
	}
}

// reserved lists packages of partition and, for each, the packages outside of partition that may
// import it. Other packages of partition are for everyone.
var reserved = map[string]string{
	"partition/bounded":      "directory/access directory/internal/policies directory/internal/search",
	"partition/cache":        "cmd/ldapd/internal/status",
	"partition/erase":        "cmd/ldapd",
	"partition/load":         "tools/bulk",
	"partition/materialized": "cmd/ldapd cmd/ldapd/internal/serving cmd/ldapd/internal/status directory/internal/virtual directory/internal/write",
	"partition/onlineschema": "cmd/ldapd cmd/ldapd/internal/accesscmd cmd/ldapd/internal/apply cmd/ldapd/internal/serving directory/internal/write tools/bulk tools/migrate",
	"partition/reformat":     "cmd/ldapd",
	"partition/usage":        "directory/internal/filterprep",
	"partition/verify":       "cmd/ldapd cmd/ldapd/internal/apply cmd/ldapd/internal/cli tools/bulk",
}

func mayImport(pkg, name string) bool {
	who, limited := reserved[name]
	return !limited || room(pkg) == "partition" || slices.Contains(strings.Fields(who), pkg)
}

// TestDecisionsAreListed checks that the index of decisions names every page.
func TestDecisionsAreListed(t *testing.T) {
	text, err := os.ReadFile("../../docs/decisions/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../docs/decisions/0*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range pages {
		name := filepath.Base(p)
		if !strings.Contains(string(text), "("+name+")") {
			t.Errorf("docs/decisions/README.md does not list %s", name)
		}
		if n := name[:4]; seen[n] {
			t.Errorf("two decisions have the number %s", n)
		} else {
			seen[n] = true
		}
	}
}
