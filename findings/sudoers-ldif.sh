#!/bin/sh
# cvtsudoers writes rules of sudoers to LDIF with other times and timeouts, and with names that differ from their entries' cn.
#
# Debian's sudo-ldap 1.9.13, cvtsudoers -f ldif:
#
# 1. Commands of one rule that differ only by their times (NOTBEFORE, NOTAFTER) or by TIMEOUT become one sudoRole, which has those of
#    the first command. Those that differ by user (RunAs), by tags or by folder (CWD) become several roles.
# 2. Values of cn are escaped as in the name of the entry. Where the name of a role for the netgroup +net is cn=\+net, the value is \+net
#    too, and not +net. So it is with #1001 and with names that have a comma or a backslash. slapd 2.5.13 adds the value that the name
#    has, so such a role has two.
#
# The manual page names other limits. It hurts who moves sudoers to LDAP: a command is permitted until another day, or ended after a
# minute instead of an hour, and no message says so. Write such a command as a line of its own, and compare what
# cvtsudoers -i ldif makes of the result. docs/apps/sudo.md says so.
#
# Seen on 2026-11-29. It needs root, Debian 12 and unshare. It fails if one of the two changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" sudo-ldap=1.9.13p3-1+deb12u4 slapd=2.5.13+dfsg-5 ldap-utils=2.5.13+dfsg-5
cd "$dir"
cat > sudoers <<'S'
ann ALL = NOTAFTER=20270101000000Z /bin/a, NOTAFTER=20280101000000Z /bin/b
bob ALL = TIMEOUT=60 /bin/a, TIMEOUT=3600 /bin/b
carl ALL = CWD=/a /bin/a, CWD=/b /bin/b
+net ALL = /bin/a
#1001 ALL = /bin/a
S
cat > run.sh <<'S'
ip link set lo up
mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
cvtsudoers -b dc=x -f ldif sudoers > roles.ldif
grep -E '^$|^(dn|cn|sudoCommand|sudoNotAfter|sudoOption):' roles.ldif
echo back:
cvtsudoers -b dc=x -i ldif -f sudoers roles.ldif
mkdir db
printf '%s\n' "include $PWD/root/etc/ldap/schema/core.schema" 'include /usr/share/doc/sudo-ldap/schema.OpenLDAP' 'database ldif' \
	'suffix dc=x' "directory $PWD/db" 'rootdn cn=admin,dc=x' 'rootpw secret' > slapd.conf
printf '%s\n' 'dn: dc=x' 'objectClass: dcObject' 'objectClass: organization' 'o: x' 'dc: x' > x.ldif
"$1/slapd"
ldapadd -x -H ldap://127.0.0.1 -D cn=admin,dc=x -w secret -f roles.ldif > added
echo slapd:
ldapsearch -x -LLL -H ldap://127.0.0.1 -b dc=x '(sudoUser=+net)' cn | grep .
S
unshare --mount --net --pid --fork --kill-child --mount-proc sh run.sh "$here" > seen
cat seen
cat > expected <<'X'
dn: cn=ann,dc=x
cn: ann
sudoNotAfter: 20270101000000Z
sudoCommand: /bin/a
sudoCommand: /bin/b

dn: cn=bob,dc=x
cn: bob
sudoOption: command_timeout=60
sudoCommand: /bin/a
sudoCommand: /bin/b

dn: cn=carl,dc=x
cn: carl
sudoOption: runcwd=/a
sudoCommand: /bin/a

dn: cn=carl_1,dc=x
cn: carl_1
sudoOption: runcwd=/b
sudoCommand: /bin/b

dn: cn=\+net,dc=x
cn: \+net
sudoCommand: /bin/a

dn: cn=\#1001,dc=x
cn: \#1001
sudoCommand: /bin/a

back:
# sudoRole ann
ann ALL = NOTAFTER=20270101000000Z /bin/a, /bin/b

# sudoRole bob
bob ALL = TIMEOUT=60 /bin/a, /bin/b

# sudoRole carl, carl_1
carl ALL = CWD=/a /bin/a, CWD=/b /bin/b

# sudoRole +net
+net ALL = /bin/a

# sudoRole #1001
#1001 ALL = /bin/a
slapd:
dn: cn=\2Bnet,dc=x
cn: \+net
cn: +net
X
diff expected seen && echo "as described"
