#!/bin/sh
# python-ldap reads change records of LDIF as fewer changes, and one kind of replacement as a deletion.
#
# Debian's python3-ldap 3.4.3, module ldif, LDIFRecordList.parse_change_records and all_modify_changes:
#
# 1. Types of attributes do not differ by case. If the case of a value's line differs from that of the line before it (replace:
#    givenName, then givenname: Ann), the value is dropped. A replacement without values deletes the attribute.
# 2. Records with changetype add, delete or modrdn are left out. Only if one is the last record, there is an EOFError.
# 3. Controls are dropped, critical ones too: no-op, an assertion.
#
# Who applies such a file (an audit log, a changelog) by modify_s loses values and changes, without an error. docs/libraries.md says
# so.
#
# Seen on 2026-11-28. It needs root, Debian 12 and unshare. It fails if one of the three changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" python3-ldap=3.4.3-2+deb12u1
cd "$dir"
cat > changes.ldif <<'L'
dn: cn=ann,dc=x
changetype: modify
replace: givenName
givenname: Ann
-
add: mail
mail: ann@mail.example
-

dn: cn=bob,dc=x
changetype: delete

dn: cn=carl,dc=x
changetype: add
objectClass: person
cn: carl
sn: Berg

dn: cn=dora,dc=x
control: 1.3.6.1.4.1.4203.1.10.2 true
changetype: modify
replace: sn
sn: Tal
-
L
cat > read.py <<'P'
import ldif

records = ldif.LDIFRecordList(open("changes.ldif", "rb"))
records.parse_change_records()
for name, changes, controls in records.all_modify_changes:
    print(name, changes, controls)
P
unshare -m sh -c 'mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr; /usr/bin/python3 read.py' > seen
cat seen
cat > expected <<'X'
cn=ann,dc=x [(2, 'givenName', None), (0, 'mail', [b'ann@mail.example'])] None
cn=dora,dc=x [(2, 'sn', [b'Tal'])] None
X
diff expected seen && echo "as described"
