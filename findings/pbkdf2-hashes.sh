#!/bin/sh
# slapd refuses the right password for PBKDF2 hashes that 389-ds and passlib have written, although they look like its own.
#
# The scheme {PBKDF2-SHA256} is ROUNDS$SALT$KEY at all of them. Hashes here are of one password.
#
# 1. slapd 2.5.13 with pw-pbkdf2 (slapd-contrib) takes a salt of 16 octets and no other: the bind is invalidCredentials, and nothing is logged.
#    passlib 1.7.4 writes 16 unless told otherwise.
# 2. 389-ds 2.3.1 writes 24 octets, in the alphabet with + and = (slapd's and passlib's is that with . and no =). So no
#    {PBKDF2-SHA1}, {PBKDF2-SHA256} or {PBKDF2-SHA512} of 389-ds works in slapd.
# 3. 389-ds and passlib take all of them.
#
# It hurts who moves people from 389-ds or FreeIPA to OpenLDAP: their passwords are kept, and all are wrong. ldapd takes all of these hashes.
#
# Seen on 2026-11-30. It needs root, Debian 12, python3 and unshare. It fails if one of the three changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" slapd=2.5.13+dfsg-5 slapd-contrib=2.5.13+dfsg-5 ldap-utils=2.5.13+dfsg-5 389-ds-base=2.3.1+dfsg1-1+deb12u1
cd "$dir"
python3 -m venv py && py/bin/pip install -q --disable-pip-version-check passlib==1.7.4 > log 2>&1 || { cat log; exit 1; }
mkdir db
cat > slapd.conf <<X
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload pw-pbkdf2
database mdb
suffix dc=x
directory $dir/db
X
cat > write.py <<'P'
from passlib.hash import ldap_pbkdf2_sha256
for size in 8, 16, 24:
    print("passlib, %d octets of salt" % size, ldap_pbkdf2_sha256.using(salt_size=size, rounds=1000).hash("secret pass"), sep="\t")
P
cat > judge.py <<'P'
import sys
from passlib.hash import ldap_pbkdf2_sha256, ldap_pbkdf2_sha512
print("yes" if any(h.identify(sys.argv[1]) and h.verify("secret pass", sys.argv[1]) for h in (ldap_pbkdf2_sha256, ldap_pbkdf2_sha512)) else "no")
P
cat > run.sh <<'S'
set -eu
mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
[ -d /etc/ldap/schema ] || mount --bind root/etc /etc
ip link set lo up
py/bin/python write.py > hashes
for scheme in PBKDF2-SHA256 PBKDF2-SHA512; do
	printf '389-ds, %s\t%s\n' $scheme "$(pwdhash -s $scheme 'secret pass')" >> hashes
done
printf 'dn: dc=x\nobjectClass: domain\ndc: x\n\n' > x.ldif
awk -F '\t' '{ printf "dn: uid=u%d,dc=x\nobjectClass: inetOrgPerson\nuid: u%d\ncn: u\nsn: u\nuserPassword: %s\n\n", NR, NR, $2 }' hashes >> x.ldif
"$1/slapd"
n=0
while IFS="$(printf '\t')" read -r what hash; do
	n=$((n + 1))
	slapd=no
	ldapwhoami -x -H ldap://127.0.0.1 -D uid=u$n,dc=x -w 'secret pass' > whoami 2>&1 && slapd=yes
	dirsrv=no
	pwdhash -c "$hash" 'secret pass' > pwdhash.log 2>&1 && grep -q 'password ok' pwdhash.log && dirsrv=yes
	echo "$what: slapd $slapd, 389-ds $dirsrv, passlib $(py/bin/python judge.py "$hash")"
done < hashes
S
unshare --mount --net --pid --fork --kill-child --mount-proc sh run.sh "$here" > seen
cat seen
cat > expected <<'X'
passlib, 8 octets of salt: slapd no, 389-ds yes, passlib yes
passlib, 16 octets of salt: slapd yes, 389-ds yes, passlib yes
passlib, 24 octets of salt: slapd no, 389-ds yes, passlib yes
389-ds, PBKDF2-SHA256: slapd no, 389-ds yes, passlib yes
389-ds, PBKDF2-SHA512: slapd no, 389-ds yes, passlib yes
X
diff expected seen && echo "as described"
