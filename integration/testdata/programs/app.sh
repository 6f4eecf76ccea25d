# Runs the commands of a page of docs/apps, in namespaces of its own (mount, network, processes), where the packages in
# $UNPACKED are installed, and where ldapd serves the sample directory at ldap.example.com.
#
# The folder $PAGE has what the page has: etc, the files to be laid below /etc; setup, commands of ldapd; entries.ldif;
# rules; commands, for a user's shell. $START starts the application. $LDAPD, $SAMPLE, $CERTIFICATE, $KEY and $CA are
# files. The commands and their outputs are printed.
set -eu
ip link set lo up
mount -t tmpfs none /mnt
cover() { # FOLDER: with what the packages have there, and writable
	lower=
	for root in $UNPACKED; do
		[ -d "$root$1" ] && lower=$lower$root$1:
	done
	mkdir -p "/mnt/upper$1" "/mnt/work$1"
	mount -t overlay none -o "lowerdir=$lower$1,upperdir=/mnt/upper$1,workdir=/mnt/work$1" "$1"
}
cover /usr
cover /etc
cover /var
mount -t tmpfs none /run
mkdir /run/lock
[ ! -d "$PAGE/etc" ] || cp -a "$PAGE/etc" /
cp "$CA" /etc/ssl/certs/ca-certificates.crt
echo 127.0.0.1 localhost ldap.example.com $(hostname).example.com $(hostname) >/etc/hosts
echo nameserver 127.0.0.1 >/etc/resolv.conf
(umask 077 && echo secret >/mnt/password)
home=$HOME
export HOME=/mnt LC_ALL=C.UTF-8 PATH="/mnt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" LDAPD_CONFIG= TZ=UTC
unset LDAPD_ACCESS LDAPD_PASSWORD_POLICY
mkdir /mnt/bin
ln -s "$LDAPD" /mnt/bin/ldapd
cd /mnt
{
	ldapd import --store ./data --suffix dc=example,dc=com "$SAMPLE"
	echo x4Gq0vWb7Yt2LsPe9KdR | ldapd user add --store ./data --service --password type "$NAME"
	sh -e "$PAGE/setup"
	[ ! -s "$PAGE/entries.ldif" ] || ldapd import --store ./data "$PAGE/entries.ldif"
	ldapd access list --store ./data >rules
	cat "$PAGE/rules" >>rules
	ldapd access apply --store ./data rules
	chmod 755 /mnt
} >log 2>&1 || { cat log >&2; exit 1; }
umask 022
ldapd serve --store ./data --listen ldap://:389 --listen ldaps://:636 --tls-certificate "$CERTIFICATE" --tls-key "$KEY" \
	--admin-dn cn=admin,dc=example,dc=com --admin-password-file /mnt/password --log-access - >ready 2>log &
await() { # CONDITION: a command that succeeds when it holds
	for try in $(seq 600); do
		eval "$1" >/dev/null 2>&1 && break
		sleep 0.1
	done
}
await 'grep ^ready /mnt/ready'
(cd /; eval "$START") >start.log 2>&1 </dev/null || true
while read -r command; do
	printf '$ %s\n' "$command"
	sh -c "$command" 2>&1 </dev/null || true
done <"$PAGE/commands"
cat log start.log $(ls java.log 2>/dev/null) >&2
