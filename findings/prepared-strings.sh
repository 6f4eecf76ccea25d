#!/bin/sh
# slapd and UnboundID's SDK take for two values, or two names, what caseIgnoreMatch takes for one; other implementations do not.
#
# The rules of strings prepare both values (RFC 4518): what differs by case, form of composition, or the kind of space is equal.
#
# 1. slapd 2.5.13 (Debian 12) does not fold letters whose fold is another one than their small letter (ß and SS; the Greek ς at the
#    end of words and Σ), and keeps tabs, ends of lines and soft hyphens. (cn=ΣΊΣΥΦΟΣ) does not find Σίσυφος. A person may have both
#    sn: Groß and sn: Gross; cn=Groß and cn=Gross are two entries.
# 2. UnboundID 7.0.5 (CaseIgnoreStringMatchingRule; Filter.matchesEntry and the server in memory use it) also distinguishes a no-break
#    space from a space, the ligature ﬁ from fi, and é from e with a combining accent, as macOS writes it in names of files.
# 3. OpenDJ's SDK 4.9.2 and Apache's LDAP API 2.1.9 take all of them for equal, as RFC 4518 demands.
#
# It hurts who searches in capital letters, and who moves from slapd to a server that prepares strings: values are there twice, and
# one of two entries has a name that is taken. ldapd is such a server; docs/migrating.md says what its commands do.
#
# Seen on 2026-11-29 with Java 17. It needs root, Debian 12, mvn, java and unshare. It fails if one of the three changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" slapd=2.5.13+dfsg-5 ldap-utils=2.5.13+dfsg-5
cd "$dir"
"$here/jars" jars com.unboundid:unboundid-ldapsdk:7.0.5 org.openidentityplatform.opendj:opendj-core:4.9.2 org.apache.directory.api:api-all:2.1.9
printf '%s\n' 'dn: dc=example' 'objectClass: domain' 'dc: example' '' 'dn: cn=both,dc=example' 'objectClass: person' 'cn: both' \
	'sn: Gross' "sn:: $(printf 'Gro\303\237' | base64)" > x.ldif
cat > Match.java <<'J'
import com.unboundid.asn1.ASN1OctetString;
import com.unboundid.ldap.matchingrules.CaseIgnoreStringMatchingRule;
import com.unboundid.ldap.sdk.*;
import org.apache.directory.api.ldap.model.schema.PrepareString.AssertionType;
import org.apache.directory.api.ldap.model.schema.normalizers.DeepTrimToLowerNormalizer;
import org.forgerock.opendj.ldap.ByteString;
import org.forgerock.opendj.ldap.schema.CoreSchema;

public class Match {
    static ByteString openDJ(String s) throws Exception {
        return CoreSchema.getCaseIgnoreMatchingRule().normalizeAttributeValue(ByteString.valueOfUtf8(s));
    }

    static String apache(String s) throws Exception {
        return new DeepTrimToLowerNormalizer("2.5.13.2").normalize(s, AssertionType.ATTRIBUTE_VALUE);
    }

    static void match(LDAPConnection slapd, String what, String one, String other) throws Exception {
        slapd.add("cn=x,dc=example", new Attribute("objectClass", "person"), new Attribute("sn", "x"), new Attribute("description", one));
        boolean found = slapd.search("dc=example", SearchScope.ONE, Filter.createEqualityFilter("description", other)).getEntryCount() == 1;
        slapd.delete("cn=x,dc=example");
        System.out.println(what + ": slapd " + found
            + ", UnboundID " + CaseIgnoreStringMatchingRule.getInstance().valuesMatch(new ASN1OctetString(one), new ASN1OctetString(other))
            + ", OpenDJ " + openDJ(one).equals(openDJ(other)) + ", Apache " + apache(one).equals(apache(other)));
    }

    public static void main(String[] args) throws Exception {
        LDAPConnection slapd = new LDAPConnection("127.0.0.1", 389, "cn=admin,dc=example", "secret");
        match(slapd, "case, two spaces", "a b", "A  B");
        match(slapd, "tab", "a\tb", "a b");
        match(slapd, "end of line", "a\nb", "a b");
        match(slapd, "soft hyphen", "a\u00adb", "ab");
        match(slapd, "sharp s", "Gro\u00df", "GROSS");
        match(slapd, "Greek capitals", "\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2", "\u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3");
        match(slapd, "no-break space", "a\u00a0b", "a b");
        match(slapd, "ligature", "\ufb01le", "file");
        match(slapd, "combining accent", "caf\u00e9", "cafe\u0301");
        System.out.println("slapd, values of sn: " + slapd.getEntry("cn=both,dc=example").getAttribute("sn").size());
        for (String name : new String[] {"Gro\u00df", "Gross"}) {
            slapd.add("cn=" + name + ",dc=example", new Attribute("objectClass", "person"), new Attribute("sn", "x"));
        }
        System.out.println("slapd, entries: " + slapd.search("dc=example", SearchScope.ONE, "(cn=gro*)").getEntryCount());
        System.exit(0);
    }
}
J
cat > run.sh <<'S'
ip link set lo up
mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
mkdir db
s=$PWD/root/etc/ldap/schema
printf '%s\n' "include $s/core.schema" "include $s/cosine.schema" 'database ldif' 'suffix dc=example' "directory $PWD/db" \
	'rootdn cn=admin,dc=example' 'rootpw secret' > slapd.conf
"$1/slapd"
java -cp 'jars/*' Match.java 2> java.log || cat java.log
S
unshare --mount --net --pid --fork --kill-child --mount-proc sh run.sh "$here" > seen
cat seen
cat > expected <<'X'
case, two spaces: slapd true, UnboundID true, OpenDJ true, Apache true
tab: slapd false, UnboundID false, OpenDJ true, Apache true
end of line: slapd false, UnboundID false, OpenDJ true, Apache true
soft hyphen: slapd false, UnboundID false, OpenDJ true, Apache true
sharp s: slapd false, UnboundID false, OpenDJ true, Apache true
Greek capitals: slapd false, UnboundID false, OpenDJ true, Apache true
no-break space: slapd true, UnboundID false, OpenDJ true, Apache true
ligature: slapd true, UnboundID false, OpenDJ true, Apache true
combining accent: slapd true, UnboundID false, OpenDJ true, Apache true
slapd, values of sn: 2
slapd, entries: 2
X
diff expected seen && echo "as described"
