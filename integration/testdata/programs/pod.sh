# Runs the container of a pod as a kubelet has it run, in the namespaces of the caller (mount, network, processes): the tree
# $TREE read-only as /, the volumes of the file $MOUNTS, the user $PODUSER with the group $GROUPS_ and no privileges, the
# variables $PODENV and the command $START. The pod's address is 10.1.2.3, and $PORTS are its ports.
set -eu
ip link set lo up
ip address add 10.1.2.3/32 dev lo
hostname ldapd-0
mount -t tmpfs none /mnt
mkdir /mnt/root
mount --bind "$TREE" /mnt/root
mount -o remount,bind,ro /mnt/root
while read -r folder place mode; do
	mount --bind "$folder" "/mnt/root$place"
	mount -o "remount,bind,$mode" "/mnt/root$place"
done <"$MOUNTS"
for p in $PORTS; do export "port_$p"; done
in_pod() { # COMMAND
	eval exec env -i "$PODENV" setpriv --no-new-privs chroot --userspec="$PODUSER" --groups="$GROUPS_" /mnt/root "$1"
}
probe() { curl -sf -o /mnt/answer "http://10.1.2.3:$port_status$1"; }
start() {
	in_pod "$START" >/mnt/log 2>&1 &
	server=$!
	until probe "$STARTUP"; do
		kill -0 $server 2>/dev/null || { cat /mnt/log >&2; return 1; }
		sleep 0.1
	done
}
stop() {
	kill $server
	wait $server || cat /mnt/log >&2
}
as_admin() { # PROGRAM OPTION...
	program=$1
	shift
	LDAPTLS_CACERT=/mnt/root/etc/ldapd-tls/tls.crt "$program" "$@" -D cn=admin,dc=example,dc=com -w x4Gq0vWb7Yt2
}
find_base() { as_admin ldapsearch -LLL -ZZ -H "ldap://10.1.2.3:$port_ldap" -b dc=example,dc=com -s base 1.1 | grep .; }

if [ "$1" = hbase.yaml ]; then
	(in_pod "$ENTRYPOINT config") | sed -n 's/ *#.*//; /^store:/p; /^listen:/p; /^  listen: "/p'
	exit
fi
start
echo started
if probe "$LIVE"; then echo live; fi
if probe "$READY"; then echo ready; fi
echo "ldap: $(as_admin ldapwhoami -ZZ -H "ldap://10.1.2.3:$port_ldap")"
echo "ldaps: $(as_admin ldapwhoami -H "ldaps://10.1.2.3:$port_ldaps")"
as_admin ldapadd -x -H "ldap://127.0.0.1:$port_ldap" <<'E' | grep .
dn: dc=example,dc=com
objectClass: domain
dc: example
E
stop
start
echo restarted
find_base
stop
echo "written to the root: $(find "$TREE" -newer /mnt/answer -type f | grep -q . && echo yes || echo no)"
