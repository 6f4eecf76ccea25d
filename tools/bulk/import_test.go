package bulk_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.String()
}

func zstdOf(text string) string {
	var b bytes.Buffer
	z, _ := zstd.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.String()
}

func TestImportSources(t *testing.T) {
	text := company(600)
	half := strings.Index(text, "dn: uid=u0000300")
	for name, o := range map[string]bulk.Options{
		"plain":     {Files: []string{file(t, "a.ldif", text)}},
		"gzip":      {Files: []string{file(t, "a.ldif.gz", gzipped(text))}},
		"zstd":      {Files: []string{file(t, "a.ldif.zst", zstdOf(text))}},
		"stdin":     {Files: []string{"-"}, Stdin: strings.NewReader(text)},
		"zip stdin": {Files: []string{"-"}, Stdin: strings.NewReader(gzipped(text))},
		"two files": {Files: []string{file(t, "a.ldif", text[:half]), file(t, "b.ldif", text[half:])}},
		"CRLF":      {Files: []string{file(t, "a.ldif", strings.ReplaceAll(text, "\n", "\r\n"))}},
		"BOM":       {Files: []string{file(t, "a.ldif", "\ufeff"+text)}},
		"version":   {Files: []string{file(t, "a.ldif", "version: 1\n\n# a comment\n"+text)}},
	} {
		t.Run(name, func(t *testing.T) {
			p := openMem(t)
			if r := mustImport(t, p, o); r.Done != 602 {
				t.Errorf("%d entries", r.Done)
			}
			if got := p.Config().Suffixes; len(got) != 1 || got[0] != "dc=example,dc=com" {
				t.Errorf("suffixes: %q", got)
			}
		})
	}
}

func TestRoundTrip(t *testing.T) {
	text := company(50) + `dn: cn=Grüße,ou=people,dc=example,dc=com
objectClass: groupOfNames
cn: Grüße
cn;lang-en: Greetings
description:: IGJlZ2lucyB3aXRoIGEgc3BhY2U=
member: uid=u0000001,ou=people,dc=example,dc=com
member: uid=u0000002,ou=people,dc=example,dc=com
entryUUID: 11111111-2222-3333-4444-555555555555
createTimestamp: 20010203040506Z
creatorsName: cn=someone
modifyTimestamp: 20020203040506Z
entryCSN: 20020203040506.000000Z#000000#001#000000

`
	for name, open := range map[string]func(testing.TB) *partition.Partition{"batches": openMem, "lsm": openLSM} {
		t.Run(name, func(t *testing.T) {
			p := open(t)
			mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", text)}})
			first := export(t, p, bulk.ExportOptions{})
			for _, want := range []string{"entryUUID: 11111111-2222-3333-4444-555555555555", "createTimestamp: 20010203040506Z",
				"creatorsName: cn=someone", "userPassword: {SSHA}", "cn;lang-en: Greetings"} {
				if !strings.Contains(first, want) {
					t.Errorf("the export has no %q", want)
				}
			}
			// The attributes of a record keep the order that they have in the file.
			for record := range strings.SplitSeq(strings.TrimSpace(company(50)), "\n\n") {
				if strings.HasPrefix(record, "dn: uid=") && !strings.Contains(first, "\n"+record+"\n") {
					t.Errorf("the export has not\n%s", record)
				}
			}
			q := open(t)
			mustImport(t, q, bulk.Options{Files: []string{file(t, "b.ldif", first)}})
			if second := export(t, q, bulk.ExportOptions{}); second != first {
				t.Errorf("another export after a round trip:\n%s", second)
			}
		})
	}
}

