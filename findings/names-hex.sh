#!/bin/sh
# Java writes a part of a certificate's name in hexadecimal digits, and of eight implementations one reads it rightly.
#
# X500Principal.getName(), the subject of a certificate, writes types that RFC 2253 does not list, such as emailAddress, as
# 1.2.840.113549.1.9.1=#1610...: # and the BER encoding of the value (RFC 4514, 2.4). In cn=#0c03416e6e the value is Ann.
#
# 1. ldaptive 2.5.0, Dn: the value is null. It reads OCTET STRING (#04...) rightly, and no type of string.
# 2. OpenDJ's SDK 4.9.2, DN, Apache's LDAP API 2.1.9, Dn, and python-ldap 3.4.3 (Debian 12), str2dn, take the encoding for the value:
#    tag and length become letters, and the name that they write is another one.
# 3. JLDAP 4.3, LDAPDN.normalize, and ldap3 2.9.1 for Python, in each operation, put a backslash before the #: a value that begins with #.
# 4. slapd 2.5.13 refuses such a name (34).
#
# UnboundID 7.0.5 reads the value; so does ldapd. It hurts whoever takes people's names from certificates, for a bind, a search or
# a comparison with names from a directory: nobody is found. getName with a map of types writes emailAddress=ann@mail.example.
# docs/libraries.md says so.
#
# Seen on 2026-11-29 with Java 17 and Python 3.11. It needs root, Debian 12, mvn, java, python3 and unshare. It fails if one of the
# four changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" slapd=2.5.13+dfsg-5 ldap-utils=2.5.13+dfsg-5 python3-ldap=3.4.3-2+deb12u1
cd "$dir"
"$here/jars" jars com.unboundid:unboundid-ldapsdk:7.0.5 org.openidentityplatform.opendj:opendj-core:4.9.2 org.apache.directory.api:api-all:2.1.9 \
	org.ldaptive:ldaptive:2.5.0 com.novell.ldap:jldap:4.3
python3 -m venv py && py/bin/pip install -q --disable-pip-version-check ldap3==2.9.1 pyasn1==0.6.1 > log 2>&1 || { cat log; exit 1; }
cat > Read.java <<'J'
import java.util.Map;
import javax.security.auth.x500.X500Principal;

public class Read {
    public static void main(String[] args) throws Exception {
        X500Principal subject = new X500Principal("EMAILADDRESS=ann@mail.example, O=x");
        System.out.println("Java " + subject.getName());
        System.out.println("Java with a map " + subject.getName("RFC2253", Map.of("1.2.840.113549.1.9.1", "emailAddress")));
        for (String name : new String[] {subject.getName(), "cn=#0c03416e6e,o=x", "cn=#0403416e6e,o=x"}) {
            System.out.println(name);
            System.out.println("  UnboundID " + new com.unboundid.ldap.sdk.DN(name).toMinimallyEncodedString());
            System.out.println("  ldaptive " + new org.ldaptive.dn.Dn(name).format());
            System.out.println("  OpenDJ " + org.forgerock.opendj.ldap.DN.valueOf(name));
            System.out.println("  Apache " + new org.apache.directory.api.ldap.model.name.Dn(name).getEscaped());
            System.out.println("  JLDAP " + com.novell.ldap.LDAPDN.normalize(name));
        }
    }
}
J
java -cp 'jars/*' Read.java 2> log > seen || { cat log; exit 1; }
cat > read.py <<'P'
from ldap.dn import dn2str, str2dn
print("python-ldap", dn2str(str2dn("cn=#0c03416e6e,o=x")))
P
py/bin/python >> seen <<'P'
from ldap3 import LDIF, Connection
c = Connection(None, client_strategy=LDIF)  # writes its requests
c.open()
print("ldap3", c.delete("cn=#0c03416e6e,o=x").split("\n")[1])
P
cat > run.sh <<'S'
ip link set lo up
mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
/usr/bin/python3 read.py
mkdir db
printf '%s\n' "include $PWD/root/etc/ldap/schema/core.schema" 'database ldif' 'suffix o=x' "directory $PWD/db" > slapd.conf
printf '%s\n' 'dn: o=x' 'objectClass: organization' 'o: x' '' 'dn: cn=Ann,o=x' 'objectClass: person' 'cn: Ann' 'sn: Lee' > x.ldif
"$1/slapd"
for name in cn=Ann,o=x cn=#0c03416e6e,o=x; do
	code=0
	ldapsearch -x -H ldap://127.0.0.1 -b "$name" -s base > found 2>&1 || code=$?
	echo "slapd $name $code"
done
S
unshare --mount --net --pid --fork --kill-child --mount-proc sh run.sh "$here" >> seen
cat -v seen | tee printable
cat > expected <<'X'
Java 1.2.840.113549.1.9.1=#1610616e6e406d61696c2e6578616d706c65,O=x
Java with a map emailAddress=ann@mail.example,O=x
1.2.840.113549.1.9.1=#1610616e6e406d61696c2e6578616d706c65,O=x
  UnboundID 1.2.840.113549.1.9.1=ann@mail.example,O=x
  ldaptive 1.2.840.113549.1.9.1=null,o=x
  OpenDJ 1.2.840.113549.1.9.1=\16\10ann@mail.example,O=x
  Apache 1.2.840.113549.1.9.1=^V^Pann@mail.example,O=x
  JLDAP 1.2.840.113549.1.9.1=\#1610616e6e406d61696c2e6578616d706c65,O=x
cn=#0c03416e6e,o=x
  UnboundID cn=Ann,o=x
  ldaptive cn=null,o=x
  OpenDJ cn=\0c\03Ann,o=x
  Apache cn=^L^CAnn,o=x
  JLDAP cn=\#0c03416e6e,o=x
cn=#0403416e6e,o=x
  UnboundID cn=Ann,o=x
  ldaptive cn=ann,o=x
  OpenDJ cn=\04\03Ann,o=x
  Apache cn=^D^CAnn,o=x
  JLDAP cn=\#0403416e6e,o=x
ldap3 dn: cn=\#0c03416e6e,o=x
python-ldap cn=^L^CAnn,o=x
slapd cn=Ann,o=x 0
slapd cn=#0c03416e6e,o=x 34
X
diff expected printable && echo "as described"
