#!/bin/sh
# With Squid's basic_ldap_auth, one wrong password is three failures at the server, so a lockout after three locks the user.
#
# Debian's squid 5.7, beside Debian's slapd 2.5.13:
#
# 1. basic_ldap_auth answers "BH Success" to a wrong password, and to a user who does not exist, as if the helper itself had
#    failed. The answer to credentials that are wrong is ERR. The result of the bind (49) is lost.
# 2. Squid asks a helper that answers BH again, until it has asked three times. The user sees one answer, 407.
#
# Policies of accounts that count failures (pwdMaxFailure) should permit three for each attempt. docs/apps/squid.md says so.
#
# Seen on 2026-11-28. It needs root, Debian 12, curl and unshare. It fails if one of the two changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
"$here/debs" "$dir" squid=5.7-2+deb12u6 slapd=2.5.13+dfsg-5
cat > "$dir/run.sh" <<'S'
await() { # COMMAND
	for try in $(seq 100); do
		eval "$1" > /dev/null && return
		sleep 0.1
	done
	exit 1
}
ip link set lo up
cd "$dir"
mount -t overlay none -o "lowerdir=$dir/root/usr:/usr" /usr
mkdir db squid
printf '%s\n' "include $dir/root/etc/ldap/schema/core.schema" 'database ldif' 'suffix dc=example' "directory $dir/db" > slapd.conf
printf '%s\n' 'dn: dc=example' 'objectClass: dcObject' 'objectClass: organization' 'o: x' 'dc: example' '' \
	'dn: cn=ann,dc=example' 'objectClass: person' 'cn: ann' 'sn: x' 'userPassword: secret' > x.ldif
slapadd -f slapd.conf -l x.ldif 2> slapd.log
slapd -f slapd.conf -h ldap://127.0.0.1 -d stats 2>> slapd.log &
await "grep 'slapd starting' slapd.log"
helper="/usr/lib/squid/basic_ldap_auth -H ldap://127.0.0.1 -b dc=example -f cn=%s"
printf 'ann secret\nann wrong\nbob wrong\n' | $helper
chown proxy squid
printf '%s\n' 'http_port 127.0.0.1:3128' "auth_param basic program $helper" 'acl known proxy_auth REQUIRED' 'http_access allow known' \
	'http_access deny all' "pid_filename $dir/squid/pid" 'cache_log /dev/null' 'access_log none' 'visible_hostname x' 'pinger_enable off' "coredump_dir $dir/squid" > squid.conf
squid -N -f squid.conf > squid.log 2>&1 &
before=$(grep -c 'RESULT.*err=49' slapd.log)
await 'curl -s -x http://127.0.0.1:3128 http://127.0.0.1/'
code=$(curl -s -o /dev/null -w '%{http_code}' -x http://ann:wrong@127.0.0.1:3128 http://127.0.0.1/)
echo "Squid answers $code, the server $(($(grep -c 'RESULT.*err=49' slapd.log) - before)) times 49"
S
dir=$dir unshare --mount --net --pid --fork --kill-child --mount-proc sh "$dir/run.sh" > "$dir/seen" 2> "$dir/err" || { cat "$dir/err"; exit 1; }
sed -i 's/ *$//' "$dir/seen"
cat "$dir/seen"
cat > "$dir/expected" <<'X'
OK
BH Success
BH Success
Squid answers 407, the server 3 times 49
X
diff "$dir/expected" "$dir/seen" && echo "as described"
