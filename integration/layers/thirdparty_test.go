package layers

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write THIRD-PARTY anew")

// TestThirdParty checks that the file THIRD-PARTY has the licences of all modules that a
// release links.
func TestThirdParty(t *testing.T) {
	const file = "../../THIRD-PARTY"
	text := thirdParty(t)
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != text {
		t.Errorf("THIRD-PARTY is not what go test ./integration/layers -run TestThirdParty -update writes (%v)", err)
	}
}

// thirdParty returns the list of modules and their licences, followed by the texts of the
// licences, each text once.
func thirdParty(t *testing.T) string {
	var list, texts strings.Builder
	list.WriteString(`The releases of ldapd contain the libraries below. Their licences follow. Made by
go test ./integration/layers -run TestThirdParty -update

- Go's standard library: BSD-3-Clause
`)
	names := map[string][]string{} // by text
	var order []string
	add := func(name string, text string) {
		if names[text] == nil {
			order = append(order, text)
		}
		names[text] = append(names[text], name)
	}
	modules := linked(t)
	for _, m := range modules {
		// Some distributions of Go have no LICENSE in GOROOT. The licence of
		// golang.org/x/sys has the same text.
		if strings.HasPrefix(m.name, "golang.org/x/sys ") {
			add("Go's standard library", licenseFiles(t, m.dir)[0])
		}
	}
	for _, m := range modules {
		files := licenseFiles(t, m.dir)
		if len(files) == 0 {
			t.Errorf("%s has no licence", m.name)
			continue
		}
		kind := kindOf(files)
		if kind == "" {
			t.Errorf("%s has an unknown licence: %.300s", m.name, files[0])
		}
		fmt.Fprintf(&list, "- %s: %s\n", m.name, kind)
		for _, f := range files {
			add(m.name, f)
		}
	}
	htmx, err := os.ReadFile("../../web/console/static/htmx-LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	list.WriteString("- htmx 4.0.1, in the pages of web/console: 0BSD\n")
	add("htmx 4.0.1", string(htmx))
	for _, text := range order {
		fmt.Fprintf(&texts, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 72), strings.Join(names[text], "\n"), strings.Trim(text, "\n"))
	}
	return list.String() + texts.String()
}

// ldaptestMay are the modules that ldaptest may link, and so the tests of other projects. They compile in a few
// seconds.
var ldaptestMay = strings.Fields(`
	github.com/bits-and-blooms/bitset github.com/bits-and-blooms/bloom/v3 github.com/boombuler/barcode github.com/go-crypt/crypt
	github.com/go-crypt/x github.com/google/uuid github.com/pires/go-proxyproto github.com/pquerna/otp github.com/xdg-go/scram
	github.com/xdg-go/stringprep golang.org/x/crypto golang.org/x/sync golang.org/x/sys golang.org/x/text
`)

// ldaptestMayNot are packages of this module, each with all below it, that ldaptest does not link. Who needs
// them links them (docs/decisions/0071-cheap-to-link.md).
var ldaptestMayNot = strings.Fields(`
	cmd web tools store/lsm store/hbase store/archive store/snapshots store/span/otelspan ldap/monitor/scrape
	partition/load/spill/ondisk directory/account/strength directory/auth/bearer directory/auth/gssapi
`)

// TestLdaptestLinks checks what ldaptest links.
func TestLdaptestLinks(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{$.ImportPath}}{{end}}", "./ldaptest")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		from, pkg, _ := strings.Cut(strings.TrimSpace(line), " ")
		if from != module {
			if !slices.Contains(ldaptestMay, from) {
				t.Errorf("ldaptest links %s of the module %s", pkg, from)
			}
			continue
		}
		for _, not := range ldaptestMayNot {
			if name := strings.TrimPrefix(pkg, module+"/"); name == not || strings.HasPrefix(name, not+"/") {
				t.Errorf("ldaptest links %s", name)
			}
		}
	}
}

type linkedModule struct{ name, dir string }

// linked returns the modules that are linked on the machines for which releases are made.
func linked(t *testing.T) (modules []linkedModule) {
	for _, arch := range []string{"amd64", "arm64"} {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/ldapd")
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t")
			if m := (linkedModule{name, dir}); ok && !slices.Contains(modules, m) {
				modules = append(modules, m)
			}
		}
	}
	slices.SortFunc(modules, func(a, b linkedModule) int { return strings.Compare(a.name, b.name) })
	return modules
}

// licenseFiles returns the texts of the licences and notices in a module's folder.
func licenseFiles(t *testing.T, dir string) (texts []string) {
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range names {
		base := strings.ToUpper(strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".md"), ".txt"))
		switch {
		case e.IsDir():
			continue
		case strings.HasPrefix(base, "LICENSE"), strings.HasPrefix(base, "LICENCE"), strings.HasPrefix(base, "COPYING"), base == "UNLICENSE", base == "NOTICE":
		default:
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))))
	}
	return texts
}

// kindOf returns the SPDX identifier of the first licence that is recognized.
func kindOf(texts []string) string {
	for _, text := range texts {
		flat := strings.Join(strings.Fields(text), " ")
		has := func(s string) bool { return strings.Contains(flat, s) }
		switch {
		case has("Mozilla Public License") && has("2.0"):
			return "MPL-2.0"
		case has("Apache License") && has("Version 2.0"):
			return "Apache-2.0"
		case has("Redistribution and use in source and binary forms"):
			if has("Neither the name") || has("names of its contributors") || has("name of the author may not") || has("may be used to endorse") {
				return "BSD-3-Clause"
			}
			return "BSD-2-Clause"
		case has("Permission is hereby granted, free of charge"):
			return "MIT"
		case has("Permission to use, copy, modify, and/or distribute"), has("Permission to use, copy, modify, and distribute"):
			return "ISC"
		case has("unencumbered software released into the public domain"):
			return "Unlicense"
		}
	}
	return ""
}
