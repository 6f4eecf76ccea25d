#!/bin/sh
# slapd with memberOf by overlay dynlist: what an entry costs grows with the number of groups in the directory.
#
# slapo-memberof(5) of OpenLDAP 2.5 calls itself deprecated and recommends dynlist, which computes the values of static
# groups ("member+memberOf@groupOfNames"). One search finds 2,000 people, each in two groups, without and with memberOf.
# Server CPU of Debian's slapd 2.5.13, back-mdb, member indexed:
#
#	groups | uid    | memberOf
#	100    | 0.01 s | 0.28 s
#	400    | 0.01 s | 1.25 s
#
# The number of values is the same. So a client that reads all people with memberOf is the most expensive one of such a
# server: 20,000 people in 1,000 groups took 46 s. An index of member does not help.
#
# Seen on 2026-11-29. It needs Debian 12, python3 and ldapsearch. It fails if 400 groups cost less than twice what 100 cost.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); pid=; trap '[ -z "$pid" ] || kill $pid 2> /dev/null || :; rm -rf "$dir"' EXIT
"$here/debs" "$dir" slapd=2.5.13+dfsg-5
export LD_LIBRARY_PATH="$dir/root/usr/lib/$(uname -m)-linux-gnu"
mods=$(dirname "$(find "$dir/root/usr/lib" -name back_mdb.so)")
cat > "$dir/people.py" <<'P'
import sys
groups, people = int(sys.argv[1]), 2000
print("dn: dc=example,dc=com\nobjectClass: domain\n")
for i in range(people):
    print(f"dn: uid=u{i},dc=example,dc=com\nobjectClass: inetOrgPerson\nuid: u{i}\ncn: U\nsn: U\n")
for g in range(groups):
    print(f"dn: cn=g{g},dc=example,dc=com\nobjectClass: groupOfNames\ncn: g{g}")
    for i in range(people):
        if i % groups in (g, (g + 1) % groups):
            print(f"member: uid=u{i},dc=example,dc=com")
    print()
P
cpu() { awk -v hz="$(getconf CLK_TCK)" '{print ($14 + $15) / hz}' "/proc/$pid/stat"; }
for groups in 100 400; do
	rm -rf "$dir/db"; mkdir "$dir/db"
	cat > "$dir/slapd.conf" <<C
include $dir/root/etc/ldap/schema/core.schema
include $dir/root/etc/ldap/schema/cosine.schema
include $dir/root/etc/ldap/schema/inetorgperson.schema
include $dir/root/etc/ldap/schema/dyngroup.schema
modulepath $mods
moduleload back_mdb
moduleload dynlist
sizelimit unlimited
database mdb
suffix dc=example,dc=com
directory $dir/db
maxsize 1073741824
index objectClass,member eq
overlay dynlist
dynlist-attrset groupOfURLs memberURL member+memberOf@groupOfNames
C
	python3 "$dir/people.py" $groups > "$dir/people.ldif"
	"$dir/root/usr/sbin/slapd" -T add -q -f "$dir/slapd.conf" -l "$dir/people.ldif"
	url="ldapi://$(echo "$dir/socket" | sed 's,/,%2F,g')"
	"$dir/root/usr/sbin/slapd" -d 0 -f "$dir/slapd.conf" -h "$url" &
	pid=$!
	ask() { ldapsearch -x -LLL -H "$url" -b dc=example,dc=com '(objectClass=inetOrgPerson)' "$1" 2>> "$dir/log"; }
	for i in 1 2 3 4 5 6 7 8 9; do ask 1.1 > "$dir/out" && break; sleep 1; done
	for what in uid memberOf; do
		before=$(cpu)
		ask $what > "$dir/out"
		after=$(cpu)
		n=$(grep -ci "^$what:" "$dir/out" || :)
		echo "$groups groups, $what: $n values, $(echo "$before $after" | awk '{printf "%.2f", $2 - $1}') s"
		[ $what = uid ] || [ "$n" = 4000 ] || { echo "expected 4000 values"; exit 1; }
	done
	kill $pid; wait $pid || :; pid=
	echo "$before $after" | awk '{print $2 - $1}' >> "$dir/times"
done
awk 'NR == 1 { few = $1 } END { exit !($1 > 2 * few) }' "$dir/times" || { echo "400 groups no longer cost more than twice what 100 cost"; exit 1; }
