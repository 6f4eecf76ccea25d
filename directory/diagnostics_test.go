package directory_test

import (
	"fmt"
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

// diagnosing lists the packages whose diagnostics are sent to clients.
var diagnosing = []string{".", "../ldap/control", "../ldap/server", "../partition", "access", "acl"}

// TestDiagnostics compares all diagnostics with testdata/diagnostics.txt. The file lists
// all diagnostics so that a reader can read one after another, and so that every change
// is visible. REWRITE=1 writes the file again.
func TestDiagnostics(t *testing.T) {
	var lines []string
	for _, dir := range diagnosing {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				lines = append(lines, diagnostics(n)...)
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(lines)
	got := strings.Join(slices.Compact(lines), "\n") + "\n"
	const golden = "testdata/diagnostics.txt"
	if os.Getenv("REWRITE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the diagnostics are not those of %s; read them, and write it anew with REWRITE=1 go test ./directory -run TestDiagnostics", golden)
	}
}

// diagnostics returns the diagnostics that a node of a syntax tree produces: "code: text"
// of Errorf(code, text, ...) and of composite literals with a Diagnostic or a Text.
func diagnostics(n ast.Node) (lines []string) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if name := last(n.Fun); name == "Errorf" && len(n.Args) > 1 {
			if text, ok := literal(n.Args[1]); ok {
				lines = append(lines, fmt.Sprintf("%s: %s", last(n.Args[0]), text))
			}
		}
	case *ast.CompositeLit:
		code := ""
		for _, e := range n.Elts {
			kv, ok := e.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			switch last(kv.Key) {
			case "Code", "Problem":
				code = last(kv.Value)
			case "Diagnostic", "Text":
				if text, ok := literal(kv.Value); ok {
					lines = append(lines, fmt.Sprintf("%s: %s", code, text))
				}
			}
		}
	}
	return lines
}

// last returns the last name of an expression like a.b.c.
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return "?"
}

// literal returns the text of a string literal, or of the first string literal in a sum.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		return literal(e.X)
	}
	return "", false
}
