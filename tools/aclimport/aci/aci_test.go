package aci

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
)

var core = schema.Core()

func mustName(s string) dn.DN {
	d, err := dn.Parse(s)
	if err != nil {
		panic(err)
	}
	return d
}

// translated translates a value at dc=x. It returns one line for each rule, without the place
// of the rule, and then the class, the notes, and "more" if More is set.
func translated(t *testing.T, value string, o Options) string {
	t.Helper()
	a, err := Parse(value)
	if err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	o.Schema = core
	d := Translate(a, mustName("dc=x"), &o)
	var lines []string
	for _, r := range d.Rules {
		if _, err := acl.NewSet(core, nil, []acl.Placed{r}); err != nil {
			t.Errorf("%s: %v", r, err)
		}
		lines = append(lines, r.Rule.String())
	}
	lines = append(lines, d.Class.String())
	lines = append(lines, d.Notes...)
	if d.More {
		lines = append(lines, "more")
	}
	return strings.Join(lines, "\n")
}

const (
	anyone = ` userdn="ldap:///anyone"`
	body   = `(version 3.0; acl "r"; allow (read)` + anyone + `;)`
)

// TestTranslate checks the translation of values of each form. A case that names a dialect
// is checked in this dialect, and other cases in both.
func TestTranslate(t *testing.T) {
	vienna, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	of := func(targets, rest string) string { return targets + `(version 3.0; acl "r"; ` + rest + `;)` }
	cn := func(bind string) string { return of(`(targetattr="cn")`, "allow (read) "+bind) }
	for _, c := range []struct{ value, want string }{
		// cases about attributes
		{`389 (targetattr="*")` + body, "r: allow everyone to show *, +\nexact"},
		{`opendj (targetattr="*")` + body, "r: allow everyone to show *\nexact"},
		{`opendj (targetattr="* || +")` + body, "r: allow everyone to show *, +\nexact"},
		{`389 (targetattr!="userPassword || cn")` + body, "r: allow everyone to show *, + except userPassword, cn\nexact"},
		{`opendj (targetattr!="userPassword || cn")` + body, "r: allow everyone to show * except userPassword, cn\nexact"},
		{`opendj (targetattr!="modifyTimestamp")` + body, "r: allow everyone to show + except modifyTimestamp\nexact"},
		{`(targetattr=cn)` + body, "r: allow everyone to show cn\nexact"},
		{`(targetattr="cn" || "sn;lang-de")` + body, "r: allow everyone to show cn, sn;lang-de\nexact"},
		{`389 (targetattr="telephoneN*")` + body, "r: allow everyone to show telephoneNumber\nnear\ntelephoneN* stands for the attributes that match it in the present schema"},
		{`(targetattr="keys;read_keys")` + body, "not\nkeys;read_keys is no attribute description (RFC 4512, 2.5), so that no entry has it here"},
		{body, "exact"}, // about no attributes
		// cases about rights
		{of(`(targetattr="cn")`, "allow (read, search, compare)"+anyone), "r: allow everyone to read cn\nexact"},
		{of(`(targetattr="cn")`, "allow (search, compare, write)"+anyone), "r: allow everyone to find, write cn\nexact"},
		{of(`(targetattr="member || cn")`, "allow (selfwrite)"+anyone), "r: allow everyone to write member=self\nexact"},
		{of("", "allow (add, delete)"+anyone), "r: allow everyone to add, delete\nexact"},
		{of(`(targetattr="* || +")`, "allow (all)"+anyone), "r: allow everyone to read, write *, +, to add, delete, rename\nexact"},
		{of(`(targetattr="* || +")`, "deny (all)"+anyone), "r: deny everyone to read, write *, +, to see, add, delete, rename\nexact"},
		{of("", "deny (read)"+anyone), "r: deny everyone to see\nnear\nit hides the entry there, and leaves the attributes to who knows its name"},
		{"389 " + of("", "allow (proxy)"+anyone), "r: allow everyone to proxy\nnear\nproxy is asked for at the entry that one acts as, not at the entries of the operation"},
		{"opendj " + of("", "allow (proxy)"+anyone), "r: allow everyone to proxy\nexact"},
		{"opendj " + of("", "allow (import, export)"+anyone), "r: allow everyone to move\nr: allow everyone to receive\nexact"},
		{"389 " + of(`(target_from="ldap:///ou=a,dc=x")`, "allow (moddn)"+anyone), "r: allow everyone to move in \"ou=a\"\nr: allow everyone to receive\nnear\nentries are moved from below the entry of the aci only"},
		{"389 " + of(`(target_from="ldap:///ou=a,dc=x")(target_to="ldap:///ou=b,dc=x")`, "allow (moddn)"+anyone), "not\nthe rule cannot tell moves between two places from moves between others"},
		// cases about values
		{of(`(targattrfilters="add=title:(title=a), del=title:(title=b)")`, "allow (write)"+anyone), "r: allow everyone to insert title(title=a), to remove title(title=b)\nexact"},
		{of(`(targetattr="title || sn")(targattrfilters="add=title:(title=a)")`, "allow (write)"+anyone), "r: allow everyone to insert sn except title, to insert title(title=a), to remove title, sn\nexact"},
		{of(`(targattrfilters="add=title:(title=a)")`, "allow (add)"+anyone), "not\nentries of which every value matches targattrfilters cannot be added or deleted by it\nnothing is left of it"},
		// cases about entries
		{`(target="ldap:///ou=a, dc=x")(targetattr="cn")` + body, "r: allow everyone to show cn in \"ou=a\"\nexact"},
		{`(target!="ldap:///ou=a,dc=x")(targetattr="cn")` + body, "r: allow everyone to show cn in (objectClass=*) except \"ou=a\"\nexact"},
		{`(target="ldap:///dc=x")(targetattr="cn")` + body, "r: allow everyone to show cn\nexact"},
		{`(target="ldap:///dc=y")(targetattr="cn")` + body, "exact\nits target is not below its entry, so that it is about no entry"},
		{`opendj (target="ldap:///uid=*,ou=a,dc=x")(targetattr="cn")` + body, "r: allow everyone to show cn in \"uid=*,ou=a\"\nexact"},
		{`389 (target="ldap:///uid=*,ou=a,dc=x")(targetattr="cn")` + body, "r: allow everyone to show cn in \"uid=*,ou=a\"\nnear\n* in the target \"uid=*,ou=a,dc=x\" matches commas there, so that entries at other depths match too"},
		{`389 (target="ldap:///*,ou=a,dc=x")(targetattr="cn")` + body, "r: allow everyone to show cn in below \"ou=a\"\nexact"},
		{`opendj (target="ldap:///**,ou=a,dc=x")(targetattr="cn")` + body, "r: allow everyone to show cn in below \"ou=a\"\nexact"},
		{`opendj (target="ldap:///uid=a,**,dc=x")(targetattr="cn")` + body, "not\nits target \"uid=a,**,dc=x\" has wildcards that the names in rules do not have"},
		{`opendj (targetscope="onelevel")(targetattr="cn")` + body, "r: allow everyone to show cn in children\nexact"},
		{`opendj (target="ldap:///ou=a,dc=x")(targetscope="base")(targetattr="cn")` + body, "r: allow everyone to show cn in only \"ou=a\"\nexact"},
		{`opendj (targetscope="base")(targetattr="cn")` + body, "r: allow everyone to show cn in this\nexact"},
		{`opendj (target="ldap:///uid=*,dc=x")(targetscope="onelevel")(targetattr="cn")` + body, "r: allow everyone to show cn in only \"uid=*\"\nexact"},
		{`(targetfilter="(title=a)")(targetattr="cn")` + body, "r: allow everyone to show cn in (title=a)\nexact"},
		{`(targetfilter!=title=a)(targetattr="cn")` + body, "r: allow everyone to show cn in (objectClass=*) except (title=a)\nexact"},
		{`opendj (targetcontrol="1.2.3 || 1.2.4")` + body, "r: allow everyone to use 1.2.3, 1.2.4\nexact"},
		{`opendj (extop="1.2.5")` + body, "r: allow everyone to use 1.2.5\nexact"},
		// cases about identities
		{cn(`userdn="ldap:///self"`), "r: allow self to show cn\nexact"},
		{cn(`userdn="ldap:///parent"`), "r: allow its parent to show cn\nexact"},
		{cn(`userdn="ldap:///all"`), "r: allow users to show cn\nexact"},
		{cn(`userdn!="ldap:///all"`), "r: allow anonymous to show cn\nexact"},
		{cn(`userdn="ldap:///uid=a,dc=x || ldap:///uid=b,dc=x"`), "r: allow \"uid=a,dc=x\", \"uid=b,dc=x\" to show cn\nexact"},
		{cn(`userdn="ldap:///uid=a,dc=x" || "ldap:///uid=b,dc=x"`), "r: allow \"uid=a,dc=x\", \"uid=b,dc=x\" to show cn\nexact"},
		{"opendj " + cn(`userdn="ldap:///uid=*,dc=x"`), "r: allow \"uid=*,dc=x\" to show cn\nexact"},
		{"389 " + of(`(targetattr="cn")`, `deny (read) userdn="ldap:///uid=*,dc=x"`), "r: deny below \"dc=x\" to show cn\nnear\n* in the userdn \"uid=*,dc=x\" matches commas there, so that users at other depths match too"},
		{cn(`userdn="ldap:///dc=x??sub?(title=a)"`), "r: allow below \"dc=x\" (title=a) to show cn\nnear\nthe entry dc=x itself is left out"},
		{cn(`userdn="ldap:///dc=x??sub?"`), "r: allow \"dc=x\", below \"dc=x\" to show cn\nexact"},
		{cn(`groupdn="ldap:///cn=g,dc=x" and userdn!="ldap:///uid=a,dc=x"`), "r: allow group \"cn=g,dc=x\" except \"uid=a,dc=x\" to show cn\nexact"},
		{cn(`userattr="manager#USERDN"`), "r: allow its manager to show cn\nexact"},
		{cn(`userattr="parent[0,1].owner#GROUPDN"`), "r: allow group its owner, group its parent's owner to show cn\nexact"},
		{cn(`userattr="parent[0,2].owner#USERDN"`), "r: allow its owner to show cn\nnear\nwhom an entry 2 levels above names"},
		{cn(`userattr="title#boss"`), "r: allow below \"dc=x\" (title=boss) to show cn in (title=boss)\nexact"},
		{cn(`userdnattr="manager" or groupdnattr="owner"`), "r: allow its manager, group its owner to show cn\nexact"},
		{cn(`roledn="ldap:///cn=r,dc=x"`), "not\nrules have no word for roledn"},
		{of(`(targetattr="cn")`, `deny (read) roledn="ldap:///cn=r,dc=x"`), "not\nrules have no word for roledn\na denial is missing\nmore"},
		{of(`(targetattr="cn")`, `deny (read) groupdn="ldap:///cn=g,dc=x" and dns="*.x.com"`), "r: deny group \"cn=g,dc=x\" to show cn\nnear\nrules have no word for dns"},
		{of("", `allow (add) userattr="manager#USERDN"`), "exact"},
		// cases about connections
		{cn(`ip="10.1.*"`), "r: allow everyone to show cn if address 10.1.0.0/16\nexact"},
		{cn(`ip="10.1.0.0+255.255.0.0,2001:db8::/32"`), "r: allow everyone to show cn if address 10.1.0.0/16\nr: allow everyone to show cn if address 2001:db8::/32\nexact"},
		{cn(`ip="10.1.0.0+255.0.255.0"`), "not\nthe address \"10.1.0.0+255.0.255.0\""},
		{cn(`ip!="10.1.2.3" and userdn="ldap:///all"`), "r: allow users to show cn if not address 10.1.2.3\nexact"},
		{cn(`timeofday >= "0800" and timeofday < "1800"`), "r: allow everyone to show cn if time 08:00-24:00 Europe/Vienna and time 00:00-18:00 Europe/Vienna\nexact"},
		{cn(`dayofweek="Sun"`), "r: allow everyone to show cn if day sun\nexact"},
		{cn(`authmethod="simple"`), "r: allow users to show cn if mechanism simple\nexact"},
		{cn(`authmethod="sasl GSSAPI"`), "r: allow everyone to show cn if mechanism gssapi\nexact"},
		{cn(`authmethod="ssl"`), "r: allow everyone to show cn if mechanism external and not local\nexact"},
		{cn(`authmethod="none"`), "r: allow everyone to show cn\nexact"},
		{cn(`ssf>="128"`), "r: allow everyone to show cn if ssf 128\nexact"},
		{cn(`ssf="56"`), "r: allow everyone to show cn if ssf 56 and not ssf 57\nexact"},
		{cn(`secure="false"`), "r: allow everyone to show cn if not secure\nexact"},
		// cases about combinations of bind rules
		{cn(`not (userdn="ldap:///self" or groupdn="ldap:///cn=g,dc=x")`), "r: allow everyone except self, group \"cn=g,dc=x\" to show cn\nexact"},
		{cn(`userdn="ldap:///self" and ip="10.1.2.3" or ssf="0"`), "r: allow self to show cn if address 10.1.2.3\nr: allow self to show cn if not ssf 1\nexact"},
		// cases about macros
		{`(target="ldap:///ou=g,($dn),dc=x")` + cn(`groupdn="ldap:///cn=a,ou=g,[$dn],dc=x"`), "r: allow group \"cn=a,ou=g,dc={t},dc=x\" to show cn in \"ou=g,dc={t}\"\n" +
			"r: allow group \"cn=a,ou=g,o={t},dc=x\" to show cn in \"ou=g,o={t}\"\nr: allow group \"cn=a,ou=g,ou={t},dc=x\" to show cn in \"ou=g,ou={t}\"\nnear\n($dn) is one RDN of dc, o, ou"},
		{cn(`userdn="ldap:///uid=($attr.cn),dc=x"`), "not\na macro in userdn \"uid=($attr.cn),dc=x\""},
	} {
		dialects := []Dialect{DS389, OpenDJ}
		value, ok := strings.CutPrefix(c.value, "389 ")
		if ok {
			dialects = dialects[:1]
		} else if value, ok = strings.CutPrefix(c.value, "opendj "); ok {
			dialects = dialects[1:]
		}
		for _, d := range dialects {
			if got := translated(t, value, Options{Dialect: d, Zone: vienna}); got != c.want {
				t.Errorf("%s\nis\n%s\nand should be\n%s", c.value, got, c.want)
			}
		}
	}
}