// TestChildrenFirst imports entries that come before their parents.
func TestChildrenFirst(t *testing.T) {
	entry := func(name string) string {
		return "dn: " + name + "\nobjectClass: organizationalUnit\n\n"
	}
	text := "dn: dc=example,dc=com\nobjectClass: domain\n\n" +
		entry("ou=d,ou=c,ou=b,ou=a,dc=example,dc=com") + entry("ou=c,ou=b,ou=a,dc=example,dc=com") +
		entry("ou=b,ou=a,dc=example,dc=com") + entry("ou=a,dc=example,dc=com")
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	p := openMem(t)
	mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", text)}})
	got := names(export(t, p, bulk.ExportOptions{}))
	want := []string{"dc=example,dc=com", "ou=a,dc=example,dc=com", "ou=b,ou=a,dc=example,dc=com",
		"ou=c,ou=b,ou=a,dc=example,dc=com", "ou=d,ou=c,ou=b,ou=a,dc=example,dc=com"}
	if !slices.Equal(got, want) {
		t.Errorf("exported in the order %q", got)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestForeign imports entries with attributes that only other servers define. nsUniqueId must
// become the id of its entry. Each other foreign attribute must be left out, with a note.
func TestForeign(t *testing.T) {
	text := `version: 1

# entry-id: 1
dn: dc=example,dc=com
objectClass: domain
nsUniqueId: 3f2504e0-4f8911d3-9a0c0305-e82c3301
creatorsName: cn=Directory Manager
createTimestamp: 20010203040506Z
aci: (targetattr="*")(version 3.0; acl "x"; allow (read) userdn="ldap:///anyone";)
nsUniqueId;x-test: ignored

# entry-id: 2
dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
entryUUID: 3f2504e0-4f89-11d3-9a0c-0305e82c3302
entryParentId: 3f2504e0-4f89-11d3-9a0c-0305e82c3301
nbChildren: 0
contextCSN: 20020203040506.000000Z#000000#001#000000

`
	p := openMem(t)
	r := mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", text)}})
	got := export(t, p, bulk.ExportOptions{})
	for _, want := range []string{"entryUUID: 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "entryUUID: 3f2504e0-4f89-11d3-9a0c-0305e82c3302",
		"creatorsName: cn=Directory Manager", "createTimestamp: 20010203040506Z"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	slices.Sort(r.notes)
	if len(r.notes) != 4 || !strings.Contains(r.notes[0], "aci") {
		t.Errorf("notes: %q", r.notes)
	}
}

// TestUniqueIDDefined imports an entry of 389 into a directory whose schema defines
// nsUniqueId, as after `ldapd schema add` with 389's files. The entry must keep the
// attribute, and the value must also become the entry's id.
func TestUniqueIDDefined(t *testing.T) {
	text := `dn: cn=Subschema
objectClass: subschema
attributeTypes: ( 2.16.840.1.113730.3.1.542 NAME 'nsUniqueId' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE NO-USER-MODIFICATION USAGE directoryOperation )

dn: dc=example,dc=com
objectClass: domain
nsUniqueId: 3f2504e0-4f8911d3-9a0c0305-e82c3301

`
	p := openMem(t)
	mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", text)}})
	got := export(t, p, bulk.ExportOptions{})
	for _, want := range []string{"entryUUID: 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "nsUniqueId: 3f2504e0-4f8911d3-9a0c0305-e82c3301"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestDisabledAccountsStayDisabled checks that an account that was disabled on another
// server is disabled after an import.
func TestDisabledAccountsStayDisabled(t *testing.T) {
	kept := []string{"pwdAccountLockedTime: 20200101000000Z", "pwdReset: TRUE",
		"passwordExpirationTime: 20200101000000Z", "pwdStartTime: 20990101000000Z", "pwdEndTime: 20200101000000Z",
		"ds-pwp-account-expiration-time: 20200101000000Z"}
	text := "dn: dc=example,dc=com\nobjectClass: domain\n" + strings.Join(kept, "\n") + `

dn: uid=a,dc=example,dc=com
objectClass: account
nsRoleDN: cn=nsManagedDisabledRole,dc=example,dc=com

dn: uid=b,dc=example,dc=com
objectClass: account
nsRoleDN: cn=other,dc=example,dc=com
nsAccountLock: false
ds-pwp-account-disabled: FALSE

dn: uid=c,dc=example,dc=com
objectClass: account
nsAccountLock: true

dn: uid=d,dc=example,dc=com
objectClass: account
ds-pwp-account-disabled: TRUE
pwdAccountLockedTime: 20200101000000Z
`
	p := openMem(t)
	mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", text)}})
	got := export(t, p, bulk.ExportOptions{})
	for _, want := range kept {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, rec := range strings.Split(got, "\n\n") {
		name, _, _ := strings.Cut(rec, ",")
		want := strings.HasPrefix(name, "dn: uid=") && name != "dn: uid=b"
		if is := strings.Contains(rec, "\npwdAccountLockedTime: 000001010000Z"); is != want || strings.Contains(rec, "disabled: ") || strings.Contains(rec, "nsAccountLock: ") {
			t.Errorf("disabled %v:\n%s", is, rec)
		}
	}
}

// slapdModules are entries whose schema is defined by modules of slapd.
const slapdModules = `dn: cn=default,dc=example,dc=com
objectClass: person
objectClass: pwdPolicy
objectClass: pwdPolicyChecker
cn: default
sn: default
pwdAttribute: userPassword
pwdMaxAge: 0
pwdLockout: TRUE
pwdMaxFailure: 5
pwdMinDelay: 1
pwdMaxRecordedFailure: 9
pwdCheckModuleArg: x

dn: cn=token,dc=example,dc=com
objectClass: person
objectClass: oathTOTPParams
objectClass: oathTOTPToken
objectClass: oathTOTPUser
cn: token
sn: token
oathOTPLength: 6
oathHMACAlgorithm: 1.2.840.113549.2.7
oathTOTPTimeStepPeriod: 30
oathTOTPTimeStepWindow: 3
oathTOTPParams: cn=token,dc=example,dc=com
oathTOTPToken: cn=token,dc=example,dc=com
oathSecret: abc
oathTOTPLastTimeStep: 5
authzTo: {0}dn:cn=token,dc=example,dc=com
authzTo: {1}u:ann
authzFrom: {0}dn.regex:^cn=.*,dc=example,dc=com$
pwdReset: TRUE
pwdAccountLockedTime: 000001010000Z

`

// TestSlapcat imports an export of a real slapd. An export must then have the same values. It
// may also have superclasses that slapd's export does not name.
func TestSlapcat(t *testing.T) {
	slapadd, err := exec.LookPath("slapadd")
	if err != nil {
		if _, err = os.Stat("/usr/sbin/slapadd"); err != nil {
			t.Skip("slapadd is not installed")
		}
		slapadd = "/usr/sbin/slapadd"
	}
	slapcat := filepath.Join(filepath.Dir(slapadd), "slapcat")
	modules, _ := filepath.Glob("/usr/lib/*/ldap/back_mdb.so")
	modules = append(modules, "/usr/lib/ldap/back_mdb.so")
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "db"), 0o700))
	conf := file(t, "slapd.conf", `include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath `+filepath.Dir(modules[0])+`
moduleload back_mdb
moduleload ppolicy
moduleload otp
database mdb
suffix dc=example,dc=com
rootdn cn=admin,dc=example,dc=com
directory `+filepath.Join(dir, "db")+"\n")
	people := company(200) + `dn: cn=Jürgen Groß,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
cn: Jürgen Groß
cn;lang-de: Jürgen
sn: Groß
jpegPhoto:: /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP//////////////////////////////////////////////////////////////////////////////////////wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAA//EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AR//Z

`
	people += slapdModules
	if out, err := exec.Command(slapadd, "-q", "-f", conf, "-l", file(t, "in.ldif", people)).CombinedOutput(); err != nil {
		t.Fatalf("slapadd: %v\n%s", err, out)
	}
	out, err := exec.Command(slapcat, "-f", conf).Output()
	must(t, err)
	p := openLSM(t)
	mustImport(t, p, bulk.Options{Files: []string{"-"}, Stdin: bytes.NewReader(out)})
	exported := export(t, p, bulk.ExportOptions{})
	lines := map[string]int{}
	count := func(text string, by int) {
		for rec, err := range ldif.NewReader(strings.NewReader(text), ldif.Options{}).Records() {
			must(t, err)
			for _, a := range rec.Attributes {
				for _, v := range a.Values {
					lines[fmt.Sprintf("%s | %s: %s", rec.DN, a.Description, v)] += by
				}
			}
		}
	}
	count(string(out), 1)
	count(exported, -1)
	for line, n := range lines {
		if superclass := n < 0 && strings.Contains(line, "| objectClass: "); n != 0 && !superclass {
			t.Errorf("%+d %s", n, line)
		}
	}
	found := 0
	_, err = verify.Verify(context.Background(), p, verify.Options{Found: func(f *verify.Finding) error { found++; t.Error(f); return nil }})
	must(t, err)
}

func TestExportPart(t *testing.T) {
	p := openMem(t)
	mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", company(20))}})
	base, err := dn.Parse("ou=people,dc=example,dc=com")
	must(t, err)
	if got := names(export(t, p, bulk.ExportOptions{Base: base})); len(got) != 21 || got[0] != "ou=people,dc=example,dc=com" {
		t.Errorf("below a base: %q", got)
	}
	got := names(export(t, p, bulk.ExportOptions{Filter: filter.MustParse("(|(uid=u0000018)(uid=U0000019))")}))
	if len(got) != 2 {
		t.Errorf("by a filter: %q", got)
	}
}

func TestCreateFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "a.gz", "a.zst"} {
		path := filepath.Join(dir, name)
		w, finish, err := bulk.CreateFile(path)
		must(t, err)
		_, err = w.Write([]byte(company(1)))
		must(t, finish(err))
		p := openMem(t)
		if r := mustImport(t, p, bulk.Options{Files: []string{path}}); r.Done != 3 {
			t.Errorf("%s: %d", name, r.Done)
		}
	}
	w, finish, err := bulk.CreateFile(filepath.Join(dir, "b"))
	must(t, err)
	w.Write([]byte("half"))
	if err := finish(errors.New("cut short")); err == nil {
		t.Error("no error")
	}
	if left, _ := os.ReadDir(dir); len(left) != 3 {
		t.Errorf("left behind: %v", left)
	}
}

func TestChanges(t *testing.T) {
	changes := `dn: cn=new,ou=people,dc=example,dc=com
changetype: add
objectClass: organizationalRole

dn: uid=u0000001,ou=people,dc=example,dc=com
changetype: modify
replace: title
title: Boss
-
delete: mail
-

dn: uid=u0000002,ou=people,dc=example,dc=com
changetype: modrdn
newrdn: uid=renamed
deleteoldrdn: 1

dn: uid=u0000003,ou=people,dc=example,dc=com
changetype: moddn
newrdn: uid=u0000003
deleteoldrdn: 0
newsuperior: dc=example,dc=com

dn: uid=u0000004,ou=people,dc=example,dc=com
changetype: delete

`
	bad := "dn: uid=nobody,ou=people,dc=example,dc=com\nchangetype: delete\n\n"
	start := func() *partition.Partition {
		p := openMem(t)
		mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", company(5))}})
		return p
	}
	done := func(p *partition.Partition) bool {
		text := export(t, p, bulk.ExportOptions{})
		ns := names(text)
		return strings.Contains(text, "title: Boss") && slices.Contains(ns, "uid=renamed,ou=people,dc=example,dc=com") &&
			slices.Contains(ns, "uid=u0000003,dc=example,dc=com") && !slices.Contains(ns, "uid=u0000004,ou=people,dc=example,dc=com") &&
			slices.Contains(ns, "cn=new,ou=people,dc=example,dc=com")
	}
	p := start()
	if r := mustImport(t, p, bulk.Options{Files: []string{file(t, "c.ldif", changes)}}); r.Done != 5 || !done(p) {
		t.Errorf("%d changes; all there: %v", r.Done, done(p))
	}
	p = start()
	before := export(t, p, bulk.ExportOptions{})
	r := runImport(t, p, bulk.Options{Files: []string{file(t, "c.ldif", bad+changes)}})
	if !errors.Is(r.err, bulk.ErrBad) || r.Bad != 1 || export(t, p, bulk.ExportOptions{}) != before {
		t.Errorf("with a bad one: %v, %d bad", r.err, r.Bad)
	}
	rejects := filepath.Join(t.TempDir(), "r")
	r = runImport(t, p, bulk.Options{Files: []string{file(t, "c.ldif", bad+changes)}, Continue: true, Rejects: rejects})
	if !errors.Is(r.err, bulk.ErrBad) || r.Done != 5 || !done(p) {
		t.Errorf("going on: %v, %d done", r.err, r.Done)
	}
	left, err := os.ReadFile(rejects)
	must(t, err)
	if !strings.Contains(string(left), strings.TrimSpace(bad)) || !strings.HasPrefix(string(left), "# ") {
		t.Errorf("rejects: %s", left)
	}
}
