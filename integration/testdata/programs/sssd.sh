# Asks sssd, in a mount namespace of its own: sssd has its folders and its configuration
# at fixed places. $CONF is the configuration; for the arguments see ask.sh.
set -e
here=$(dirname "$0")
for dir in /var/lib/sss /var/log/sssd /etc/sssd /run; do
	mount -t tmpfs none $dir
done
mkdir -p /etc/sssd/conf.d /var/lib/sss/db /var/lib/sss/mc /var/lib/sss/pubconf /var/lib/sss/pipes/private
install -m 600 "$CONF" /etc/sssd/sssd.conf
/usr/sbin/sssd -i --logger=stderr 2>/var/log/sssd/log &
sssd=$!
SERVICE=sss
. "$here/ask.sh"
cat /var/log/sssd/log >&2
kill $sssd
wait $sssd || true
