#!/bin/sh
# Four libraries send a filter with escapes of RFC 4515 as another filter, which selects nothing, and no error says so.
#
# In a filter string, \c4\8d is two octets: here the letter č, in (sn=Lu\c4\8di\c4\87), an example of RFC 4515, section 4. Other
# libraries write such escapes: go-ldap's EscapeFilter and UnboundID's Filter.toString escape all that is not ASCII.
#
# 1. ldapts 9.2.0, Ruby's net-ldap 0.17.0 (Debian 12) and ldaptor 21.2.0 take each escape as the character of this number and
#    encode it in UTF-8: c4 is sent as c3 84. Escapes below 80 are right. No string searches for octets that are no text, as
#    those of a certificate or a GUID.
# 2. ldapjs 3.0.7 sends escapes as they stand, also those that every filter needs: (cn=a\28b\29) asks for a cn with backslashes.
# 3. ldapauth-fork 6.1.0, which logs users in by ldapjs, puts their names in filters for groups, (member={{dn}}), with escapes. A
#    user whose name has a parenthesis, an escaped comma or a letter that is not ASCII is in no group.
#
# Letters that are not escaped are sent as they are, and so are the values of filters that are objects, without escapes.
# docs/libraries.md says so.
#
# Seen on 2026-11-28 with Node 20 and Python 3.11. It needs root, Debian 12, npm, python3 and unshare. It fails if one of the three
# changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" "ruby ruby-net-ldap=0.17.0-1" slapd=2.5.13+dfsg-5 ldap-utils=2.5.13+dfsg-5
cd "$dir"
npm install --silent --no-audit --no-fund ldapts@9.2.0 ldapjs@3.0.7 ldapauth-fork@6.1.0 > log 2>&1 || { cat log; exit 1; }
python3 -m venv py && py/bin/pip install -q --disable-pip-version-check ldaptor==21.2.0 > log 2>&1 || { cat log; exit 1; }
cat > filters <<'F'
(sn=Lu\c4\8di\c4\87)
(cn=a\28b\29)
F
cat > ldapts.js <<'J'
const { Client } = require("ldapts")
const run = async () => {
  const c = new Client({ url: "ldap://127.0.0.1" })
  for (const filter of require("fs").readFileSync("filters", "utf8").trim().split("\n"))
    console.log("ldapts", filter, (await c.search("dc=example", { filter })).searchEntries.length)
  await c.unbind()
}
run()
J
cat > ldapjs.js <<'J'
const c = require("ldapjs").createClient({ url: "ldap://127.0.0.1" })
const next = (filters) => {
  if (filters.length == 0) return c.unbind()
  let n = 0
  c.search("dc=example", { scope: "sub", filter: filters[0] }, (e, r) => {
    r.on("searchEntry", () => n++)
    r.on("end", () => { console.log("ldapjs", filters[0], n); next(filters.slice(1)) })
  })
}
next(require("fs").readFileSync("filters", "utf8").trim().split("\n"))
J
cat > ldapauth.js <<'J'
const LdapAuth = require("ldapauth-fork")
const auth = new LdapAuth({
  url: "ldap://127.0.0.1", bindDN: "cn=carl,dc=example", bindCredentials: "secret", searchBase: "dc=example",
  searchFilter: "(description={{username}})", groupSearchBase: "dc=example", groupSearchFilter: "(member={{dn}})",
})
const next = (users) => users.length == 0 ? auth.close() : auth.authenticate(users[0], "secret", (e, user) => {
  console.log("ldapauth-fork", user.dn, "is in", user._groups.length, "groups")
  next(users.slice(1))
})
next(["1", "2"])
J
cat > net.rb <<'R'
require "net/ldap"
c = Net::LDAP.new(host: "127.0.0.1", base: "dc=example")
File.readlines("filters", chomp: true).each { |f| puts "net-ldap #{f} #{c.search(filter: f).size}" }
R
cat > run.sh <<'S'
ip link set lo up
mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
mkdir db
printf '%s\n' "include $PWD/root/etc/ldap/schema/core.schema" 'database ldif' 'suffix dc=example' "directory $PWD/db" > slapd.conf
printf '%s\n' 'dn: dc=example' 'objectClass: dcObject' 'objectClass: organization' 'o: x' 'dc: example' '' \
	'dn: cn=carl,dc=example' 'objectClass: person' 'cn: carl' 'sn: x' 'description: 1' 'userPassword: secret' '' \
	'dn: cn=a(b),dc=example' 'objectClass: person' 'cn: a(b)' 'sn: Lučić' 'description: 2' 'userPassword: secret' '' \
	'dn: cn=staff,dc=example' 'objectClass: groupOfNames' 'cn: staff' 'member: cn=carl,dc=example' 'member: cn=a(b),dc=example' > x.ldif
"$1/slapd"
while read -r f; do
	printf 'ldapsearch %s %s\n' "$f" "$(ldapsearch -x -H ldap://127.0.0.1 -b dc=example -LLL "$f" 1.1 | grep -c ^dn:)"
done < filters
export NODE_NO_WARNINGS=1
node ldapts.js
node ldapjs.js
node ldapauth.js
ruby net.rb
S
unshare --mount --net --pid --fork --kill-child --mount-proc sh run.sh "$here" > seen
py/bin/python >> seen <<'P'
from ldaptor.ldapfilter import parseFilter
for line in open("filters"):
    print("ldaptor", line.strip(), "sends", parseFilter(line.strip()).assertionValue.toWire()[2:])
P
cat seen
cat > expected <<'X'
ldapsearch (sn=Lu\c4\8di\c4\87) 1
ldapsearch (cn=a\28b\29) 1
ldapts (sn=Lu\c4\8di\c4\87) 0
ldapts (cn=a\28b\29) 1
ldapjs (sn=Lu\c4\8di\c4\87) 0
ldapjs (cn=a\28b\29) 0
ldapauth-fork cn=carl,dc=example is in 1 groups
ldapauth-fork cn=a(b),dc=example is in 0 groups
net-ldap (sn=Lu\c4\8di\c4\87) 0
net-ldap (cn=a\28b\29) 1
ldaptor (sn=Lu\c4\8di\c4\87) sends b'Lu\xc3\x84\xc2\x8di\xc3\x84\xc2\x87'
ldaptor (cn=a\28b\29) sends b'a(b)'
X
diff expected seen && echo "as described"
