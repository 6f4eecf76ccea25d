#!/bin/sh
# Three LDAP clients and Cyrus SASL do not prepare passwords for SCRAM, so a password with a no-break space fails elsewhere.
#
# A SCRAM client prepares the password by SASLprep (RFC 5802, 2.2: Normalize): a no-break space becomes a space, ª becomes a, e and
# a combining accent become é. A server that stores keys has prepared it before.
#
# 1. OpenLDAP's tools 2.5.13 with Cyrus SASL 2.1.28 (Debian 12), UnboundID's SDK 7.0.5 and ldaptive 2.5.0 (SCRAM-SHA-256) use the
#    octets of the password as they are. So does slapd with Cyrus SASL: with the password pass<no-break space>word, each client
#    binds as a user whose userPassword is this, and as none whose userPassword is "pass word".
# 2. GNU SASL 2.2.0 prepares it, and derives the same keys for both.
#
# It hurts people who type a no-break space (Option and the space bar on a Mac, AltGr and the space bar on some keyboards): they log
# in by a simple bind or PLAIN, and SCRAM is invalidCredentials at a server that prepares, ldapd among them. A client that prepares
# fails at slapd. Two clients of one person then cannot both log in. Use a password that SASLprep does not change, or a simple bind
# or PLAIN in TLS. docs/libraries.md says so.
#
# Seen on 2026-11-29 with Java 17. It needs root, Debian 12, mvn, java and unshare. It fails if one of the two changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" slapd=2.5.13+dfsg-5 ldap-utils=2.5.13+dfsg-5 libsasl2-modules=2.1.28+dfsg-10+deb12u1 gsasl=2.2.0-1+deb12u2
cd "$dir"
"$here/jars" jars com.unboundid:unboundid-ldapsdk:7.0.5 org.ldaptive:ldaptive:2.5.0
cat > Bind.java <<'J'
import com.unboundid.ldap.sdk.LDAPConnection;
import com.unboundid.ldap.sdk.LDAPException;
import com.unboundid.ldap.sdk.SCRAMSHA256BindRequest;
import org.ldaptive.*;
import org.ldaptive.sasl.Mechanism;
import org.ldaptive.sasl.SaslConfig;

public class Bind {
    static final String PASSWORD = "pass\u00a0word";

    static boolean unboundID(String user) throws Exception {
        try (LDAPConnection c = new LDAPConnection("127.0.0.1", 389)) {
            c.bind(new SCRAMSHA256BindRequest(user, PASSWORD));
            return true;
        } catch (LDAPException e) {
            if (e.getResultCode().intValue() != 49) throw e;
            return false;
        }
    }

    static boolean ldaptive(String user) {
        SaslConfig sasl = SaslConfig.builder().mechanism(Mechanism.SCRAM_SHA_256).build();
        Connection c = new DefaultConnectionFactory(ConnectionConfig.builder().url("ldap://127.0.0.1").connectionInitializers(
            BindConnectionInitializer.builder().dn(user).credential(new Credential(PASSWORD)).saslConfig(sasl).build()).build()).getConnection();
        try {
            c.open();
            return true;
        } catch (LdapException e) {
            return false;
        } finally {
            c.close();
        }
    }

    public static void main(String[] users) throws Exception {
        for (String user : users) {
            System.out.println("UnboundID, " + user + ": " + unboundID(user));
            System.out.println("ldaptive, " + user + ": " + ldaptive(user));
        }
        System.exit(0);
    }
}
J
cat > run.sh <<'S'
ip link set lo up
mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
mkdir db
password=$(printf 'pass\302\240word')
printf '%s\n' "include $PWD/root/etc/ldap/schema/core.schema" 'sasl-auxprops slapd' 'authz-regexp uid=([^,]*),cn=.*,cn=auth cn=$1,dc=example' \
	'database ldif' 'suffix dc=example' "directory $PWD/db" > slapd.conf
printf '%s\n' 'dn: dc=example' 'objectClass: dcObject' 'objectClass: organization' 'o: x' 'dc: example' '' \
	'dn: cn=typed,dc=example' 'objectClass: person' 'cn: typed' 'sn: x' "userPassword:: $(printf %s "$password" | base64)" '' \
	'dn: cn=prepared,dc=example' 'objectClass: person' 'cn: prepared' 'sn: x' 'userPassword: pass word' > x.ldif
"$1/slapd"
for user in typed prepared; do
	code=0
	ldapwhoami -Q -H ldap://127.0.0.1 -Y SCRAM-SHA-256 -U $user -w "$password" > whoami 2>&1 || code=$?
	echo "ldapwhoami, $user: $code"
done
java -cp 'jars/*' Bind.java typed prepared 2> java.log || cat java.log
keys() { gsasl --mkpasswd --mechanism SCRAM-SHA-256 --iteration-count 4096 --salt c2FsdHNhbHQ= --password "$1"; }
[ "$(keys "$password")" = "$(keys 'pass word')" ] && echo "GNU SASL: the same keys"
S
LC_ALL=C.UTF-8 unshare --mount --net --pid --fork --kill-child --mount-proc sh run.sh "$here" > seen
cat seen
cat > expected <<'X'
ldapwhoami, typed: 0
ldapwhoami, prepared: 49
UnboundID, typed: true
ldaptive, typed: true
UnboundID, prepared: false
ldaptive, prepared: false
GNU SASL: the same keys
X
diff expected seen && echo "as described"
