# Resolves users and groups by nslcd, in a mount namespace of its own: nslcd has its
# socket and its configuration at fixed places. $CONF is the configuration; each
# argument is asked of getent.
set -e
mount -t tmpfs none /run
mkdir -p /run/nslcd
chown nslcd:nslcd /run/nslcd
mount --bind "$CONF" /etc/nslcd.conf
/usr/sbin/nslcd --nofork 2>/run/nslcd.log &
nslcd=$!
for try in $(seq 100); do
	getent -s ldap $1 >/dev/null && break
	sleep 0.1
done
for question in "$@"; do
	getent -s ldap $question || echo "$question: none"
done
cat /run/nslcd.log >&2
kill $nslcd
wait $nslcd || true
