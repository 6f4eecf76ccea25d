#!/bin/sh
# ldapjs sends other names than those that it is given, so a delete may delete another entry; ldaptor reads other names.
#
# 1. ldapjs 3.0.7 (@ldapjs/dn 1.1.0) parses each name that it is given, and writes it again before it sends it. It does not
#    escape a backslash of a value, drops spaces at its ends although they are escaped, and cuts a value at an escaped plus sign
#    if the RDN has more parts. cn=CORP\\dave becomes CORP, the octet da and ve; cn=a\\,dc=x one RDN, without a parent;
#    cn=a\+b+sn=c becomes cn=a+sn=c. It writes the names of entries that it finds in the same way, so a program that finds such
#    an entry cannot read it by its name.
# 2. ldaptor 21.2.0 reads \c4\8d, the letter č, as two letters, and \C4 as the letter C and the digit 4. go-ldap's DN.String writes
#    the first, ldaptive and RFC 4514 (section 4) the second.
#
# No error in any of them. ldapts 9.2.0 sends names as they are. docs/libraries.md says so.
#
# Seen on 2026-11-28 with Node 20 and Python 3.11. It needs npm and python3. It fails if one of the two changes.
set -eu
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund ldapjs@3.0.7 @ldapjs/dn@1.1.0 ldapts@9.2.0 > log 2>&1 || { cat log; exit 1; }
python3 -m venv py && py/bin/pip install -q --disable-pip-version-check ldaptor==21.2.0 > log 2>&1 || { cat log; exit 1; }
cat > delete.js <<'J'
// Deletes entries at a server that answers success, and prints their names as the server receives them.
const net = require("net")
const names = process.argv.slice(2)
const received = []
const server = net.createServer((s) => s.on("data", (d) => {
  if (d[5] != 0x4a) return s.end()
  received.push(d.subarray(7, 7 + d[6]).toString())
  s.write(Buffer.from([0x30, 12, 2, 1, d[4], 0x6b, 7, 10, 1, 0, 4, 0, 4, 0]))
}))
const ldapjs = (url) => new Promise((done) => {
  const c = require("ldapjs").createClient({ url })
  const next = (n) => n.length == 0 ? (c.unbind(), done()) : c.del(n[0], () => next(n.slice(1)))
  next(names)
})
const ldapts = async (url) => {
  const c = new (require("ldapts").Client)({ url })
  for (const n of names) await c.del(n)
  await c.unbind()
}
server.listen(0, "127.0.0.1", async () => {
  const url = "ldap://127.0.0.1:" + server.address().port
  await ldapjs(url)
  names.forEach((n) => console.log("ldapjs", n, "sent as", received.shift()))
  await ldapts(url)
  names.forEach((n) => console.log("ldapts", n, "sent as", received.shift()))
  server.close()
})
J
NODE_NO_WARNINGS=1 node delete.js 'cn=CORP\\dave,dc=x' 'cn=a\\,dc=x' 'cn=\ a\ ,dc=x' 'cn=a\+b+sn=c,dc=x' > seen
py/bin/python >> seen <<'P'
from ldaptor.protocols.ldap.distinguishedname import DistinguishedName
for name in r"sn=Lu\c4\8di\c4\87", r"sn=Lu\C4\8Di\C4\87":
    print("ldaptor", name, ascii(DistinguishedName(name).getText()))
P
cat seen
cat > expected <<'X'
ldapjs cn=CORP\\dave,dc=x sent as cn=CORP\dave,dc=x
ldapjs cn=a\\,dc=x sent as cn=a\,dc=x
ldapjs cn=\ a\ ,dc=x sent as cn=,dc=x
ldapjs cn=a\+b+sn=c,dc=x sent as cn=a+sn=c,dc=x
ldapts cn=CORP\\dave,dc=x sent as cn=CORP\\dave,dc=x
ldapts cn=a\\,dc=x sent as cn=a\\,dc=x
ldapts cn=\ a\ ,dc=x sent as cn=\ a\ ,dc=x
ldapts cn=a\+b+sn=c,dc=x sent as cn=a\+b+sn=c,dc=x
ldaptor sn=Lu\c4\8di\c4\87 'sn=Lu\xc4\x8di\xc4\x87'
ldaptor sn=Lu\C4\8Di\C4\87 'sn=LuC4\x8diC4\x87'
X
diff expected seen && echo "as described"
