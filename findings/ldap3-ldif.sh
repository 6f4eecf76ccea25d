#!/bin/sh
# ldap3 for Python writes LDIF without some critical controls, and mixes entries if their lines are to have an order.
#
# ldap3 2.9.1:
#
# 1. A connection with the strategy LDIF writes changes instead of making them, with their controls (RFC 2849: control). It leaves
#    out each control that has no value: subtree delete, no-op, manageDsaIT, don't use copy. Who applies the file to a server makes
#    a change that was to be tried only (no-op), or changes what a referral names instead of the referral, and no error says so.
#    A control with a value is written.
# 2. Connection.response_to_ldif(sort_order=["dn", "sn"]) sorts the lines of all entries together: the names of all entries come
#    first, then their values, and it no longer says whose they are. Without sort_order the entries are right.
#
# docs/libraries.md says so.
#
# Seen on 2026-11-28 with Python 3.11. It needs python3. It fails if one of the two changes.
set -eu
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv py && py/bin/pip install -q --disable-pip-version-check ldap3==2.9.1 pyasn1==0.6.1 > log 2>&1 || { cat log; exit 1; }
cat > seen.py <<'P'
from ldap3 import LDIF, MOCK_SYNC, Connection, Server

c = Connection(None, client_strategy=LDIF)
c.open()
print(c.delete("cn=a,dc=x", controls=[("1.3.6.1.4.1.4203.1.10.2", True, None)]))  # no-op
print(c.delete("cn=a,dc=x", controls=[("1.3.6.1.1.12", True, b"v")]))  # assertion

c = Connection(Server("x"), client_strategy=MOCK_SYNC)
for name, surname in ("ann", "Zeta"), ("bob", "Alpha"):
    c.strategy.add_entry(f"cn={name},dc=x", {"objectClass": "person", "cn": name, "sn": surname})
c.bind()
c.search("dc=x", "(objectClass=person)", attributes=["cn", "sn"])
entries = sorted(c.response, key=lambda e: e["dn"])  # the mock has no order
print(c.response_to_ldif(entries, sort_order=["dn", "sn"]))
P
py/bin/python seen.py > seen
cat seen
cat > expected <<'X'
version: 1
dn: cn=a,dc=x
changetype: delete
version: 1
dn: cn=a,dc=x
control: 1.3.6.1.1.12 true: v
changetype: delete
version: 1
dn: cn=ann,dc=x
dn: cn=bob,dc=x
sn: Zeta
sn: Alpha
cn: ann

cn: bob

# total number of entries: 2
X
diff expected seen && echo "as described"
