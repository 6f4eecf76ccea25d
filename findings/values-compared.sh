#!/bin/sh
# slapd, UnboundID's and OpenDJ's SDK and Apache's LDAP API do not agree which telephone numbers, times, addresses and UUIDs are equal.
#
# 1. telephoneNumberMatch ignores case, spaces and hyphens (RFC 4517, 4.2.29; RFC 4518, 2.6.3). UnboundID 7.0.5 and OpenDJ 4.9.2 also
#    ignore parentheses, slashes and letters, OpenDJ the plus sign too: (030) 12 is 030 12, and 12 x5, an extension, is 125. slapd
#    2.5.13 (Debian 12) distinguishes x5 and X5.
# 2. generalizedTimeMatch: 2024010100.5Z is half past midnight. slapd takes it for half a second past midnight, and so does UnboundID;
#    OpenDJ has an IllegalArgumentException. UnboundID, OpenDJ and Apache 2.1.9 compare milliseconds: times that differ by less are
#    equal.
# 3. caseIgnoreListMatch, for postalAddress, compares line by line, and spaces at the ends of a line do not count. In Apache they do.
# 4. uuidMatch: in Apache, UUIDs in capital and in small letters differ.
#
# It hurts who moves from one server to another: searches by telephone find less or more, or what was two values is the
# same value twice. ldapd compares as the RFCs say. docs/migrating.md says so.
#
# Seen on 2026-11-29 with Java 17. It needs root, Debian 12, mvn, java and unshare. It fails if one of the four changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" slapd=2.5.13+dfsg-5 ldap-utils=2.5.13+dfsg-5
cd "$dir"
"$here/jars" jars com.unboundid:unboundid-ldapsdk:7.0.5 org.openidentityplatform.opendj:opendj-core:4.9.2 org.apache.directory.api:api-all:2.1.9
cat > Compare.java <<'J'
import com.unboundid.asn1.ASN1OctetString;
import com.unboundid.ldap.matchingrules.*;
import com.unboundid.ldap.sdk.*;
import org.apache.directory.api.ldap.model.schema.MatchingRule;
import org.apache.directory.api.ldap.schema.manager.impl.DefaultSchemaManager;
import org.forgerock.opendj.ldap.ByteString;
import org.forgerock.opendj.ldap.schema.Schema;

public class Compare {
    static LDAPConnection slapd;
    static DefaultSchemaManager apache;

    static boolean slapd(String type, String one, String other) throws Exception {
        slapd.add("cn=x,dc=example", new Attribute("objectClass", "device", "extensibleObject"), new Attribute(type, one));
        boolean found = slapd.search("dc=example", SearchScope.ONE, Filter.createEqualityFilter(type, other)).getEntryCount() == 1;
        slapd.delete("cn=x,dc=example");
        return found;
    }

    static Object openDJ(String rule, String one, String other) throws Exception {
        var r = Schema.getCoreSchema().getMatchingRule(rule);
        try {
            return r.normalizeAttributeValue(ByteString.valueOfUtf8(one)).equals(r.normalizeAttributeValue(ByteString.valueOfUtf8(other)));
        } catch (IllegalArgumentException e) {
            return e.getClass().getSimpleName();
        }
    }

    static boolean apache(String rule, String one, String other) throws Exception {
        MatchingRule r = apache.getMatchingRuleRegistry().lookup(rule);
        return r.getLdapComparator().compare(r.getNormalizer().normalize(one), r.getNormalizer().normalize(other)) == 0;
    }

    static void compare(String type, String rule, com.unboundid.ldap.matchingrules.MatchingRule unboundID, String one, String other) throws Exception {
        System.out.println(one + " and " + other + ": slapd " + slapd(type, one, other)
            + (unboundID == null ? "" : ", UnboundID " + unboundID.valuesMatch(new ASN1OctetString(one), new ASN1OctetString(other)))
            + ", OpenDJ " + openDJ(rule, one, other) + ", Apache " + apache(rule, one, other));
    }

