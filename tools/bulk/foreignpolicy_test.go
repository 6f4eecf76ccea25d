package bulk_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

const defs389 = `dn: cn=Subschema
objectClass: subschema
attributeTypes: ( 2.16.840.1.113730.3.1.576 NAME 'cosAttribute' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )
attributeTypes: ( 2.16.840.1.113730.3.1.577 NAME 'cosTemplateDn' SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 SINGLE-VALUE )
attributeTypes: ( 2.16.840.1.113730.3.1.569 NAME 'cosPriority' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
objectClasses: ( 2.16.840.1.113719.2.142.6.1.1 NAME 'ldapSubEntry' SUP top STRUCTURAL MAY cn )
objectClasses: ( 2.16.840.1.113730.3.2.104 NAME 'nsContainer' SUP top STRUCTURAL MUST cn )
objectClasses: ( 2.16.840.1.113730.3.2.128 NAME 'costemplate' SUP top AUXILIARY MAY ( cn $ cosPriority ) )
objectClasses: ( 2.16.840.1.113730.3.2.126 NAME 'cosSuperDefinition' SUP top AUXILIARY MUST cosAttribute )
objectClasses: ( 2.16.840.1.113730.3.2.129 NAME 'cosPointerDefinition' SUP cosSuperDefinition AUXILIARY MAY cosTemplateDn )

`

const config389 = `dn: cn=config
objectClass: top
objectClass: extensibleObject
objectClass: nsslapdConfig
nsslapd-port: 389
nsslapd-pwpolicy-local: on
passwordLockout: on
passwordMaxFailure: 7
passwordStorageScheme: PBKDF2-SHA512
passwordDictCheck: on

`

const entries389 = `dn: dc=example,dc=com
objectClass: domain

dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit

dn: cn=nsPwPolicy_CoS,ou=people,dc=example,dc=com
objectClass: top
objectClass: ldapsubentry
objectClass: cosSuperDefinition
objectClass: cosPointerDefinition
cosTemplateDn: cn=cn\3DnsPwTemplateEntry\2Cou\3Dpeople\2Cdc\3Dexample\2Cdc\3Dcom,cn=nsPwPolicyContainer,ou=people,dc=example,dc=com
cosAttribute: pwdpolicysubentry default operational-default

dn: cn=nsPwPolicyContainer,ou=people,dc=example,dc=com
objectClass: top
objectClass: nsContainer

dn: cn=cn\3DnsPwTemplateEntry\2Cou\3Dpeople\2Cdc\3Dexample\2Cdc\3Dcom,cn=nsPwPolicyContainer,ou=people,dc=example,dc=com
objectClass: top
objectClass: extensibleObject
objectClass: costemplate
objectClass: ldapsubentry
cosPriority: 1
pwdpolicysubentry: cn=cn\3DnsPwPolicyEntry\2Cou\3Dpeople\2Cdc\3Dexample\2Cdc\3Dcom,cn=nsPwPolicyContainer,ou=people,dc=example,dc=com

dn: cn=cn\3DnsPwPolicyEntry\2Cou\3Dpeople\2Cdc\3Dexample\2Cdc\3Dcom,cn=nsPwPolicyContainer,ou=people,dc=example,dc=com
objectClass: top
objectClass: ldapsubentry
objectClass: passwordpolicy
passwordMustChange: on
passwordCheckSyntax: on
passwordMinLength: 11

dn: uid=a,ou=people,dc=example,dc=com
objectClass: account
passwordRetryCount: 3
accountUnlockTime: 20270101000000Z

`

