# Runs an image as a container runtime does, in the namespaces of the caller (mount, network, processes): the tree $TREE
# read-only as /, with the user $IMAGEUSER, the variables $IMAGEENV, the command $START and the health check $HEALTH;
# /data is a volume. What clients see is printed.
set -eu
ip link set lo up
hostname ldapd
mount -t tmpfs none /mnt
mkdir /mnt/root /mnt/data /mnt/seed
mount --bind "$TREE" /mnt/root
mount -o remount,bind,ro /mnt/root
volume() { # as a new volume begins: with the owner and the mode that /data has in the image
	rm -rf /mnt/data/*
	chown --reference=/mnt/root/data /mnt/data
	chmod --reference=/mnt/root/data /mnt/data
}
volume
mount --bind /mnt/data /mnt/root/data
mount --bind /mnt/seed /mnt/root/seed
in_container() { # COMMAND
	eval exec env -i "$IMAGEENV" LDAPD_SUFFIX=dc=example,dc=com LDAPD_ADMIN_DN=cn=admin,dc=example,dc=com LDAPD_ADMIN_PASSWORD=x4Gq0vWb7Yt2 \
		LDAPD_TLS_CERTIFICATE=self-signed chroot --userspec="$IMAGEUSER" /mnt/root "$1"
}
start() {
	in_container "$START" >/mnt/log 2>&1 &
	server=$!
	until (in_container "$HEALTH") >/dev/null 2>&1; do
		kill -0 $server 2>/dev/null || { cat /mnt/log >&2; return 1; }
		sleep 0.1
	done
}
stop() {
	kill $server
	wait $server || cat /mnt/log >&2
}
export LDAPTLS_CACERT=/mnt/data/store.pem
find_jdoe() {
	ldapsearch -LLL -o ldif-wrap=no -ZZ -H ldap://ldapd:3890 -D cn=admin,dc=example,dc=com -w x4Gq0vWb7Yt2 -b dc=example,dc=com '(uid=jdoe)' 1.1 | grep .
}
echo 127.0.0.1 localhost ldapd >/mnt/hosts
mount --bind /mnt/hosts /etc/hosts
cat >/mnt/seed/1.ldif <<'E'
dn: dc=example,dc=com
objectClass: domain
dc: example

dn: uid=jdoe,dc=example,dc=com
objectClass: account
uid: jdoe
E
start
echo healthy
ldapwhoami -ZZ -H ldap://ldapd:3890 -D cn=admin,dc=example,dc=com -w x4Gq0vWb7Yt2
find_jdoe
stop
start
echo restarted
find_jdoe
stop
volume
cat >/mnt/seed/2.ldif <<'E'
dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people

dn: uid=somebody,ou=people,dc=example,dc=com
objectClass: account
uid: somebody

dn: uid=nobody,ou=none,dc=example,dc=com
objectClass: account
uid: nobody
E
! start 2>/mnt/refused
grep -o "/seed/.*" /mnt/refused
echo files: $(find /mnt/data -name store | wc -l)
