# Asks nslcd, in a mount namespace of its own: nslcd has its socket and its configuration
# at fixed places. $CONF is the configuration; for the arguments see ask.sh.
set -e
here=$(dirname "$0")
mount -t tmpfs none /run
mkdir /run/nslcd
chown nslcd:nslcd /run/nslcd
install -m 640 -g nslcd "$CONF" /run/nslcd.conf # it has a password
mount --bind /run/nslcd.conf /etc/nslcd.conf
/usr/sbin/nslcd --nofork 2>/run/nslcd.log &
nslcd=$!
SERVICE=ldap
. "$here/ask.sh"
cat /run/nslcd.log >&2
kill $nslcd
wait $nslcd || true
