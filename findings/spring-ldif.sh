#!/bin/sh
# Spring LDAP reads comments of LDIF into names and values, and reads attributes without their options.
#
# spring-ldap-ldif-core and spring-ldap-core 4.1.2:
#
# 1. A comment goes on in a line that begins with a space (RFC 2849, note 2). LdifParser appends this line to the line before the
#    comment: the entry gets another name, the attribute another value.
# 2. LdifParser drops options: the values of cn;lang-de and cn are values of one attribute, and userCertificate;binary is
#    userCertificate.
#
# No error in either. ldapd export writes no comments. docs/libraries.md says so.
#
# Seen on 2026-11-28 with Java 17. It needs mvn and java. It fails if one of the two changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
cd "$dir"
"$here/jars" jars org.springframework.ldap:spring-ldap-ldif-core:4.1.2 org.slf4j:slf4j-nop:2.0.9
cat > in.ldif <<'L'
dn: uid=ann,dc=example
# cn is the name that is printed, in German
 and in English
cn;lang-de: Anne
cn: Ann
sn: Berg
# telephoneNumber: of the secretary until
  the end of the year
mail: ann@mail.example
L
cat > Read.java <<'J'
import java.io.File;
import org.springframework.ldap.core.LdapAttributes;
import org.springframework.ldap.ldif.parser.LdifParser;

public class Read {
    public static void main(String[] args) throws Exception {
        LdifParser p = new LdifParser(new File("in.ldif"));
        p.open();
        LdapAttributes read = p.getRecord();
        System.out.println(read.getName());
        for (String type : new String[] {"cn;lang-de", "cn", "sn"}) System.out.println(type + " " + read.get(type));
        p.close();
    }
}
J
java -cp 'jars/*' Read.java > seen
cat seen
cat > expected <<'X'
uid=ann,dc=exampleand in English
cn;lang-de null
cn cn: Anne, Ann
sn sn: Berg the end of the year
X
diff expected seen && echo "as described"
