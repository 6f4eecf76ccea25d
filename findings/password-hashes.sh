#!/bin/sh
# Three libraries that check values of userPassword refuse the right password for hashes that directories have.
#
# All hashes are of one password; crypt(3), slapd and 389-ds take each of them. The name of a scheme does not differ by case (RFC 2307).
#
# 1. Apache LDAP API 2.1.7 (PasswordUtil, with which ApacheDS checks binds): {CRYPT}$5$ and {CRYPT}$6$ with a number of rounds match no
#    password, without an error. Such hashes are in /etc/shadow wherever the rounds were raised, and passlib writes only such.
# 2. WildFly Elytron 2.6.4.Final (its LDAP realm reads userPassword): {CRYPT} is the crypt of 1979 and nothing else. $1$, $5$ and $6$ are
#    "Insufficient data to form a digest and a salt".
# 3. passlib 1.7.4 and its successor libpass 1.9.4 (ldap_context): {ssha} and {crypt} "could not be identified", and a salt of more than
#    16 octets is a ValueError.
#
# It hurts who moves people between directories with their hashes, and applications that read userPassword instead of binding. ldapd
# takes all of these hashes; docs/libraries.md says what to do.
#
# Seen on 2026-11-30 with Java 17 and Python 3.11. It needs mvn, java and python3. It fails if one of the three changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
cd "$dir"
"$here/jars" jars org.apache.directory.api:api-ldap-model:2.1.7 org.wildfly.security:wildfly-elytron-realm-ldap:2.6.4.Final \
	org.wildfly.security:wildfly-elytron-password-impl:2.6.4.Final
for p in passlib==1.7.4 libpass==1.9.4; do
	python3 -m venv ${p%%=*} && ${p%%=*}/bin/pip install -q --disable-pip-version-check $p > log 2>&1 || { cat log; exit 1; }
done
cat > hashes <<'H'
{SSHA}r2nhvWmcxl2Curk4V1m+RxYdlP5BQkNERUZHSA==
{ssha}r2nhvWmcxl2Curk4V1m+RxYdlP5BQkNERUZHSA==
{SSHA}HHDP9HcKhwo4z16HnplOcn6W9XlBQkNERUZHSElKS0xNTk9QUVJTVA==
{CRYPT}$1$saltstri$fD9.TXQ1tham/FLSfKxuR1
{CRYPT}$6$saltstring$M9RiOPtyBbIZPHTeEauo5EtCqv3Boo9Ckp6uuqJuJbOW1v/vG/ViBZq9ly8JFROGonXUfz0RkK27S/NLejjnt.
{crypt}$6$saltstring$M9RiOPtyBbIZPHTeEauo5EtCqv3Boo9Ckp6uuqJuJbOW1v/vG/ViBZq9ly8JFROGonXUfz0RkK27S/NLejjnt.
{CRYPT}$5$rounds=10000$saltstring$SQ2BZb16sxdmUdm3KBhA2nA5P9qDWjBkFGVRB/n1XxB
{CRYPT}$6$rounds=10000$saltstring$jotGH4Klw7P8CGRpF.fkBH118leObQwdC/KnN4NUJZjF1FQI7iNrwvRxoVA4C9fOHgX6GeMXZPR/ts1jGztyQ1
H
cat > Check.java <<'J'
import java.nio.file.*;
import org.apache.directory.api.ldap.model.password.PasswordUtil;
import org.wildfly.security.password.*;

public class Check {
    static final String PASSWORD = "secret pass";

    static boolean apache(String hash) {
        return PasswordUtil.compareCredentials(PASSWORD.getBytes(), hash.getBytes());
    }

    // The parser of the realm is not public.
    static String elytron(String hash) throws Exception {
        var parse = Class.forName("org.wildfly.security.auth.realm.ldap.UserPasswordPasswordUtil").getDeclaredMethod("parseUserPassword", byte[].class);
        parse.setAccessible(true);
        Password p;
        try {
            p = (Password) parse.invoke(null, (Object) hash.getBytes());
        } catch (java.lang.reflect.InvocationTargetException e) {
            return e.getCause().getMessage();
        }
        var factory = PasswordFactory.getInstance(p.getAlgorithm(), new WildFlyElytronPasswordProvider());
        return "" + factory.verify(factory.translate(p), PASSWORD.toCharArray());
    }

    public static void main(String[] args) throws Exception {
        for (String hash : Files.readAllLines(Path.of("hashes"))) {
            System.out.println("Apache " + apache(hash));
            System.out.println("Elytron " + elytron(hash));
        }
    }
}
J
cat > check.py <<'P'
from passlib.apps import ldap_context
for line in open("hashes"):
    try:
        print(ldap_context.verify("secret pass", line.strip()))
    except ValueError as e:
        print(e)
P
java -cp 'jars/*' Check.java 2> java.log > seen.java || cat java.log
for p in passlib libpass; do $p/bin/python check.py 2>&1 | sed "s/^/$p /" > seen.$p; done
paste -d '\n' hashes seen.passlib seen.libpass | awk 'NR % 3 == 1 { print substr($0, 1, 22); for (i = 0; i < 2; i++) { getline l < "seen.java"; print "  " l } next } { print "  " $0 }' > seen
cat seen
cat > expected <<'X'
{SSHA}r2nhvWmcxl2Curk4
  Apache true
  Elytron true
  passlib True
  libpass True
{ssha}r2nhvWmcxl2Curk4
  Apache true
  Elytron true
  passlib hash could not be identified
  libpass hash could not be identified
{SSHA}HHDP9HcKhwo4z16H
  Apache true
  Elytron true
  passlib salt too large (ldap_salted_sha1 requires <= 16 bytes)
  libpass salt too large (ldap_salted_sha1 requires <= 16 bytes)
{CRYPT}$1$saltstri$fD9
  Apache true
  Elytron ELY01053: Insufficient data to form a digest and a salt
  passlib True
  libpass True
{CRYPT}$6$saltstring$M
  Apache true
  Elytron ELY01053: Insufficient data to form a digest and a salt
  passlib True
  libpass True
{crypt}$6$saltstring$M
  Apache true
  Elytron ELY01053: Insufficient data to form a digest and a salt
  passlib hash could not be identified
  libpass hash could not be identified
{CRYPT}$5$rounds=10000
  Apache false
  Elytron ELY01053: Insufficient data to form a digest and a salt
  passlib True
  libpass True
{CRYPT}$6$rounds=10000
  Apache false
  Elytron ELY01053: Insufficient data to form a digest and a salt
  passlib True
  libpass True
X
diff expected seen && echo "as described"
