#!/bin/sh
# OpenLDAP's library compares the certificate of ldaps://localhost with this machine's own name, not with localhost.
#
# Debian's ldap-utils and libldap 2.5.13 (with GnuTLS). If the host of the URL is "localhost", the library replaces it by
# gethostname() before it verifies the certificate (libraries/libldap/tls2.c). So, on a machine called own.example,
#
# 1. a certificate for the DNS name localhost is refused: "hostname (own.example) does not match".
# 2. a certificate for own.example, which does not name localhost, is accepted.
#
# A certificate for tests or for a server behind a tunnel on localhost, made as for every other program, fails only here.
# With ldaps://127.0.0.1 and a certificate for that address the library does as it is told; our tests use that.
#
# Seen on 2026-11-28. It needs root, Debian 12, openssl and unshare. It fails if one of the two changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'kill $(cat "$dir"/*.pid 2>/dev/null) 2>/dev/null; rm -rf "$dir"' EXIT
"$here/debs" "$dir" "ldap-utils=2.5.13+dfsg-5 libldap-2.5-0=2.5.13+dfsg-5"
cat > "$dir/run.sh" <<'S'
hostname own.example
export LD_LIBRARY_PATH=$(dirname "$(find "$dir/root" -name 'libldap-2.5.so.0')")
for name in localhost own.example; do
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$name" -addext "subjectAltName=DNS:$name" \
		-keyout "$dir/key" -out "$dir/$name.pem" 2> /dev/null
	mkfifo "$dir/$name.in" # s_server ends with its input
	openssl s_server -accept 127.0.0.1:0 -key "$dir/key" -cert "$dir/$name.pem" > "$dir/$name.log" 2>&1 < "$dir/$name.in" &
	echo $! > "$dir/$name.pid"
	exec 3> "$dir/$name.in"
	port=
	while [ -z "$port" ]; do sleep 0.1; port=$(sed -n 's/^ACCEPT 127.0.0.1://p' "$dir/$name.log"); done
	LDAPTLS_CACERT=$dir/$name.pem timeout 5 "$dir/root/usr/bin/ldapwhoami" -x -d 1 -H "ldaps://localhost:$port" > "$dir/out" 2>&1 || :
	verdict=accepted
	grep -q "hostname (own.example) does not match" "$dir/out" && verdict="refused: hostname (own.example) does not match"
	grep -q "TLS: can't connect" "$dir/out" && [ "$verdict" = accepted ] && verdict="another error"
	echo "a certificate for $name: $verdict"
done
S
dir=$dir unshare -u sh "$dir/run.sh" > "$dir/seen"
cat "$dir/seen"
cat > "$dir/expected" <<'X'
a certificate for localhost: refused: hostname (own.example) does not match
a certificate for own.example: accepted
X
diff "$dir/expected" "$dir/seen" && echo "as described"
