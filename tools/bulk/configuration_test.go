package bulk_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// configured returns a directory with a shared configuration that differs from the
// default.
func configured(t *testing.T) *partition.Partition {
	t.Helper()
	ctx := context.Background()
	p := openMem(t)
	must(t, onlineschema.AddSuffixes(ctx, p, []string{"o=empty"}))
	mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", company(3))}, Suffixes: []string{"dc=example,dc=com"}})
	must(t, onlineschema.SetIndexes(ctx, p, []catalog.Index{{Attribute: "uid", Layout: catalog.ColumnLayout}, {Attribute: "mail", Layout: catalog.ColumnLayout}, {Attribute: "title", Layout: catalog.RowLayout}, {Attribute: "manager", Layout: catalog.ColumnLayout}, {Attribute: "seeAlso", Layout: catalog.ColumnLayout}}))
	must(t, onlineschema.SetUnique(ctx, p, []catalog.Unique{catalog.Unique{Attribute: "uid"}}, true))
	s := state.Newest(p)
	defer s.Close()
	name, err := dn.Parse("ou=people,dc=example,dc=com")
	must(t, err)
	at, err := s.Find(ctx, name)
	must(t, err)
	must(t, onlineschema.SetUnique(ctx, p, []catalog.Unique{catalog.Unique{Attribute: "mail", Base: at.ID}}, true))
	must(t, onlineschema.SetReferences(ctx, p, []catalog.Reference{catalog.Reference{Attribute: "manager"}}, true))
	must(t, onlineschema.SetReferences(ctx, p, []catalog.Reference{catalog.Reference{Attribute: "seeAlso", MustExist: true}}, true))
	must(t, onlineschema.SetPolicy(ctx, p, partition.By{}, func(*partition.Snapshot, []catalog.PolicyAttribute) ([]catalog.PolicyAttribute, error) {
		return []catalog.PolicyAttribute{{Name: "pwdAttribute", Values: []string{"userPassword"}}, {Name: "pwdQuality", Values: []string{"classes 3", "upper 1"}}}, nil
	}))
	return p
}

// TestConfigurationComesBack checks that an export contains the shared configuration,
// and that an import of the export restores it.
func TestConfigurationComesBack(t *testing.T) {
	p := configured(t)
	text := exportAll(t, p, bulk.ExportOptions{})
	for _, want := range []string{"\ndn: cn=config\n", "\nnamingContexts: o=empty\n", "\nindex: title row\n", "\nunique: uid\n", "\nunique: mail ",
		"\nreference: manager\n", "\nreference: seeAlso mustExist\n",
		"\nobjectClass: pwdPolicy\n", "\npwdQuality: classes 3\npwdQuality: upper 1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%.800s", want, text)
		}
	}
	for name, o := range map[string]bulk.Options{
		"file":  {Files: []string{file(t, "a.ldif", text)}},
		"stdin": {Files: []string{"-"}, Stdin: strings.NewReader(text)},
	} {
		copied := openMem(t)
		mustImport(t, copied, o)
		if got := exportAll(t, copied, bulk.ExportOptions{}); got != text {
			t.Errorf("%s: exported again:\n%.800s\nwant\n%.800s", name, got, text)
		}
		twin := "dn: uid=other,ou=people,dc=example,dc=com\nobjectClass: inetOrgPerson\ncn: x\nsn: x\nmail: u0000000@example.com\n"
		if r := runImport(t, copied, bulk.Options{Files: []string{file(t, "b.ldif", twin)}}); r.err == nil {
			t.Errorf("%s: mail is not unique", name)
		}
	}
	for name, o := range map[string]bulk.ExportOptions{"of a part": {Base: mustDN(t, "ou=people,dc=example,dc=com")}, "without": {NoConfig: true}} {
		if text := exportAll(t, p, o); strings.Contains(text, "cn=config") {
			t.Errorf("%s: %.300s", name, text)
		}
	}
}

func mustDN(t *testing.T, text string) dn.DN {
	t.Helper()
	name, err := dn.Parse(text)
	must(t, err)
	return name
}

// TestConfigurationHoldsItsOwnEntries checks that values must also be unique among the
// records of the import that makes them unique.
func TestConfigurationHoldsItsOwnEntries(t *testing.T) {
	text := exportAll(t, configured(t), bulk.ExportOptions{})
	text = strings.Replace(text, "mail: u0000002@example.com", "mail: u0000001@example.com", 1)
	p := openMem(t)
	before := exportAll(t, p, bulk.ExportOptions{})
	r := runImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", text)}})
	if r.err == nil || len(r.bad) != 1 || !strings.Contains(r.bad[0].Text, "mail") {
		t.Errorf("%v\n%s", r.err, r.reports())
	}
	if after := exportAll(t, p, bulk.ExportOptions{}); after != before {
		t.Errorf("left behind:\n%s", after)
	}
}

