package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestDisaster runs the commands in docs/disaster.md that prepare for a disaster and restore an
// archive.
func TestDisaster(t *testing.T) {
	page, err := os.ReadFile("../../docs/disaster.md")
	if err != nil {
		t.Fatal(err)
	}
	commandsOf, _, whole := strings.Cut(string(page), "\n## A damaged store\n")
	if !whole {
		t.Fatal("docs/disaster.md has no section \"A damaged store\"")
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("/var/lib/", "lib/", "/mnt/backup/", "backup/", "/root/", "safe/", "/etc/ldapd/", "etc/",
		"age1REPLACE", id.Recipient().String())
	var script, files strings.Builder
	script.WriteString("mkdir etc lib/ldapd backup\n" +
		"exec ldapd import --store lib/ldapd/store --suffix dc=example,dc=com base.ldif\n" +
		"exec ldapd backup --config etc/ldapd.yaml\n" +
		"exec ldapd import --config etc/ldapd.yaml change.ldif\n" +
		"exec ldapd backup --config etc/ldapd.yaml\n")
	fmt.Fprintf(&files, "-- safe/ldapd-archive.key --\n%s\n", id)
	commands := 0
	for _, block := range indented(here.Replace(commandsOf)) {
		switch {
		case strings.HasPrefix(block, "store: "):
			fmt.Fprintf(&files, "-- etc/ldapd.yaml --\n%s", block)
		case strings.HasPrefix(block, "age-keygen"): // the test has made the key
		default:
			for line := range strings.Lines(block) {
				commands++
				fmt.Fprintf(&script, "exec %s", line)
			}
		}
	}
	if commands < 10 {
		t.Fatalf("the page has %d commands", commands)
	}
	script.WriteString("stdout 'ldapd/store, epoch 2,'\n" +
		"exec ldapd export --store lib/ldapd/store --filter (description=x)\n" +
		"stdout 'dn: cn=a,dc=example,dc=com'\n" +
		"! exec ldapd serve --config etc/ldapd.yaml --store lib/ldapd/lost --listen ldapi://$WORK/s\n" +
		"stderr 'the archive was taken over'\n")
	dir := t.TempDir()
	text := script.String() + files.String() + `-- base.ldif --
dn: dc=example,dc=com
objectClass: domain
dc: example

dn: cn=a,dc=example,dc=com
objectClass: device
cn: a
-- change.ldif --
dn: cn=a,dc=example,dc=com
changetype: modify
add: description
description: x
`
	if err := os.WriteFile(filepath.Join(dir, "disaster.txtar"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Dir: dir})
}

// indented returns the indented blocks of a page, without their indentation.
func indented(page string) (blocks []string) {
	code, margin := false, ""
	for line := range strings.Lines(page) {
		text := strings.TrimLeft(line, " ")
		space := line[:len(line)-len(text)]
		if !code {
			margin = space
		}
		is := (len(margin) == 4 || len(margin) == 7) && strings.HasPrefix(line, margin) && strings.TrimSpace(line) != ""
		switch rest := strings.TrimPrefix(line, margin); {
		case is && code:
			blocks[len(blocks)-1] += rest
		case is:
			blocks = append(blocks, rest)
		}
		code = is
	}
	return blocks
}
