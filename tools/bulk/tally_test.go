package bulk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

const locked = `dn: dc=example,dc=com
objectClass: domain

dn: uid=a,ou=later,dc=example,dc=com
objectClass: account
objectClass: simpleSecurityObject
userPassword: {SASL}a@EXAMPLE.COM

dn: ou=later,dc=example,dc=com
objectClass: organizationalUnit
userPassword: {SSHA}!y+dX0kZIbVwVNdDNg5T1bjbFH+F/+wKO
userPassword: {SASL}b@EXAMPLE.COM
userPassword: {SSHA}y+dX0kZIbVwVNdDNg5T1bjbFH+F/+wKO
userPassword: clear
`

// TestUnusablePasswordsAreCounted checks that every password that no bind can use is
// counted once, by its scheme.
func TestUnusablePasswordsAreCounted(t *testing.T) {
	changes := strings.ReplaceAll(locked, "\nobjectClass: ", "\nX")
	changes = strings.ReplaceAll(changes, "\nXdomain", "\nchangetype: add\nobjectClass: domain")
	changes = strings.ReplaceAll(changes, "\nXaccount\nXsimple", "\nchangetype: add\nobjectClass: account\nobjectClass: simple")
	changes = strings.ReplaceAll(changes, "\nXorganizationalUnit", "\nchangetype: add\nobjectClass: organizationalUnit")
	records := strings.Split(changes, "\n\n")
	changes = strings.Join([]string{records[0], strings.TrimSpace(records[2]), records[1]}, "\n\n") + "\n"
	for name, text := range map[string]string{"entries": locked, "changes": changes} {
		r := mustImport(t, openMem(t), bulk.Options{Files: []string{file(t, "a.ldif", text)}, Suffixes: []string{"dc=example,dc=com"}})
		if len(r.notes) != 1 || !strings.HasSuffix(r.notes[0], ": 2 {SASL}, 1 {SSHA}") {
			t.Errorf("%s: %q", name, r.notes)
		}
	}
	p := openMem(t)
	mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", company(1))}})
	b, err := branch.Create(t.Context(), p, branch.Options{Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	var many strings.Builder // so many records that the import makes several commits
	for i := range 1000 {
		fmt.Fprintf(&many, "dn: uid=many%d,dc=example,dc=com\nchangetype: add\nobjectClass: account\nobjectClass: simpleSecurityObject\nuserPassword: {SASL}x\n\n", i)
	}
	if r := mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", many.String())}, Branch: b}); len(r.notes) != 1 || !strings.HasSuffix(r.notes[0], ": 1000 {SASL}") {
		t.Errorf("into a branch: %q", r.notes)
	}
	if r := mustImport(t, openMem(t), bulk.Options{Files: []string{file(t, "a.ldif", company(3))}}); len(r.notes) != 0 {
		t.Errorf("%q", r.notes)
	}
}

// TestDropDuplicates checks that equal values of an entry are refused or, with
// DropDuplicates, that one of them is kept.
func TestDropDuplicates(t *testing.T) {
	const text = `dn: dc=example,dc=com
objectClass: domain
description: Twice
description: twice
description;lang-en: twice

dn: cn=a,dc=example,dc=com
objectClass: person
objectClass: PERSON
commonName: A
cn: a
cn: b
sn: x
`
	o := bulk.Options{Files: []string{file(t, "a.ldif", text)}}
	if r := runImport(t, openMem(t), o); r.err == nil || len(r.bad) != 2 {
		t.Errorf("%v\n%s", r.err, r.reports())
	}
	o.DropDuplicates = true
	p := openMem(t)
	r := mustImport(t, p, o)
	if len(r.notes) != 1 || !strings.HasSuffix(r.notes[0], ": 1 cn, 1 description, 1 objectClass") {
		t.Errorf("%q", r.notes)
	}
	got := export(t, p, bulk.ExportOptions{})
	for _, want := range []string{"description: Twice\n", "description;lang-en: twice\n", "cn: A\n", "cn: b\n"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, got)
		}
	}
}

// TestAllErrorsOfARecord checks that one report contains all errors of a record.
func TestAllErrorsOfARecord(t *testing.T) {
	const text = `dn: dc=example,dc=com
objectClass: domain

dn: uid=a,dc=example,dc=com
objectClass: inetOrgPerson
uid: a
colour: red
shape: round
mail: ä
uidNumber: 7
manager: nobody
preferredLanguage: de
preferredLanguage: en
title: x
title: X
`
	r := runImport(t, openMem(t), bulk.Options{Files: []string{file(t, "a.ldif", text)}})
	if len(r.bad) != 1 {
		t.Fatalf("%v\n%s", r.err, r.reports())
	}
	for _, want := range []string{`"colour"`, `"shape"`, "mail", "uidNumber", "manager", "preferredLanguage", "title", "requires attribute cn", "requires attribute sn"} {
		if strings.Count(r.bad[0].Text, want) != 1 {
			t.Errorf("%s is not told once: %s", want, r.bad[0].Text)
		}
	}
}
