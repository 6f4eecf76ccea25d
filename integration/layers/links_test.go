package layers

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	links    = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	headings = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notIDs   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	pageRefs = regexp.MustCompile(`\bdocs/[\w/-]+\.md`)
)

// TestLinks checks that each link between pages leads to a file and to a heading in it, and that
// the pages that code, scripts and diagnostics name exist.
func TestLinks(t *testing.T) {
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != "." && (e.Name()[0] == '.' || e.Name() == "data" || e.Name() == "bin"):
			return fs.SkipDir
		case e.IsDir() || !named(path):
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		for _, page := range pageRefs.FindAllString(string(text), -1) {
			if _, err := fs.Stat(root, page); err != nil {
				t.Errorf("%s names %s, which does not exist", path, page)
			}
		}
		if strings.HasSuffix(path, ".md") {
			checkLinks(t, root, path, string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// named reports whether a file may name pages.
func named(path string) bool {
	switch filepath.Ext(path) {
	case ".md", ".go", ".sh", ".yml", ".yaml", ".txtar", ".known", ".golden":
		return true
	}
	return path == "Makefile" || filepath.Dir(path) == "scripts"
}

func checkLinks(t *testing.T, root fs.FS, path, text string) {
	for _, link := range links.FindAllStringSubmatch(text, -1) {
		file, anchor, _ := strings.Cut(link[1], "#")
		if strings.Contains(file, ":") {
			continue
		}
		target := path
		if file != "" {
			target = filepath.Join(filepath.Dir(path), file)
		}
		if _, err := fs.Stat(root, target); err != nil {
			t.Errorf("%s: the link %s leads to no file", path, link[1])
			continue
		}
		if anchor == "" {
			continue
		}
		page, err := fs.ReadFile(root, target)
		if err != nil || !hasHeading(string(page), anchor) {
			t.Errorf("%s: the link %s leads to no heading", path, link[1])
		}
	}
}

// hasHeading reports whether a page has a heading to which an anchor leads, as GitHub makes anchors.
func hasHeading(page, anchor string) bool {
	for _, h := range headings.FindAllStringSubmatch(page, -1) {
		id := notIDs.ReplaceAllString(strings.ToLower(h[1]), "")
		if strings.ReplaceAll(id, " ", "-") == anchor {
			return true
		}
	}
	return false
}

var (
	placed    = regexp.MustCompile("(?m)^\\| `([\\w/]+\\.go)` \\| ((?:`\\w+`(?:, )?)+) \\|")
	functions = regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?(\w+)\(`)
)

// TestTenMinutes checks that each file in the tables of docs/design/ten-minutes.md has the functions
// beside it.
func TestTenMinutes(t *testing.T) {
	page, err := os.ReadFile("../../docs/design/ten-minutes.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := placed.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 30 {
		t.Errorf("the page has only %d rows with a file and functions", len(rows))
	}
	for _, row := range rows {
		file, err := os.ReadFile("../../" + row[1])
		if err != nil {
			t.Error(err)
			continue
		}
		names := map[string]bool{}
		for _, f := range functions.FindAllStringSubmatch(string(file), -1) {
			names[f[1]] = true
		}
		for name := range strings.SplitSeq(strings.ReplaceAll(row[2], "`", ""), ", ") {
			if !names[name] {
				t.Errorf("%s has no function %s", row[1], name)
			}
		}
	}
}
