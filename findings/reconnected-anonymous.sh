#!/bin/sh
# ldapts and ldapjs connect again if a server has closed an idle connection, and go on as anonymous, without an error.
#
# Beside Debian's slapd 2.5.13, which closes connections after an idle second here:
#
# 1. ldapts 9.2.0 makes a new connection for each request that finds none, and does not bind again. A program that has bound once
#    gets the answers that anonymous clients get: here no people, where there was one before the pause.
# 2. ldapjs 3.0.7 with reconnect: true does the same. Without this option neither a result nor an error comes, for five seconds.
#
# A synchronization that takes what it does not find for deleted, deletes all people. A restart of the server ends connections,
# too. ldapd closes connections that are idle for limits.idle. docs/libraries.md says what to do.
#
# Seen on 2026-11-28 with Node 20. It needs root, Debian 12, npm and unshare. It fails if one of the two changes.
set -eu
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/debs/partial" "$dir/root"
for p in slapd=2.5.13+dfsg-5 ldap-utils=2.5.13+dfsg-5; do
	apt-get install -y -qq --reinstall --no-install-recommends --download-only -o Dir::Cache::archives="$dir/debs" \
		-o APT::Sandbox::User=root $p > "$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
done
for deb in "$dir"/debs/*.deb; do dpkg-deb -x "$deb" "$dir/root"; done
cd "$dir"
npm install --silent --no-audit --no-fund ldapts@9.2.0 ldapjs@3.0.7 > log 2>&1 || { cat log; exit 1; }
cat > search.js <<'J'
const url = "ldap://127.0.0.1"
const pause = (ms) => new Promise((done) => setTimeout(done, ms))
const ldapts = async () => {
  const c = new (require("ldapts").Client)({ url })
  const people = async () => (await c.search("dc=example", { filter: "(objectClass=person)" })).searchEntries.length
  await c.bind("cn=ann,dc=example", "secret")
  console.log("ldapts", await people())
  await pause(5000)
  console.log("ldapts after a pause", await people())
  await c.unbind()
}
const ldapjs = async (options) => {
  const c = require("ldapjs").createClient({ url, ...options })
  c.on("error", (e) => console.log("ldapjs error", e.message))
  const people = () => new Promise((done) => {
    let n = 0
    c.search("dc=example", { scope: "sub", filter: "(objectClass=person)" }, (e, r) => {
      if (e) return done(e.message)
      r.on("searchEntry", () => n++)
      r.on("error", (e) => done(e.message))
      r.on("end", () => done(n))
    })
  })
  await new Promise((done) => c.bind("cn=ann,dc=example", "secret", done))
  console.log("ldapjs", options, await people())
  await pause(5000)
  console.log("ldapjs", options, "after a pause", await Promise.race([people(), pause(5000)]))
  c.destroy()
}
ldapts().then(() => ldapjs({ reconnect: true })).then(() => ldapjs({}))
J
cat > run.sh <<'S'
ip link set lo up
mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
mkdir db
printf '%s\n' "include $PWD/root/etc/ldap/schema/core.schema" 'idletimeout 1' 'database ldif' 'suffix dc=example' "directory $PWD/db" \
	'access to attrs=userPassword by anonymous auth' 'access to filter=(objectClass=person) by users read by anonymous auth' \
	'access to * by * read' > slapd.conf
printf '%s\n' 'dn: dc=example' 'objectClass: dcObject' 'objectClass: organization' 'o: x' 'dc: example' '' \
	'dn: cn=ann,dc=example' 'objectClass: person' 'cn: ann' 'sn: x' 'userPassword: secret' > x.ldif
slapadd -f slapd.conf -l x.ldif 2> slapd.log
slapd -f slapd.conf -h ldap://127.0.0.1 -d 0 2>> slapd.log &
for try in $(seq 100); do
	ldapwhoami -x -H ldap://127.0.0.1 > whoami 2>&1 && break
	sleep 0.1
done
NODE_NO_WARNINGS=1 node search.js
S
unshare --mount --net --pid --fork --kill-child --mount-proc sh run.sh > seen
cat seen
cat > expected <<'X'
ldapts 1
ldapts after a pause 0
ldapjs { reconnect: true } 1
ldapjs { reconnect: true } after a pause 0
ldapjs {} 1
ldapjs {} after a pause undefined
X
diff expected seen && echo "as described"