// TestPoliciesOf389 checks that an import translates the password policies of 389
// Directory Server: the policy of cn=config becomes the default policy, and the policy of
// a subtree becomes a subentry. It also checks the notes.
func TestPoliciesOf389(t *testing.T) {
	p := openMem(t)
	r := mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", defs389+config389+entries389)}})
	got := exportAll(t, p, bulk.ExportOptions{})
	for _, want := range []string{
		"objectClass: directoryConfiguration\nobjectClass: pwdPolicy\n", "pwdMaxFailure: 7\n", "pwdLockoutDuration: 3600\n",
		"\ndn: cn=nsPwPolicy,ou=people,dc=example,dc=com\n", "subtreeSpecification: {}\n", "pwdMustChange: TRUE\n", "pwdMinLength: 11\n", "objectClass: device\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, not := range []string{"passwordRetryCount", "accountUnlockTime", "passwordMinLength", "passwordpolicy\n"} {
		if strings.Contains(got, not) {
			t.Errorf("%q in\n%s", not, got)
		}
	}
	for _, want := range []string{
		"the password policy of cn=config is taken without passwordDictCheck: pwdQuality: strength 3 or unlisted does it better",
		"attribute passwordRetryCount of another server is left out", "attribute accountUnlockTime of another server is left out",
		"password policies of 389 Directory Server that became policies of this server (pwdPolicy): 1",
	} {
		if !slices.Contains(r.notes, want) {
			t.Errorf("no note %q in\n%s", want, strings.Join(r.notes, "\n"))
		}
	}
	// An export of the result can be imported and exported without a change.
	copied := openMem(t)
	mustImport(t, copied, bulk.Options{Files: []string{file(t, "b.ldif", got)}})
	if again := exportAll(t, copied, bulk.ExportOptions{}); again != got {
		t.Errorf("imported again:\n%s\nwant\n%s", again, got)
	}
}

// TestTemplateThatIsMissing checks that the import writes a note about a subtree whose policy
// is missing.
func TestTemplateThatIsMissing(t *testing.T) {
	text := defs389 + strings.ReplaceAll(entries389, "cosTemplateDn: cn=cn", "cosTemplateDn: cn=other")
	r := mustImport(t, openMem(t), bulk.Options{Files: []string{file(t, "a.ldif", text)}})
	if !slices.ContainsFunc(r.notes, func(n string) bool {
		return strings.HasPrefix(n, "the password policy of the subtree ou=people,dc=example,dc=com is not in the file")
	}) {
		t.Errorf("notes: %q", r.notes)
	}
}

const overlay = `dn: olcOverlay={0}ppolicy,olcDatabase={1}mdb,cn=config
objectClass: olcPPolicyConfig
olcOverlay: {0}ppolicy
olcPPolicyDefault: cn=default,ou=policies,dc=example,dc=com

`

const entriesSlapd = `dn: dc=example,dc=com
objectClass: domain

dn: ou=policies,dc=example,dc=com
objectClass: organizationalUnit

dn: cn=default,ou=policies,dc=example,dc=com
objectClass: device
objectClass: pwdPolicy
pwdAttribute: userPassword
pwdLockout: TRUE
pwdMaxFailure: 4

dn: cn=strict,ou=policies,dc=example,dc=com
objectClass: device
objectClass: pwdPolicy
pwdAttribute: userPassword
pwdMaxFailure: 2

dn: uid=a,dc=example,dc=com
objectClass: account
pwdPolicySubentry: cn=strict,ou=policies,dc=example,dc=com

`

// TestPoliciesOfSlapd checks that the default policy of slapd's overlay becomes the
// directory's default policy, and that entries still name their own policies.
func TestPoliciesOfSlapd(t *testing.T) {
	p := openMem(t)
	mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", overlay+entriesSlapd)}})
	s := state.Newest(p)
	defer s.Close()
	d := s.Catalog.Policy
	if d == nil || len(d.Attributes) != 3 || d.Attributes[2].Name != "pwdMaxFailure" || d.Attributes[2].Values[0] != "4" {
		t.Errorf("the default: %+v", d)
	}
	if got := exportAll(t, p, bulk.ExportOptions{}); !strings.Contains(got, "\npwdPolicySubentry: cn=strict,ou=policies,dc=example,dc=com\n") {
		t.Errorf("%s", got)
	}
	for name, text := range map[string]string{
		"none of the entries": strings.ReplaceAll(entriesSlapd, "dn: cn=default", "dn: cn=other"),
		"cannot be":           strings.ReplaceAll(entriesSlapd, "pwdMaxFailure: 4", "pwdMaxFailure: 4\npwdMaxAge: 5\npwdMinAge: 6"),
	} {
		p := openMem(t)
		r := mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", overlay+text)}})
		if !slices.ContainsFunc(r.notes, func(n string) bool {
			return strings.Contains(n, `"cn=default,ou=policies,dc=example,dc=com"`) && strings.Contains(n, "keeps its own")
		}) {
			t.Errorf("%s: notes %q", name, r.notes)
		}
	}
}