    static void telephone(String one, String other) throws Exception {
        compare("telephoneNumber", "2.5.13.20", TelephoneNumberMatchingRule.getInstance(), one, other);
    }

    static void time(String one, String other) throws Exception {
        compare("time", "2.5.13.27", GeneralizedTimeMatchingRule.getInstance(), one, other);
    }

    public static void main(String[] args) throws Exception {
        slapd = new LDAPConnection("127.0.0.1", 389, "cn=admin,dc=example", "secret");
        apache = new DefaultSchemaManager();
        telephone("+49 30-12", "+4930 12");
        telephone("(030) 12", "030 12");
        telephone("030/12", "030 12");
        telephone("+49 30 12", "49 30 12");
        telephone("030 12 x5", "030 125");
        telephone("030 12 x5", "030 12 X5");
        time("20240101010000+0100", "202401010000Z");
        time("2024010100.5Z", "20240101003000Z");
        time("2024010100.5Z", "20240101000000.5Z");
        time("20240101000000.000001Z", "20240101000000.000002Z");
        compare("postalAddress", "2.5.13.11", CaseIgnoreListMatchingRule.getInstance(), "1 Main St$Town", "1 main st $ town");
        compare("uuid", "1.3.6.1.1.16.2", null, "597ae2f6-16a6-1027-98f4-d28b5365dc14", "597AE2F6-16A6-1027-98F4-D28B5365DC14");
        System.exit(0);
    }
}
J
cat > run.sh <<'S'
ip link set lo up
mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
mkdir db
s=$PWD/root/etc/ldap/schema
printf '%s\n' "include $s/core.schema" "include $s/cosine.schema" \
	"attributetype ( 1.3.9.1 NAME 'time' EQUALITY generalizedTimeMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.24 )" \
	"attributetype ( 1.3.9.2 NAME 'uuid' EQUALITY UUIDMatch SYNTAX 1.3.6.1.1.16.1 )" \
	'database ldif' 'suffix dc=example' "directory $PWD/db" 'rootdn cn=admin,dc=example' 'rootpw secret' > slapd.conf
printf '%s\n' 'dn: dc=example' 'objectClass: domain' 'dc: example' > x.ldif
"$1/slapd"
java -cp 'jars/*' Compare.java 2> java.log || cat java.log
S
unshare --mount --net --pid --fork --kill-child --mount-proc sh run.sh "$here" > seen
cat seen
cat > expected <<'X'
+49 30-12 and +4930 12: slapd true, UnboundID true, OpenDJ true, Apache true
(030) 12 and 030 12: slapd false, UnboundID true, OpenDJ true, Apache false
030/12 and 030 12: slapd false, UnboundID true, OpenDJ true, Apache false
+49 30 12 and 49 30 12: slapd false, UnboundID false, OpenDJ true, Apache false
030 12 x5 and 030 125: slapd false, UnboundID true, OpenDJ true, Apache false
030 12 x5 and 030 12 X5: slapd false, UnboundID true, OpenDJ true, Apache true
20240101010000+0100 and 202401010000Z: slapd true, UnboundID true, OpenDJ true, Apache true
2024010100.5Z and 20240101003000Z: slapd false, UnboundID false, OpenDJ IllegalArgumentException, Apache true
2024010100.5Z and 20240101000000.5Z: slapd true, UnboundID true, OpenDJ IllegalArgumentException, Apache false
20240101000000.000001Z and 20240101000000.000002Z: slapd false, UnboundID true, OpenDJ true, Apache true
1 Main St$Town and 1 main st $ town: slapd true, UnboundID true, OpenDJ true, Apache false
597ae2f6-16a6-1027-98f4-d28b5365dc14 and 597AE2F6-16A6-1027-98F4-D28B5365DC14: slapd true, OpenDJ true, Apache false
X
diff expected seen && echo "as described"
