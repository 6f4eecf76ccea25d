package olc

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
)

var core = schema.Core()

func suffix() dn.DN {
	d, err := dn.Parse("dc=x")
	if err != nil {
		panic(err)
	}
	return d
}

// translated translates directives of the suffix dc=x. It returns, for each directive, the
// rules without their place, and then the class and the notes.
func translated(t *testing.T, texts ...string) string {
	t.Helper()
	var all []*Directive
	for _, s := range texts {
		d, err := Parse(s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		all = append(all, d)
	}
	var lines []string
	for _, d := range Translate(all, suffix(), &Options{Schema: core}) {
		for _, r := range d.Rules {
			if _, err := acl.NewSet(core, nil, []acl.Placed{r}); err != nil {
				t.Errorf("%s: %v", r, err)
			}
			lines = append(lines, strings.TrimPrefix(r.Rule.String(), "access-"))
		}
		lines = append(lines, strings.Join(append([]string{d.Class.String()}, d.Notes...), "; "))
	}
	return strings.Join(lines, "\n")
}

// TestTranslate checks the translation of directives of each form. The directives of a case
// are separated by semicolons. The constant entry is a directive that lets everybody read
// the pseudo-attribute entry, and shown is its translation.
func TestTranslate(t *testing.T) {
	const entry = ";to attrs=entry by * read"
	const shown = "\n1: allow everyone to see\nexact"
	one := func(who string) string { return "to attrs=cn by " + who + " read" + entry }
	cn := func(who, rest string) string { return "0: allow " + who + " to read cn" + rest + "\nexact" + shown }
	for _, c := range []struct{ text, want string }{
		// cases about the first match, levels and privileges
		{"to attrs=userPassword by self write by anonymous auth by * none;to * by self write by * read",
			"0: allow self to read, write userPassword\n0: allow everyone to bind\nexact\n" +
				"1: allow self to read, write *, +\n1: allow everyone to read *, +\nexact"},
		{"to * by users read", "0: allow users to read *, +\nexact"},
		{"to * by users =rs by * none", "0: allow users to show, search *, +\nexact"},
		{"to * by anonymous none by * read", "0: allow users to read *, +\nexact"},
		{"to * by dn.exact=\"cn=a,dc=x\" none by users read", "0: allow users except \"cn=a,dc=x\" to read *, +\nexact"},
		{"to * by users +r continue by ssf=128 +s", "0: allow users to show, search *, + if ssf 128\nexact"},
		{"to * by users read break;to * by self +w", "exact\n1: allow self to read, write *, +\nexact"},
		{"to attrs=cn by * none" + entry, "exact" + shown},
		{"to attrs=cn by users" + entry, "exact" + shown},
		// cases about the What of a directive
		{"to dn.subtree=\"ou=a,dc=x\" by * read", "0: allow everyone to read *, + in \"ou=a\"\n0: allow everyone to bind in \"ou=a\"\nexact"},
		{"to dn.exact=\"ou=a,dc=x\" by users read", "0: allow users to read *, + in only \"ou=a\"\nexact"},
		{"to dn=\"dc=x\" by users read", "0: allow users to read *, + in this\nexact"},
		{"to dn.one=\"ou=a,dc=x\" by users read", "0: allow users to read *, + in children \"ou=a\"\nexact"},
		{"to dn.children=\"dc=x\" by users read", "0: allow users to read *, + in below\nexact"},
		{"to dn.exact=\"\" by * read;to * by users read", "exact\n1: allow users to read *, +\nexact"},
		{"to dn.children=\"ou=a,dc=x\" by self read;to * by users read", "0: allow self to read *, + in below \"ou=a\"\nexact\n1: allow users to read *, + in (objectClass=*) except below \"ou=a\"\nexact"},
		{"to filter=(title=a) by users read", "0: allow users to read *, + in (title=a)\nexact"},
		{"to filter=(title=a) by users read;to * by self read", "0: allow users to read *, + in (title=a)\nexact\n1: allow self to read *, + in (objectClass=*) except (title=a)\nexact"},
		{"to dn.regex=\"^uid=[^,]+,ou=a,dc=x$\" by users read", "0: allow users to read *, + in only \"uid=*,ou=a\"\nexact"},
		{"to dn.regex=\".+,ou=a,dc=x$\" by users read", "0: allow users to read *, + in below \"ou=a\"\nexact"},
		{"to dn.regex=\"^(.+,)?ou=a,dc=x$\" by users read", "0: allow users to read *, + in \"ou=a\"\nexact"},
		{"to dn.regex=\"^uid=([^,]+),ou=a,dc=x$\" by dn.exact,expand=\"cn=$1,ou=b,dc=x\" read", "0: allow \"cn={t},ou=b,dc=x\" to read *, + in only \"uid={t},ou=a\"\nexact"},
		{"to dn.regex=\"^.*,ou=([^,]+),dc=x$\" by group.expand=\"cn=g,ou=$1,dc=x\" read", "0: allow group \"cn=g,ou={t},dc=x\" to read *, + in below \"ou={t}\"\nexact"},
		{"to dn.regex=\"^(uid=[^,]+,)?ou=a,dc=x$\" by users read", "not; the regular expression ^(uid=[^,]+,)?ou=a,dc=x$"},
		// cases about attributes
		{"to attrs=cn,sn by users read;to * by self read", "0: allow self to read cn, sn\nnear; compare and write are left out where the entry itself may not be read\n1: allow self to read *, + except cn, sn\nexact"},
		{"to attrs=title val=boss by self read;to * by users read", "0: allow self to read title=\"boss\"\nexact\n1: allow users to read *, + except title=\"boss\"\nexact"},
		{"to attrs=member by users selfwrite by * none;to attrs=entry by * read", "0: allow users to read, write member=self\nexact" + shown},
		{"to attrs=title val.regex=b by users read" + entry, "not; values of the style regex" + shown},
		{"to attrs=@uidObject by users read" + entry, "0: allow users to read uid, objectClass\nexact" + shown},
		{"to attrs=children,entry by users write", "0: allow users to see, add, delete\nexact"},
		// cases about the Whos of a directive
		{one("self"), cn("self", "")},
		{one("self.level{1}"), cn("its parent", "")},
		{one("dn.subtree=\"ou=a,dc=x\""), cn("\"ou=a,dc=x\", below \"ou=a,dc=x\"", "")},
		{one("dn.children=\"ou=a,dc=x\""), cn("below \"ou=a,dc=x\"", "")},
		{one("dn.regex=\"^uid=[^,]+,ou=a,dc=x$\""), cn("\"uid=*,ou=a,dc=x\"", "")},
		{one("dnattr=manager"), cn("its manager", "")},
		{one("group=\"cn=g,dc=x\""), cn("group \"cn=g,dc=x\"", "")},
		{one("group/groupOfUniqueNames/uniqueMember.exact=\"cn=g,dc=x\""), cn("group \"cn=g,dc=x\"", "")},
		{one("group/organizationalRole/roleOccupant=\"cn=g,dc=x\""), "not; a group by its attribute roleoccupant" + shown},
		{one("group=\"\""), "not; the group \"\"" + shown},
		{one("peername.ip=10.1.0.0%255.255.0.0"), cn("everyone", " if address 10.1.0.0/16")},
		{one("peername.regex=\"^IP=10\\.1\\..+\""), cn("everyone", " if address 10.1.0.0/16")},
		{one("peername.ip=10.1.0.0%255.0.255.0"), "not; rules have no word for peername.ip=10.1.0.0%255.0.255.0" + shown},
		{one("peername.ip=10.1.0.0%-1"), "not; rules have no word for peername.ip=10.1.0.0%-1" + shown},
		{one("sockurl=\"ldapi:///\""), cn("everyone", " if local")},
		{one("users ssf=128"), cn("users", " if ssf 128")},
		{one("tls_ssf=128"), cn("everyone", " if ssf 128 and not local")},
		{one("set=\"this/manager & user\""), cn("its manager", "")},
		{one("set=\"[cn=g,dc=x]/member* & user\""), cn("group \"cn=g,dc=x\"", "")},
		{one("set=\"user/title & [boss]\""), cn("below \"dc=x\" (title=boss)", "")},
		{one("set=\"this/ou & user/ou\""), cn("same ou", "")},
		{one("set=\"this/-1/owner & user\""), cn("its parent's owner", "")},
		{one("set=\"this & user & user\""), "not; set=\"this & user & user\"" + shown},
		{one("domain=example.com"), "not; rules have no word for domain=example.com" + shown},
	} {
		if got := translated(t, strings.Split(c.text, ";")...); got != c.want {
			t.Errorf("%s\nis\n%s\nand should be\n%s", c.text, got, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		text string
		at   int
		want string
	}{
		{"", 0, "expected to, not the end"},
		{"by * read", 0, `expected to, not "by"`},
		{"to", 2, "expected what the directive is about, not the end"},
		{"to *", 4, "expected by, not the end"},
		{"{1}to who by * read", 6, `expected *, dn, filter, attrs or by, not "who"`},
		{"to dn.sideways=dc=x by * read", 3, `the style "sideways"`},
		{"to dn=\"dc\" by * read", 3, `"dc" is not a DN`},
		{"to filter=(a by * read", 3, "malformed"},
		{"to attrs=a?b by * read", 3, `"a?b" is no attribute`},
		{"to * * by * read", 5, "a second *"},
		{"to * by read", 8, `expected who, not "read"`},
		{"to * by * reed", 10, `expected a level`},
		{"to * by * =rq", 10, `'q' is no privilege`},
		{"to * by * read halt", 15, "expected stop, continue, break or by"},
		{"to * by ssf=strong read", 8, `"strong" is no strength`},
		{"to * by \"users read", 8, "never closed"},
		{"to * by self.level{x} read", 8, `"x" is no level`},
		{"to * by group.one=\"cn=g\" read", 8, `a group has no style "one"`},
	} {
		_, err := Parse(c.text)
		var e *Error
		if !errors.As(err, &e) || e.Offset != c.at || !strings.Contains(e.Text, c.want) {
			t.Errorf("%s: %v; expected byte %d: %s", c.text, err, c.at, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{0}to dn.regex="^uid=([^,]+),ou=a,dc=x$" filter=(cn=a) attrs=cn,@person,!top by dn.exact,expand="uid=$1,dc=x" write by self selfwrite break by set="this/manager & user" +rs continue by peername.ip=10.0.0.0%8 ssf=1 read`)
	f.Add(`to attrs=title val="a b" by dnattr=member by group/groupOfNames/member.expand="cn=$1" =w stop by * none`)
	f.Add(`to dn.children="ou=a,dc=x" by peername.regex="IP=127\.0\.0\.1:.*" auth by tls_ssf=128 users read by self.level{1} manage`)
	f.Add(`to attrs=cn by group="" read by group.expand= write by group/"0="/a read`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse(text)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(text) || e.Text == "" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		other, _ := Parse(`to * by self write by users read`)
		for _, drafts := range Translate([]*Directive{d, other}, suffix(), &Options{Schema: core}) {
			for _, r := range drafts.Rules {
				if len(r.Rule.String()) > acl.MaxRule {
					continue
				}
				if again, err := acl.ParsePlaced(r.String()); err != nil {
					t.Fatalf("%q becomes %q: %v", text, r, err)
				} else if again.String() != r.String() {
					t.Fatalf("%q becomes %q, which is read as %q", text, r, again)
				}
			}
		}
	})
}