func TestReserved(t *testing.T) {
	got := translated(t, `(targetattr="*")(version 3.0; acl "r"; deny (read)`+anyone+`;)`, Options{Mentioned: []string{"userPassword"}})
	if want := "r: deny everyone to show *, +, userPassword\nexact"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	got = translated(t, `(targetattr="*")`+body, Options{Reserved: true})
	if !strings.Contains(got, "pwdHistory") || !strings.Contains(got, "userPassword") || strings.Contains(got, "accessRule") {
		t.Error(got)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		value string
		at    int
		text  string
	}{
		{``, 0, `expected "(", not the end`},
		{`(target`, 7, "expected = or !="},
		{`(target="ldap:///dc=x"`, 8, "never closed"},
		{`(target="dc=x")`, 8, "expected ldap:/// and a DN"},
		{`(targt="x")`, 1, `expected a target or version, not "targt"`},
		{`(targetattr=="cn")`, 12, "a second ="},
		{`(targetattr="cn)"` + body, 12, "never closed"},
		{`(targetattr="cn")(targetattr="sn")` + body, 18, "a second targetattr"},
		{`(targetfilter="(cn=a")` + body, 14, "malformed"},
		{`(targetscope="all")` + body, 13, `the scope "all"`},
		{`(targattrfilters="add=title:title=a")` + body, 17, "expected an attribute, a colon and a filter"},
		{`(targattrfilters="add=t:(a=b),add=t:(a=b)")` + body, 17, "expected add= and del="},
		{`(version 2.0; acl "a"; allow (read)` + anyone + `;)`, 9, `expected "3.0"`},
		{`(version 3.0; acl "a; allow`, 18, "never closed"},
		{`(version 3.0; acl "a";)`, 23, "nothing is allowed or denied"},
		{`(version 3.0; acl "a"; allow (rite)` + anyone + `;)`, 30, `expected a right, not "rite"`},
		{`(version 3.0; acl "a"; allow (read) gropdn="x";)`, 36, `expected a bind rule, not "gropdn"`},
		{`(version 3.0; acl "a"; allow (read) userdn="anyone";)`, 43, "expected ldap:/// and a DN"},
		{`(version 3.0; acl "a"; allow (read) userattr="manager";)`, 45, "expected an attribute, # and a value"},
		{`(version 3.0; acl "a"; allow (read)` + anyone + `)`, 59, `expected ";"`},
		{body + "x", len(body), "the aci ends here"},
		{`(targetcontrol="1.2")(targetattr="cn")` + body, 0, "about no attributes"},
		{`(extop="x")` + body, 7, `"x" is no OID`},
	} {
		_, err := Parse(c.value)
		var e *Error
		if !errors.As(err, &e) || e.Offset != c.at || !strings.Contains(e.Text, c.text) {
			t.Errorf("%s: %v; expected byte %d: %s", c.value, err, c.at, c.text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`(target="ldap:///uid=*,dc=x")(targetattr!="cn || sn")(targattrfilters="add=a:(b=c) && d:(e=f), del=g:(h=i)")(version 3.0; acl "a"; allow (read,write) userdn="ldap:///self" and not (ip="10.*" or ssf>="1"); deny (all) groupdn="ldap:///cn=g";)`)
	f.Add(`(targetcontrol="1.2.3")(version 3.0;acl "a";allow(read) userattr="parent[0,1].manager#USERDN";)`)
	f.Add(`(target="ldap:///ou=g,($dn),dc=x")(targetattr="*")(version 3.0; acl "a"; allow (all) groupdn="ldap:///cn=a,[$dn],dc=x";)`)
	f.Fuzz(func(t *testing.T, value string) {
		a, err := Parse(value)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(value) || e.Text == "" {
				t.Fatalf("%q: %v", value, err)
			}
			return
		}
		for _, d := range []Dialect{DS389, OpenDJ} {
			for _, r := range Translate(a, mustName("dc=x"), &Options{Schema: core, Dialect: d}).Rules {
				if len(r.Rule.String()) > acl.MaxRule {
					continue
				}
				if again, err := acl.ParsePlaced(r.String()); err != nil {
					t.Fatalf("%q becomes %q: %v", value, r, err)
				} else if again.String() != r.String() {
					t.Fatalf("%q becomes %q, which is read as %q", value, r, again)
				}
			}
		}
	})
}
