#!/bin/sh
# Exim with ldap_start_tls and ldap_require_cert does not use StartTLS: it begins with TLS, on the port for LDAP in clear.
#
# Debian's exim4-daemon-heavy 4.96. src/lookups/ldap.c uses the value of ldap_require_cert for two options of OpenLDAP's
# library: LDAP_OPT_X_TLS_REQUIRE_CERT, and LDAP_OPT_X_TLS, where "hard" means TLS from the first octet. So
#
# 1. with ldap_start_tls alone, the first octet that the server receives is 30, an LDAPMessage: StartTLS.
# 2. with ldap_require_cert = hard as well, it is 16, a TLS handshake. No server that waits for StartTLS answers this, and
#    Exim says that it can't contact the server.
#
# Without ldap_require_cert the library verifies the certificate, as TLS_REQCERT of ldap.conf says, by default: demand.
# docs/apps/exim.md leaves it out.
#
# Seen on 2026-11-28. It needs root, Debian 12, python3 and unshare. It fails if one of the two changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" exim4-daemon-heavy=4.96-15+deb12u10
cat > "$dir/server.py" <<'P'
import socket
with socket.create_server(("127.0.0.1", 0)) as s:
    s.settimeout(30)
    print(s.getsockname()[1], flush=True)
    with s.accept()[0] as c:
        print("first octet %02x" % c.recv(1)[0], flush=True)
P
cat > "$dir/run.sh" <<'S'
echo Debian-exim:x:599:599::/:/bin/false | cat /etc/passwd - > "$dir/passwd"
echo Debian-exim:x:599: | cat /etc/group - > "$dir/group"
mount --bind "$dir/passwd" /etc/passwd
mount --bind "$dir/group" /etc/group
mount -t overlay none -o "lowerdir=$dir/root/usr:/usr" /usr
for more in "" "ldap_require_cert = hard"; do
	rm -f "$dir/out"; mkfifo "$dir/out"
	python3 "$dir/server.py" > "$dir/out" &
	exec 3< "$dir/out"
	read -r port <&3
	printf 'primary_hostname = x.example\nldap_default_servers = 127.0.0.1::%s\nldap_start_tls\n%s\n' "$port" "$more" > "$dir/conf"
	exim4 -C "$dir/conf" -be '${lookup ldap{ldap:///dc=example?cn?base?(cn=x)}}' > "$dir/exim" 2>&1 || :
	read -r octet <&3
	echo "${more:-alone}: $octet"
done
S
dir=$dir unshare -m sh "$dir/run.sh" > "$dir/seen"
cat "$dir/seen"
cat > "$dir/expected" <<'X'
alone: first octet 30
ldap_require_cert = hard: first octet 16
X
diff "$dir/expected" "$dir/seen" && echo "as described"
