package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

var manFolder = flag.String("man", "", "write the manual pages into this `FOLDER`")

// TestManPages checks that every command that is not hidden has a page, and that every key of the
// configuration is described, except the keys for tests. If mandoc is installed, the pages must
// be well formed.
func TestManPages(t *testing.T) {
	root := root(&cli.Main{Stdin: &bytes.Buffer{}, Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}})
	pages := manPages(root, "2026-01-02")
	if p := pages["ldapd.8"]; !strings.Contains(p, `.TH LDAPD 8 "2026-01-02"`) || !strings.Contains(p, `\fBldapd\-serve\fR(8)`) {
		t.Errorf("ldapd.8: %s", p)
	}
	if p := pages["ldapd-access-apply.8"]; !strings.Contains(p, `\-\-dry\-run`) || !strings.Contains(p, `\-\-config FILE`) {
		t.Errorf("ldapd-access-apply.8: %s", p)
	}
	for _, hidden := range []string{"ldapd-hash.8", "ldapd-completion.8", "ldapd-help.8"} {
		if pages[hidden] != "" {
			t.Errorf("there is %s", hidden)
		}
	}
	count := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		count++
		for _, sub := range shown(c) {
			visit(sub)
		}
	}
	visit(root)
	if len(pages) != count+1 {
		t.Errorf("%d pages of %d commands", len(pages), count)
	}
	for _, k := range config.Keys {
		if has := strings.Contains(pages["ldapd.conf.5"], `\fB`+roff(k.Name)+`\fR`); has == k.Test {
			t.Errorf("%s is described: %v", k.Name, has)
		}
	}
	lint(t, pages)
	if *manFolder != "" {
		writeMan(t)
	}
}

// writeMan writes the pages that packages contain, with the date in SOURCE_DATE_EPOCH.
func writeMan(t *testing.T) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	root := root(&cli.Main{})
	root.InitDefaultHelpFlag()
	for name, text := range manPages(root, time.Unix(seconds, 0).UTC().Format(time.DateOnly)) {
		if err := os.WriteFile(filepath.Join(*manFolder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func lint(t *testing.T, pages map[string]string) {
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Log("mandoc is not installed: the pages are not checked")
		return
	}
	dir := t.TempDir()
	var files []string
	for name, text := range pages {
		files = append(files, filepath.Join(dir, name))
		if err := os.WriteFile(files[len(files)-1], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := exec.Command(mandoc, append([]string{"-T", "lint", "-W", "warning"}, files...)...).CombinedOutput()
	// The pages refer to other pages. mandoc does not find those, because they are not
	// installed here.
	for line := range strings.Lines(string(out)) {
		if !regexp.MustCompile(`referenced manual not found|outdated`).MatchString(line) {
			t.Error(line)
		}
	}
}

// TestCompletions checks that the program prints completion scripts for bash, zsh and fish.
func TestCompletions(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var out bytes.Buffer
		m := &cli.Main{Stdin: &out, Stdout: &out, Stderr: &out}
		if status := m.Run(t.Context(), root(m), []string{"completion", shell}); status != 0 || !strings.Contains(out.String(), "ldapd") {
			t.Errorf("%s: %d: %.200s", shell, status, &out)
		}
	}
}
