#!/bin/sh
# Backstage compares names as strings, so members whose names are written in another way than the entry's are in no group.
#
# @backstage/plugin-catalog-backend-module-ldap 0.12.9, readLdapOrg, with entries as servers return them that keep values as they
# were written (389, ldapd; slapd rewrites them):
#
# 1. It looks a member up by the string and by the string in lower case. A space after a comma, or \2c for \, makes it another
#    name: the user is read, and has no group. Upper case alone does no harm.
# 2. A user with two mail addresses has none, and likewise for a display name, a description or a picture with two values.
#
# No error or warning in either case. docs/libraries.md says how to write members.
#
# Seen on 2026-11-28 with Node 20. It needs npm. It fails if one of the two changes.
set -eu
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @backstage/plugin-catalog-backend-module-ldap@0.12.9 > log 2>&1 || { cat log; exit 1; }
cat > read.js <<'J'
const { readLdapOrg } = require("@backstage/plugin-catalog-backend-module-ldap")
const entries = {
  "ou=people": [
    { entryDN: "uid=ann,ou=people,dc=example", uid: "ann", mail: "ann@mail.example" },
    { entryDN: "uid=bob,ou=people,dc=example", uid: "bob", mail: ["bob@mail.example", "bob@other.example"] },
    { entryDN: "uid=carl\\,jr,ou=people,dc=example", uid: "carl", mail: "carl@mail.example" },
  ],
  "ou=groups": [{
    entryDN: "cn=staff,ou=groups,dc=example", cn: "staff",
    member: ["UID=ann,OU=people,dc=example", "uid=bob, ou=people, dc=example", "uid=carl\\2cjr,ou=people,dc=example"],
  }],
}
const client = {
  search: async (dn) => ({ searchEntries: entries[dn] }),
  getVendor: async () => ({
    dnAttributeName: "entryDN", uuidAttributeName: "entryUUID", decodeStringAttribute: (e, name) => [].concat(e[name] ?? []),
  }),
}
const people = { dn: "ou=people", options: {}, map: { rdn: "uid", name: "uid", email: "mail" } }
const groups = { dn: "ou=groups", options: {}, map: { rdn: "cn", name: "cn", members: "member" } }
readLdapOrg(client, [people], [groups], undefined, {}).then(({ users }) => {
  for (const u of users) console.log(u.metadata.name, u.spec.profile.email, u.spec.memberOf)
})
J
node read.js > seen
cat seen
cat > expected <<'X'
ann ann@mail.example [ 'group:default/staff' ]
bob undefined []
carl carl@mail.example []
X
diff expected seen && echo "as described"
