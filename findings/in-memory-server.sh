#!/bin/sh
# The LDAP server in memory that Spring Boot starts for tests answers otherwise than a directory server does.
#
# UnboundID 7.0.5, InMemoryDirectoryServer with its standard schema, beside Debian's slapd 2.5.13 with the same entries:
#
# 1. A filter for a supertype (name) finds no value of its subtypes (cn, sn), and one without an option (cn) none that has an option
#    (cn;lang-de), against RFC 4512, 2.5.3. Attributes that are requested are found by both.
# 2. A test of an attribute that no schema has is Undefined (RFC 4511, 4.5.1.7), and so is its negation, which selects nothing. In
#    memory the negation selects all.
# 3. An object class is found by its name only, not by its OID.
# 4. The last member of a groupOfNames can be removed, which RFC 4519, 3.5, does not permit.
# 5. A rename that changes only the case of a name is refused (53).
#
# There is no error in 1 to 4, so a test passes and the application fails at the directory, or the other way round: a program that
# empties groups, a misspelt name below a NOT. ldapd answers as slapd does. Test with a server of the kind that the application is for.
#
# Seen on 2026-11-29 with Java 17. It needs root, Debian 12, mvn, java and unshare. It fails if one of the five changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" slapd=2.5.13+dfsg-5 ldap-utils=2.5.13+dfsg-5
cd "$dir"
"$here/jars" jars com.unboundid:unboundid-ldapsdk:7.0.5
cat > x.ldif <<'L'
dn: dc=example
objectClass: domain
dc: example

dn: cn=ann,dc=example
objectClass: inetOrgPerson
cn: ann
cn;lang-de: Anna
sn: Lee

dn: cn=staff,dc=example
objectClass: groupOfNames
cn: staff
member: cn=ann,dc=example
L
cat > Ask.java <<'J'
import com.unboundid.ldap.listener.*;
import com.unboundid.ldap.sdk.*;
import com.unboundid.ldif.LDIFReader;
import java.util.*;
import java.util.stream.Collectors;

public class Ask {
    interface Request { Object of(LDAPInterface c) throws LDAPException; }

    static final Map<String, LDAPInterface> servers = new LinkedHashMap<>();

    static void ask(String what, Request r) {
        for (var s : servers.entrySet()) {
            Object answer;
            try {
                answer = r.of(s.getValue());
            } catch (LDAPException e) {
                answer = e.getResultCode().intValue();
            }
            System.out.println(what + ", " + s.getKey() + ": " + answer);
        }
    }

    public static void main(String[] args) throws Exception {
        InMemoryDirectoryServer memory = new InMemoryDirectoryServer("dc=example");
        memory.importFromLDIF(true, new LDIFReader("x.ldif"));
        LDAPConnection slapd = new LDAPConnection("127.0.0.1", 389, "cn=admin,dc=example", "secret");
        servers.put("memory", memory);
        servers.put("slapd", slapd);
        for (String f : new String[] {"(sn=lee)", "(2.5.4.4=lee)", "(name=lee)", "(cn=anna)", "(!(misspelt=x))", "(objectClass=person)", "(objectClass=2.5.6.6)"}) {
            ask(f, c -> c.search("dc=example", SearchScope.SUB, f, "1.1").getSearchEntries().stream().map(Entry::getDN).collect(Collectors.toList()));
        }
        ask("last member", c -> c.modify("cn=staff,dc=example", new Modification(ModificationType.DELETE, "member")).getResultCode().intValue());
        ask("rename to ANN", c -> c.modifyDN("cn=ann,dc=example", "cn=ANN", true).getResultCode().intValue());
        System.exit(0);
    }
}
J
cat > run.sh <<'S'
ip link set lo up
mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
mkdir db
s=$PWD/root/etc/ldap/schema
printf '%s\n' "include $s/core.schema" "include $s/cosine.schema" "include $s/inetorgperson.schema" 'database ldif' 'suffix dc=example' \
	"directory $PWD/db" 'rootdn cn=admin,dc=example' 'rootpw secret' > slapd.conf
"$1/slapd"
java -cp 'jars/*' Ask.java 2> java.log || cat java.log
S
unshare --mount --net --pid --fork --kill-child --mount-proc sh run.sh "$here" > seen
cat seen
cat > expected <<'X'
(sn=lee), memory: [cn=ann,dc=example]
(sn=lee), slapd: [cn=ann,dc=example]
(2.5.4.4=lee), memory: [cn=ann,dc=example]
(2.5.4.4=lee), slapd: [cn=ann,dc=example]
(name=lee), memory: []
(name=lee), slapd: [cn=ann,dc=example]
(cn=anna), memory: []
(cn=anna), slapd: [cn=ann,dc=example]
(!(misspelt=x)), memory: [dc=example, cn=ann,dc=example, cn=staff,dc=example]
(!(misspelt=x)), slapd: []
(objectClass=person), memory: [cn=ann,dc=example]
(objectClass=person), slapd: [cn=ann,dc=example]
(objectClass=2.5.6.6), memory: []
(objectClass=2.5.6.6), slapd: [cn=ann,dc=example]
last member, memory: 0
last member, slapd: 65
rename to ANN, memory: 53
rename to ANN, slapd: 0
X
diff expected seen && echo "as described"