// TestDefaultIsKept checks that a directory with entries keeps its default policy.
func TestDefaultIsKept(t *testing.T) {
	p := openMem(t)
	mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", config389+"dn: dc=example,dc=com\nobjectClass: domain\n\n")}})
	for _, text := range []string{
		strings.ReplaceAll(config389, "7", "9") + "dn: ou=x,dc=example,dc=com\nobjectClass: organizationalUnit\n\n",
		overlay + strings.TrimPrefix(entriesSlapd, "dn: dc=example,dc=com\nobjectClass: domain\n\n"),
	} {
		mustImport(t, p, bulk.Options{Files: []string{file(t, "b.ldif", text)}})
		s := state.Newest(p)
		if d := s.Catalog.Policy; d == nil || d.Attributes[2].Values[0] != "7" {
			t.Errorf("the default: %+v", d)
		}
		s.Close()
	}
}

// TestReferencesOfOthers checks that an import takes over the references of slapd's overlay
// refint and of 389's plug-in for referential integrity, beside the default password policy.
func TestReferencesOfOthers(t *testing.T) {
	const overlay = `dn: olcOverlay={1}refint,olcDatabase={1}mdb,cn=config
objectClass: olcOverlayConfig
objectClass: olcRefintConfig
olcOverlay: {1}refint
olcRefintAttribute: member seeAlso
olcRefintAttribute: manager

`
	plugin := func(state string) string {
		return `dn: cn=referential integrity postoperation,cn=plugins,cn=config
objectClass: nsSlapdPlugin
objectClass: extensibleObject
nsslapd-pluginEnabled: ` + state + `
referint-update-delay: 0
referint-membership-attr: seeAlso
referint-membership-attr: nsRoleThing
referint-membership-attr: member

`
	}
	const ppolicy = "dn: olcOverlay={0}ppolicy,olcDatabase={1}mdb,cn=config\nobjectClass: olcPPolicyConfig\nolcOverlay: {0}ppolicy\nolcPPolicyDefault: cn=p,dc=example,dc=com\n\n"
	const entries = "dn: dc=example,dc=com\nobjectClass: domain\n\n"
	for name, c := range map[string]struct {
		text, note string
		want       []string
	}{
		"slapd":          {overlay + entries, "", []string{"member", "seeAlso", "manager"}},
		"with a policy":  {ppolicy + overlay + entries, "cn=p,dc=example,dc=com", []string{"member", "seeAlso", "manager"}},
		"389":            {plugin("on") + entries, "nsRoleThing", []string{"seeAlso", "member"}},
		"a policy first": {config389 + plugin("on") + entries, "nsRoleThing", []string{"seeAlso", "member"}},
		"switched off":   {plugin("off") + entries, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := openMem(t)
			r := mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", c.text)}})
			all, err := onlineschema.References(p)
			must(t, err)
			var got []string
			for _, x := range all {
				got = append(got, x.Attribute)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("references: %q", got)
			}
			if notes := strings.Join(r.notes, "\n"); !strings.Contains(notes, c.note) {
				t.Errorf("notes: %s", notes)
			}
		})
	}
}