// TestConfigurationOfADirectoryInUse checks that a directory with entries receives the
// settings that it lacks, and keeps the settings that it has.
func TestConfigurationOfADirectoryInUse(t *testing.T) {
	p := openMem(t)
	mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", company(3))}})
	n := len(p.Config().Indexes)
	r := mustImport(t, p, bulk.Options{Files: []string{file(t, "b.ldif", `dn: cn=config
objectClass: directoryConfiguration
namingContexts: o=other
index: uid row
index: title row
unique: uid
unique: mail 3f2504e0-4f89-11d3-9a0c-0305e82c3302 ou=people,dc=example,dc=com
reference: member

dn: o=other
objectClass: organization

`)}})
	c := p.Config()
	if len(c.Indexes) != n+1 || !slices.Contains(c.Indexes, catalog.Index{Attribute: "title", Layout: catalog.RowLayout}) || len(c.Suffixes) != 2 {
		t.Errorf("%+v", c)
	}
	if len(r.notes) != 1 || !strings.Contains(r.notes[0], "uid keeps its layout column") {
		t.Errorf("notes: %q", r.notes)
	}
	us, err := onlineschema.Unique(p)
	must(t, err)
	s := state.Newest(p)
	defer s.Close()
	at, err := s.Find(context.Background(), mustDN(t, "ou=people,dc=example,dc=com"))
	must(t, err)
	if len(us) != 2 || !slices.Contains(us, catalog.Unique{Attribute: "mail", Base: at.ID}) {
		t.Errorf("unique: %+v", us)
	}
	if all, err := onlineschema.References(p); err != nil || !slices.Equal(all, []catalog.Reference{{Attribute: "member"}}) {
		t.Errorf("references: %+v, %v", all, err)
	}
}

// TestBadConfigurations checks that an invalid configuration changes nothing, and that the
// error contains the position of the configuration.
func TestBadConfigurations(t *testing.T) {
	const entries = "\ndn: dc=example,dc=com\nobjectClass: domain\n\ndn: uid=a,dc=example,dc=com\nobjectClass: account\n"
	for name, c := range map[string]struct{ record, want string }{
		"an index of nothing":      {"index: colour column\n", `attribute type "colour" is not in the schema`},
		"an unknown layout":        {"index: uid tall\n", `"tall"`},
		"no layout":                {"index: uid\n", "index: uid: expected an attribute and its layout"},
		"no name":                  {"namingContexts: x\n", "namingContexts: x:"},
		"unique without index":     {"index: cn column\nunique: uid\n", "uid has no index"},
		"unique below nothing":     {"unique: uid x\n", "unique: uid x:"},
		"a reference that is none": {"index: mail row\nreference: mail\n", "are not names of entries"},
		"a reference of what":      {"index: member row\nreference: member always\n", "expected an attribute, and perhaps mustExist"},
		"another attribute":        {"olcThreads: 8\n", "olcThreads: 8: not an attribute of cn=config"},
		"a policy of no class":     {"pwdMaxFailure: 3\n", "pwdMaxFailure is allowed only with objectClass pwdPolicy"},
		"a policy of nothing":      {"objectClass: pwdPolicy\npwdMaxFailure: 3\n", "requires pwdAttribute"},
		"a policy for some":        {"objectClass: pwdPolicy\npwdAttribute: userPassword\npwdPolicyFor: users\n", "pwdPolicyFor: the default policy is for all"},
		"an impossible policy":     {"objectClass: pwdPolicy\npwdAttribute: userPassword\npwdMaxFailure: many\n", "pwdMaxFailure:"},
		"two mistakes":             {"index: uid\nindex: cn\n", "index: cn: expected"},
		"good, but the entries":    {"objectClass: pwdPolicy\npwdAttribute: userPassword\nindex: uid row\nindex: title row\nunique: uid\nindex: member column\nreference: member mustExist\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := openMem(t)
			before := exportAll(t, p, bulk.ExportOptions{})
			text := "dn: cn=config\nobjectClass: directoryConfiguration\n" + c.record + entries
			if c.want == "" {
				text += "\ndn: uid=b,dc=nowhere\nobjectClass: account\n"
			}
			r := runImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", text)}})
			if r.err == nil || !strings.Contains(r.err.Error(), c.want) || c.want != "" && !strings.Contains(r.err.Error(), "a.ldif:1: ") {
				t.Errorf("%v", r.err)
			}
			if after := exportAll(t, p, bulk.ExportOptions{}); after != before {
				t.Errorf("left behind:\n%s", after)
			}
		})
	}
	t.Run("late", func(t *testing.T) {
		p := openMem(t)
		r := runImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", entries[1:]+"\ndn: cn=config\nobjectClass: directoryConfiguration\n")}})
		if r.err == nil || !strings.Contains(r.reports(), "must come before all entries") {
			t.Errorf("%v %s", r.err, r.reports())
		}
	})
}

// TestConfigurationBesideDefinitions checks that definitions and configuration may come
// in either order. The configuration has an index of an attribute that the same import
// defines.
func TestConfigurationBesideDefinitions(t *testing.T) {
	const (
		definitions   = "dn: cn=Subschema\nobjectClass: subschema\nattributeTypes: ( 2.25.1.1 NAME 'floors' EQUALITY integerMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )\n\n"
		configuration = "dn: cn=config\nobjectClass: directoryConfiguration\nindex: floors column\nunique: floors\n\n"
		entries       = "dn: dc=example,dc=com\nobjectClass: domain\nobjectClass: extensibleObject\nfloors: 3\n\n"
	)
	for _, head := range []string{definitions + configuration, configuration + definitions} {
		p := openMem(t)
		mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", head+entries)}})
		us, err := onlineschema.Unique(p)
		must(t, err)
		if len(us) != 1 || us[0].Attribute != "floors" {
			t.Errorf("%+v", us)
		}
	}
	p := openMem(t)
	before := exportAll(t, p, bulk.ExportOptions{})
	if r := runImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", definitions+configuration+entries+"dn: x\n")}}); r.err == nil {
		t.Error("imported")
	}
	if after := exportAll(t, p, bulk.ExportOptions{}); after != before {
		t.Errorf("left behind:\n%s", after)
	}
}
