#!/bin/sh
# Three libraries read valid definitions of a schema as other ones; ldap3 then returns only one of several values.
#
# 1. ldap3 2.9.1 looks for keywords in descriptions, too. With DESC 'not SINGLE-VALUE', an attribute has one value for it: of two
#    values that a server sends, attributes and entries have the first. USAGE, SUP, OBSOLETE, MAY and so on are read likewise, and
#    the description ends before the keyword. It does not read SUBSTR in any definition.
# 2. ldaptive 2.5.0 cuts the last octet off if no space is before the last parenthesis, which is valid (RFC 4512, 4.1: WSP):
#    the syntax 1.3.6.1.4.1.1466.115.121.1.26, a string, becomes ....1.2, an access point.
# 3. Perl's Net::LDAP::Schema 0.6800 (Debian 12) reads MUST (cn$sn), valid too, as one attribute cn$sn.
#
# ldapd publishes definitions with spaces, and descriptions as they were added. docs/libraries.md says so.
#
# Seen on 2026-11-28 with Python 3.11 and Java 17. It needs root, Debian 12, python3, perl, mvn and java. It fails if one of the
# three changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" libnet-ldap-perl=1:0.6800+dfsg-1
cd "$dir"
for artifact in org.ldaptive:ldaptive:2.5.0 org.slf4j:slf4j-api:2.0.9 org.slf4j:slf4j-nop:2.0.9; do
	mvn -q dependency:copy -Dartifact=$artifact -DoutputDirectory=jars > log 2>&1 || { cat log; exit 1; }
done
python3 -m venv py && py/bin/pip install -q --disable-pip-version-check ldap3==2.9.1 pyasn1==0.6.1 > log 2>&1 || { cat log; exit 1; }
py/bin/python > seen <<'P'
from ldap3.protocol.formatters.standard import format_attribute_values
from ldap3.protocol.rfc4512 import AttributeTypeInfo, ObjectClassInfo, SchemaInfo

types = [
    "( 1.2.3 NAME 'nick' DESC 'not SINGLE-VALUE' SUP name )",
    "( 1.2.4 NAME 'token' DESC 'for OBSOLETE hosts' SUBSTR caseIgnoreSubstringsMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )",
]
schema = SchemaInfo("cn=schema", {"attributeTypes": types}, {})
print("ldap3", format_attribute_values(schema, "nick", [b"Bob", b"Rob"], None))
token = schema.attribute_types["token"]
print("ldap3", token.obsolete, token.description, token.substring)
hosts = ObjectClassInfo.from_definition(["( 1.2.5 NAME 'login' DESC 'people who MAY log in' SUP top AUXILIARY )"])["login"]
print("ldap3", hosts.may_contain)
P
cat > Read.java <<'J'
import org.ldaptive.schema.AttributeType;

public class Read {
    public static void main(String[] args) throws Exception {
        System.out.println("ldaptive " + AttributeType.parse("(1.2.3 NAME 'nick' SYNTAX 1.3.6.1.4.1.1466.115.121.1.26)").getSyntaxOID());
        System.out.println("ldaptive " + AttributeType.parse("(1.2.3 NAME 'nick' SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 )").getSyntaxOID());
    }
}
J
java -cp 'jars/*' Read.java >> seen
perl -I root/usr/share/perl5 -MNet::LDAP::Schema -MNet::LDAP::Entry >> seen <<'P'
my $schema = Net::LDAP::Schema->new;
$schema->parse(Net::LDAP::Entry->new("cn=schema", attributeTypes => ["( 2.5.4.3 NAME 'cn' SUP name )"],
    objectClasses => ["( 1.2.5 NAME 'a' MUST (cn\$sn) )", "( 1.2.6 NAME 'b' MUST ( cn \$ sn ) )"]));
print "Net::LDAP::Schema @{$schema->objectclass($_)->{must}}\n" for "a", "b";
P
cat seen
cat > expected <<'X'
ldap3 Bob
ldap3 True for None
ldap3 ["log in'"]
ldaptive 1.3.6.1.4.1.1466.115.121.1.2
ldaptive 1.3.6.1.4.1.1466.115.121.1.26
Net::LDAP::Schema cn$sn
Net::LDAP::Schema cn sn
X
diff expected seen && echo "as described"
