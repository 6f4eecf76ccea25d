#!/bin/sh
# Six libraries read examples of RFC 4516 as LDAP URLs with other names, scopes, attributes or filters, most without an error.
#
# A URL is ldap://HOST/DN?ATTRIBUTES?SCOPE?FILTER?EXTENSIONS. It is first cut at the question marks, then %XX become octets, which
# are UTF-8. The scope may be in capital letters (RFC 4516, 4: c=GB?objectClass?ONE).
#
# 1. OpenDJ's SDK 4.9.2, LDAPUrl.valueOf: a URL that ends with its attributes has none; after attributes, the scope is base,
#    whatever the URL says. %c4%8d, the letter č, becomes two letters.
# 2. UnboundID 7.0.5, LDAPURL: a URL with an extension and no filter gets a filter for an attribute with the name ?e-bindname.
# 3. JLDAP 4.3 (Novell, OpenLDAP), LDAPUrl, leaves %XX as they are, so the base is another name. Its connections follow referrals
#    by this class: one to a name with a space, which slapd and ldapd write as %20, ends with noSuchObject.
# 4. Tcl's uri::split (tcllib 1.21) leaves %XX, too. If the filter is empty or the scope in capital letters, the scope and all
#    behind it are lost.
# 5. ldap3 2.9.1 for Python, parse_uri, by which it follows referrals, turns %XX into octets before it cuts: a name with a
#    question mark is cut there, and a comma in an extension makes several extensions. ONE in capital letters makes it no URL.
# 6. Pike 8.0, Protocols.LDAP.parse_ldap_url: ONE is base.
#
# Perl's URI 5.17 (URI::ldap; the scope as it is written) and OpenLDAP's ldapurl 2.5.13 read all of them rightly. It hurts
# whoever configures a search by a URL, or follows referrals. docs/libraries.md says what to do.
#
# Seen on 2026-11-29 with Java 17 and Python 3.11. It needs root, Debian 12, python3, mvn, java and unshare. It fails if one of the
# six changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" "tcl tcllib=1.21+dfsg-1" pike8.0-core=8.0.1738-1+b2 "perl liburi-perl=5.17-1" ldap-utils=2.5.13+dfsg-5 slapd=2.5.13+dfsg-5
cd "$dir"
"$here/jars" jars com.unboundid:unboundid-ldapsdk:7.0.5 org.openidentityplatform.opendj:opendj-core:4.9.2 com.novell.ldap:jldap:4.3
python3 -m venv py && py/bin/pip install -q --disable-pip-version-check ldap3==2.9.1 pyasn1==0.6.1 > log 2>&1 || { cat log; exit 1; }
cat > urls <<'U'
ldap://h/o=University%20of%20Michigan,c=US?postalAddress
ldap://h/o=University%20of%20Michigan,c=US??sub?(cn=Babs%20Jensen)
ldap://h/c=GB?objectClass?ONE
ldap://h/o=Question%3f,c=US?mail
ldap://h/??sub??e-bindname=cn=Manager%2cdc=example%2cdc=com
ldap://h/cn=Lu%c4%8di%c4%87,dc=example
U
cat > Read.java <<'J'
import java.nio.file.*;
import java.util.*;

public class Read {
    static List<String> list(String[] attributes) { return attributes == null ? List.of() : List.of(attributes); }

    public static void main(String[] args) throws Exception {
        var out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String url : Files.readAllLines(Path.of("urls"))) {
            out.println(url);
            if (!url.contains("e-bindname")) { // which OpenDJ refuses
                var openDJ = org.forgerock.opendj.ldap.LDAPUrl.valueOf(url);
                out.println("  OpenDJ " + openDJ.getName().toString().replace("\u008d", "<8d>").replace("\u0087", "<87>") + " " + openDJ.getAttributes() + " " + openDJ.getScope() + " " + openDJ.getFilter());
            }
            var unboundID = new com.unboundid.ldap.sdk.LDAPURL(url);
            out.println("  UnboundID " + unboundID.getBaseDN() + " " + list(unboundID.getAttributes()) + " " + unboundID.getScope() + " " + unboundID.getFilter());
            var jldap = new com.novell.ldap.LDAPUrl(url);
            out.println("  JLDAP " + jldap.getDN() + " " + list(jldap.getAttributeArray()) + " " + jldap.getScope() + " " + jldap.getFilter());
        }
    }
}
J
java -cp 'jars/*' Read.java > seen 2> log || { cat log; exit 1; }
cat > read.tcl <<'T'
package require uri
foreach url [split [read -nonewline [open urls]] \n] {
    array set u [uri::split $url]
    puts "Tcl $u(dn) {$u(attrs)} {$u(scope)} {$u(filter)} {$u(extensions)}"
}
T
cat > read.pike <<'K'
int main() {
  foreach (Stdio.read_file("urls") / "\n" - ({""}), string url)
    write("Pike %d\n", Protocols.LDAP.parse_ldap_url(url)->scope);
}
K
cat > read.pl <<'P'
use URI;
open F, "urls";
while (<F>) {
    chomp;
    my $u = URI->new($_);
    print "Perl ", $u->dn, " [", join(",", $u->attributes), "] ", $u->scope, " ", $u->filter, " {", join(" ", $u->extensions), "}\n";
}
P
cat > read.py <<'P'
from ldap3.utils.uri import parse_uri
for url in open("urls"):
    u = parse_uri(url.strip())
    print("ldap3", u and (u["base"], u["attributes"], u["scope"], u["extensions"]))
P
py/bin/python read.py >> seen
cat > Follow.java <<'J'
import com.novell.ldap.*;

