package acl

import (
	"errors"
	"strings"
	"testing"
)

// rules are rules in the canonical spelling: printing such a rule returns the same text.
var rules = []string{
	`staff: allow users to read cn, sn, mail, telephoneNumber in (objectClass=person)`,
	`contact: allow self to write userPassword, telephoneNumber`,
	`join: allow users to write member=self in "ou=lists"`,
	`boss: allow its manager to read employeeNumber, to write title`,
	`helpdesk: allow group "cn=helpdesk,ou=groups,dc=example,dc=com" to write userPassword in "ou=people" except (employeeType=admin) if secure`,
	`tenants: allow group "cn=admins,ou={t},dc=example,dc=com" to edit, read in "ou={t}"`,
	`wages: deny everyone except group "cn=hr,ou=groups,dc=example,dc=com" to read employeeNumber`,
	`portal: allow "cn=portal,dc=example,dc=com" to proxy in "ou=people" if address 10.1.0.0/16`,
	`hours: deny users and below "ou=temps,dc=example,dc=com" (employeeType=temp) to bind if not time 08:00-18:00 Europe/Vienna and not day mon-fri`,
	`parents: allow its parent, its parent's owner, group its owner, group its parent, its superiors to see in this, only "ou=x", children "ou=y", below`,
	`same: allow same departmentNumber to read * except jpegPhoto, cn;lang-de`,
	`value: allow users to search, compare title="a \"b\" \\ c", mail(mail=*@example.com)`,
	`use: allow everyone to use * except 1.2.840.113556.1.4.805`,
	`local: allow everyone to manage if local and ssf 128 and mechanism external and not proxied`,
	`address: allow anonymous to read + if address 10.1.2.3 # from the monitoring`,
	`late: allow users to bind if time 22:00-24:00 UTC`,
}

func TestPrint(t *testing.T) {
	for _, s := range rules {
		r, err := Parse(s)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := r.String(); got != s {
			t.Errorf("%s\nis printed as\n%s", s, got)
		}
	}
}

func TestSpelling(t *testing.T) {
	for _, c := range [][2]string{
		{"a:ALLOW  Users\n to See,show,SEARCH,compare cn", `a: allow users to read cn`},
		{`a: allow users to insert, remove cn,sn,to see`, `a: allow users to write cn, sn, to see`},
		{`a: allow everyone to read if address ::ffff:10.0.0.1 # why  not`, `a: allow everyone to read if address 10.0.0.1 # why not`},
		{`a: allow everyone to read if address 10.1.2.3/8`, `a: allow everyone to read if address 10.0.0.0/8`},
	} {
		r, err := Parse(c[0])
		if err != nil {
			t.Error(err)
		} else if got := r.String(); got != c[1] {
			t.Errorf("%q is printed as %q, not %q", c[0], got, c[1])
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, c := range []struct {
		rule   string
		column int
		text   string
	}{
		{``, 1, "begins with its name"},
		{`allow users to read`, 1, "begins with its name"},
		{`ä: allow users to read`, 1, "name of a rule"},
		{`a: permit users to read`, 4, "expected allow or deny"},
		{`a: allow`, 9, "whom the rule is for"},
		{`a: allow admins to read`, 10, "whom the rule is for"},
		{`a: allow users`, 15, "expected to and a right"},
		{`a: allow users to`, 18, "expected a right"},
		{`a: allow users to peek`, 19, "expected a right"},
		{`a: allow users to read cn,`, 27, "expected an attribute"},
		{`a: allow users to read cn, in "ou=x"`, 28, "expected an attribute"},
		{`a: allow users to read cn sn`, 27, "the rule ends here"},
		{`a: allow users to read *=self`, 25, "not of *"},
		{`a: allow users to read member=me`, 31, "expected self or a value"},
		{`a: allow users to read in`, 26, "expected entries"},
		{`a: allow users to read in only`, 31, "name of the only entry"},
		{`a: allow users to read in this "ou=x"`, 32, "takes no name"},
		{`a: allow users to read in (cn=x`, 27, "never closed"},
		{`a: allow users to read in "ou=x`, 27, "never closed"},
		{`a: allow users to read in (cn)`, 27, "filter"},
		{`a: allow users to read if raining`, 27, "expected a condition"},
		{`a: allow users to read if ssf`, 30, "compared with"},
		{`a: allow users to read if ssf x`, 31, "no strength"},
		{`a: allow users to read if address host`, 35, "neither an address"},
		{`a: allow users to read if time 8-18 UTC`, 32, "no hours"},
		{`a: allow users to read if time 08:00-18:00`, 43, "time zone"},
		{`a: allow users to read if time 08:00-18:00 Mars`, 44, "not known"},
		{`a: allow users to read if day someday`, 31, "neither a day"},
		{`ä: x`, 1, "name"},
		{`a: allow "ü" § to read`, 14, "no meaning"},
		{`a: allow group its superiors to read`, 30, "no group"},
		{`a: allow below users to read`, 16, "in quotes"},
	} {
		_, err := Parse(c.rule)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v", c.rule, err)
		} else if e.Column != c.column || !strings.Contains(e.Text, c.text) {
			t.Errorf("%q: column %d: %s; expected column %d: %s", c.rule, e.Column, e.Text, c.column, c.text)
		}
	}
}

func TestRuleSize(t *testing.T) {
	if _, err := Parse("a: allow users to read # " + strings.Repeat("x", MaxRule)); err == nil {
		t.Error("a rule of more than 16 KiB is taken")
	}
}

// FuzzParse checks that printing a rule, parsing the text and printing the result returns
// the same text.
func FuzzParse(f *testing.F) {
	for _, s := range rules {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s)
		if err != nil {
			return
		}
		text := r.String()
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("%q is printed as %q: %v", s, text, err)
		}
		if again.String() != text {
			t.Fatalf("%q, then %q", text, again.String())
		}
	})
}
