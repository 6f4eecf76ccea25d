#!/bin/sh
# slapd refuses a password that is too long with an error of the password policy control that three libraries cannot read.
#
# draft-behera-ldap-password-policy-10 numbers the errors of the control from 0 to 8; draft 11 added passwordTooLong (9), for
# pwdMaxLength. slapd 2.5.13 sends it to a client that asks for the control:
#
# 1. Spring Security 6.5.5, PasswordPolicyResponseControl: the constructor throws an ArrayIndexOutOfBoundsException.
# 2. UnboundID's SDK 7.0.5 and OpenDJ's SDK 4.10.2: reading the control is a decoding error.
# 3. ldaptive 2.5.0 and Apache's LDAP API 2.1.9 read it. OpenLDAP's tools and Net::LDAP do, too.
#
# The result, constraintViolation, and its text arrive in each of them; a program that looks at the control first, to tell its user
# what is wrong with the password, does not get there. ldapd sends insufficientPasswordQuality (5), which all of them read, with a
# text that says how long is too long.
#
# Seen on 2026-11-30 with Java 17. It needs root, Debian 12, mvn, java and unshare. It fails if one of 1 to 3 changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" slapd=2.5.13+dfsg-5 ldap-utils=2.5.13+dfsg-5
cd "$dir"
"$here/jars" jars com.unboundid:unboundid-ldapsdk:7.0.5 org.ldaptive:ldaptive:2.5.0 org.apache.directory.api:api-all:2.1.9 \
	org.springframework.security:spring-security-ldap:6.5.5 ldapsdk:ldapsdk:4.1
"$here/jars" opendj org.openidentityplatform.opendj:opendj-core:4.10.2
cat > x.ldif <<'X'
dn: dc=example
objectClass: domain
dc: example

dn: cn=policy,dc=example
objectClass: device
objectClass: pwdPolicy
cn: policy
pwdAttribute: userPassword
pwdCheckQuality: 1
pwdMaxLength: 8

dn: cn=ann,dc=example
objectClass: person
cn: ann
sn: Lee
userPassword: secret
X
cat > Change.java <<'J'
import com.unboundid.ldap.sdk.*;
import com.unboundid.ldap.sdk.experimental.*;
import java.util.concurrent.Callable;
import org.apache.directory.api.ldap.codec.api.LdapApiServiceFactory;
import org.apache.directory.api.ldap.extras.controls.ppolicy.PasswordPolicyResponse;
import org.apache.directory.api.ldap.extras.controls.ppolicy_impl.PasswordPolicyResponseFactory;
import org.ldaptive.asn1.DefaultDERBuffer;
import org.ldaptive.control.PasswordPolicyControl;

public class Change {
    static void read(String who, Callable<Object> how) {
        String is;
        try {
            is = "" + how.call();
        } catch (LDAPException e) {
            is = e.getResultCode().toString();
        } catch (Exception e) {
            is = e.getClass().getSimpleName();
        }
        System.out.println(who + ": " + is);
    }

    public static void main(String[] args) throws Exception {
        LDAPConnection c = new LDAPConnection("127.0.0.1", 389, "cn=ann,dc=example", "secret");
        ModifyRequest m = new ModifyRequest("cn=ann,dc=example", new Modification(ModificationType.REPLACE, "userPassword", "a long password"));
        m.addControl(new DraftBeheraLDAPPasswordPolicy10RequestControl());
        try {
            c.modify(m);
        } catch (LDAPException e) {
            LDAPResult r = e.toLDAPResult();
            byte[] value = e.getResponseControl("1.3.6.1.4.1.42.2.27.8.5.1").getValue().getValue();
            java.nio.file.Files.writeString(java.nio.file.Path.of("value"), java.util.HexFormat.of().formatHex(value));
            System.out.println("slapd: " + java.util.HexFormat.of().formatHex(value));
            System.out.println("UnboundID, result: " + r.getResultCode());
            read("UnboundID, control", () -> DraftBeheraLDAPPasswordPolicy10ResponseControl.get(r).getErrorType());
            read("Spring Security", () -> new org.springframework.security.ldap.ppolicy.PasswordPolicyResponseControl(value).getErrorStatus());
            read("ldaptive", () -> {
                PasswordPolicyControl p = new PasswordPolicyControl();
                p.decode(new DefaultDERBuffer(value));
                return p.getError();
            });
            read("Apache", () -> {
                PasswordPolicyResponseFactory f = new PasswordPolicyResponseFactory(LdapApiServiceFactory.getSingleton());
                PasswordPolicyResponse p = (PasswordPolicyResponse) f.newControl();
                f.decodeValue(p, value);
                return p.getPasswordPolicyError();
            });
        }
        System.exit(0);
    }
}
J
cat > OpenDJ.java <<'J'
import java.util.HexFormat;
import org.forgerock.opendj.ldap.*;
import org.forgerock.opendj.ldap.controls.*;

public class OpenDJ {
    public static void main(String[] args) {
        GenericControl c = GenericControl.newControl("1.3.6.1.4.1.42.2.27.8.5.1", false, ByteString.wrap(HexFormat.of().parseHex(args[0])));
        try {
            System.out.println("OpenDJ, control: " + PasswordPolicyResponseControl.DECODER.decodeControl(c, new DecodeOptions()).getErrorType());
        } catch (DecodeException e) {
            System.out.println("OpenDJ, control: DecodeException");
        }
    }
}
J
cat > run.sh <<'S'
ip link set lo up
mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
mkdir db
s=$PWD/root/etc/ldap/schema
printf '%s\n' "include $s/core.schema" "include $s/cosine.schema" 'modulepath /usr/lib/ldap' 'moduleload ppolicy' 'database ldif' \
	'suffix dc=example' "directory $PWD/db" 'rootdn cn=admin,dc=example' 'rootpw secret' 'access to * by self write by * auth' \
	'overlay ppolicy' 'ppolicy_default cn=policy,dc=example' > slapd.conf
"$1/slapd"
ldapmodify -x -H ldap://127.0.0.1 -D cn=ann,dc=example -w secret -e ppolicy > tool 2>&1 <<'L' || true
dn: cn=ann,dc=example
changetype: modify
replace: userPassword
userPassword: a long password
L
sed -n 's/^ldap_modify: /ldapmodify: /p' tool
java -cp 'jars/*' Change.java 2> java.log || cat java.log
java -cp 'opendj/*' OpenDJ.java "$(cat value)" 2> opendj.log || cat opendj.log
S
unshare --mount --net --pid --fork --kill-child --mount-proc sh run.sh "$here" > seen
cat seen
cat > expected <<'X'
ldapmodify: Constraint violation (19)
slapd: 3003810109
UnboundID, result: 19 (constraint violation)
UnboundID, control: 84 (decoding error)
Spring Security: ArrayIndexOutOfBoundsException
ldaptive: PASSWORD_TOO_LONG
Apache: PASSWORD_TOO_LONG
OpenDJ, control: DecodeException
X
diff expected seen && echo "as described"