// TestUniqueOfOthers checks that an import makes unique what slapd's overlay unique and 389's plug-in make unique,
// and notes what cannot be so here.
func TestUniqueOfOthers(t *testing.T) {
	slapd := func(lines string) string {
		return "dn: olcOverlay={2}unique,olcDatabase={1}mdb,cn=config\nobjectClass: olcUniqueConfig\nolcOverlay: {2}unique\n" + lines + "\n"
	}
	plugin := func(lines string) string {
		return "dn: cn=attribute uniqueness,cn=plugins,cn=config\nobjectClass: nsSlapdPlugin\nnsslapd-pluginPath: libattr-unique-plugin\n" + lines + "\n"
	}
	const entries = `dn: dc=example,dc=com
objectClass: domain

dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit

dn: uid=a,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
cn: A
sn: A
mail: same@example.com
employeeNumber: 1

dn: uid=b,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
cn: B
sn: B
mail: same@example.com
employeeNumber: 2
`
	for name, c := range map[string]struct {
		text string
		want []string
		note string
	}{
		"slapd":           {slapd("olcUniqueURI: ldap:///ou=people,dc=example,dc=com?uid,employeeNumber?sub\nolcUniqueURI: strict ldap:///?telephoneNumber?sub\n"), []string{"uid ou=people,dc=example,dc=com", "employeeNumber ou=people,dc=example,dc=com", "telephoneNumber"}, ""},
		"older slapd":     {slapd("olcUniqueBase: ou=people,dc=example,dc=com\nolcUniqueAttribute: uid employeeNumber\n"), []string{"uid ou=people,dc=example,dc=com", "employeeNumber ou=people,dc=example,dc=com"}, ""},
		"equal values":    {slapd("olcUniqueURI: ldap:///?mail?sub\nolcUniqueURI: ldap:///?uid?sub\n"), []string{"uid"}, "values of mail are unique there, and not here: mail is not unique"},
		"one level":       {slapd("olcUniqueURI: ldap:///ou=people,dc=example,dc=com?uid?one\n"), nil, "for one level"},
		"a filter":        {slapd("olcUniqueURI: ldap:///?uid?sub?(objectClass=person)\n"), nil, "match a filter"},
		"all but some":    {slapd("olcUniqueURI: ignore ldap:///?uid?sub\n"), nil, "all attributes but some"},
		"no such base":    {slapd("olcUniqueURI: ldap:///ou=nowhere,dc=example,dc=com?uid?sub\n"), nil, "below ou=nowhere,dc=example,dc=com, and not here"},
		"unknown":         {slapd("olcUniqueURI: ldap:///?nothingKnown?sub\n"), nil, "nothingKnown"},
		"389":             {plugin("nsslapd-pluginEnabled: on\nuniqueness-attribute-name: uid\nuniqueness-subtrees: dc=example,dc=com\nuniqueness-across-all-subtrees: off\n"), []string{"uid dc=example,dc=com"}, ""},
		"several":         {plugin("nsslapd-pluginEnabled: on\nuniqueness-attribute-name: uid\nuniqueness-subtrees: dc=example,dc=com\nuniqueness-subtrees: ou=people,dc=example,dc=com\nuniqueness-across-all-subtrees: on\n"), []string{"uid dc=example,dc=com", "uid ou=people,dc=example,dc=com"}, "over all of them there"},
		"389, restricted": {plugin("nsslapd-pluginEnabled: on\nuniqueness-attribute-name: uid\nuniqueness-subtrees: dc=example,dc=com\nuniqueness-subtree-entries-oc: person\n"), nil, "uniqueness-subtree-entries-oc"},
		"switched off":    {plugin("nsslapd-pluginEnabled: off\nuniqueness-attribute-name: uid\nuniqueness-subtrees: dc=example,dc=com\n"), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := openMem(t)
			r := mustImport(t, p, bulk.Options{Files: []string{file(t, "a.ldif", c.text+entries)}})
			all, err := onlineschema.Unique(p)
			must(t, err)
			s := state.Newest(p)
			defer s.Close()
			var got []string
			for _, u := range all {
				if got = append(got, u.Attribute); u.Base != entry.Root {
					base, err := s.Name(context.Background(), u.Base)
					must(t, err)
					got[len(got)-1] += " " + base.String()
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("unique: %q", got)
			}
			if notes := strings.Join(r.notes, "\n"); !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
				t.Errorf("notes: %s", notes)
			}
		})
	}
}