public class Follow {
    public static void main(String[] args) throws Exception {
        LDAPConnection c = new LDAPConnection();
        c.connect("127.0.0.1", 389);
        LDAPSearchConstraints follow = new LDAPSearchConstraints();
        follow.setReferralFollowing(true);
        for (String name : new String[] {"ou=bare", "ou=space"}) {
            try {
                System.out.println("JLDAP follows " + name + " to " + c.search(name + ",dc=example", LDAPConnection.SCOPE_BASE, null, null, false, follow).next().getDN());
            } catch (LDAPException e) {
                System.out.println("JLDAP follows " + name + " to " + e.getResultCode());
            }
        }
        System.exit(0);
    }
}
J
cat > run.sh <<'S'
ip link set lo up
mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
tclsh read.tcl
pike8.0 read.pike
perl read.pl
while read -r url; do ldapurl -H "$url" | sed 's/^dn: /ldapurl /' | grep -E '^(ldapurl|scope|filter|extension)' | paste -sd' '; done < urls
mkdir db
printf '%s\n' "include $PWD/root/etc/ldap/schema/core.schema" 'database ldif' 'suffix dc=example' "directory $PWD/db" > slapd.conf
printf '%s\n' 'dn: dc=example' 'objectClass: dcObject' 'objectClass: organization' 'o: x' 'dc: example' '' \
	'dn: ou=a b,dc=example' 'objectClass: organizationalUnit' 'ou: a b' '' \
	'dn: ou=bare,dc=example' 'objectClass: referral' 'objectClass: extensibleObject' 'ref: ldap://127.0.0.1/dc=example' '' \
	'dn: ou=space,dc=example' 'objectClass: referral' 'objectClass: extensibleObject' 'ref: ldap://127.0.0.1/ou=a%20b,dc=example' > x.ldif
"$1/slapd"
java -cp 'jars/*' Follow.java 2> java.log || cat java.log
S
unshare --mount --net --pid --fork --kill-child --mount-proc sh run.sh "$here" >> seen
cat seen
cat > expected <<'X'
ldap://h/o=University%20of%20Michigan,c=US?postalAddress
  OpenDJ o=University of Michigan,c=US [] base (objectClass=*)
  UnboundID o=University of Michigan,c=US [postalAddress] BASE (objectClass=*)
  JLDAP o=University%20of%20Michigan,c=US [postalAddress] 0 null
ldap://h/o=University%20of%20Michigan,c=US??sub?(cn=Babs%20Jensen)
  OpenDJ o=University of Michigan,c=US [] sub (cn=Babs Jensen)
  UnboundID o=University of Michigan,c=US [] SUB (cn=Babs Jensen)
  JLDAP o=University%20of%20Michigan,c=US [] 2 (cn=Babs%20Jensen)
ldap://h/c=GB?objectClass?ONE
  OpenDJ c=GB [objectClass] base (objectClass=*)
  UnboundID c=GB [objectClass] ONE (objectClass=*)
  JLDAP c=GB [objectClass] 1 null
ldap://h/o=Question%3f,c=US?mail
  OpenDJ o=Question?,c=US [] base (objectClass=*)
  UnboundID o=Question?,c=US [mail] BASE (objectClass=*)
  JLDAP o=Question%3f,c=US [mail] 0 null
ldap://h/??sub??e-bindname=cn=Manager%2cdc=example%2cdc=com
  UnboundID  [] SUB ?e-bindname=cn=Manager,dc=example,dc=com
  JLDAP  [] 2 null
ldap://h/cn=Lu%c4%8di%c4%87,dc=example
  OpenDJ cn=LuÄ<8d>iÄ<87>,dc=example [] base (objectClass=*)
  UnboundID cn=Lučić,dc=example [] BASE (objectClass=*)
  JLDAP cn=Lu%c4%8di%c4%87,dc=example [] 0 null
ldap3 ('o=University of Michigan,c=US', ['postalAddress'], None, None)
ldap3 ('o=University of Michigan,c=US', None, 'SUBTREE', None)
ldap3 None
ldap3 None
ldap3 ('', None, 'SUBTREE', ['e-bindname=cn=Manager', 'dc=example', 'dc=com'])
ldap3 ('cn=Lučić,dc=example', None, None, None)
Tcl o=University%20of%20Michigan,c=US {postalAddress} {} {} {}
Tcl o=University%20of%20Michigan,c=US {} {sub} {(cn=Babs%20Jensen)} {}
Tcl c=GB {objectClass} {} {} {}
Tcl o=Question%3f,c=US {mail} {} {} {}
Tcl  {} {} {} {}
Tcl cn=Lu%c4%8di%c4%87,dc=example {} {} {} {}
Pike 0
Pike 2
Pike 0
Pike 0
Pike 2
Pike 0
Perl o=University of Michigan,c=US [postalAddress] base (objectClass=*) {}
Perl o=University of Michigan,c=US [] sub (cn=Babs Jensen) {}
Perl c=GB [objectClass] ONE (objectClass=*) {}
Perl o=Question?,c=US [mail] base (objectClass=*) {}
Perl  [] sub (objectClass=*) {e-bindname cn=Manager,dc=example,dc=com}
Perl cn=Lučić,dc=example [] base (objectClass=*) {}
ldapurl o=University of Michigan,c=US scope: base
ldapurl o=University of Michigan,c=US scope: sub filter: (cn=Babs Jensen)
ldapurl c=GB scope: one
ldapurl o=Question?,c=US scope: base
scope: sub extension: e-bindname=cn=Manager,dc=example,dc=com
ldapurl cn=Lučić,dc=example scope: base
JLDAP follows ou=bare to dc=example
JLDAP follows ou=space to 32
X
diff expected seen && echo "as described"
