#!/bin/sh
# Four libraries connect again if a server has closed an idle connection, and go on as anonymous, without an error.
#
# Beside Debian's slapd 2.5.13, which closes connections after an idle second here:
#
# 1. ldapts 9.2.0 and Apache's LDAP API 2.1.9 (LdapNetworkConnection) make a new connection for a request that finds none, and do
#    not bind again. A program that has bound once gets the answers that anonymous clients get: here no people, where there was
#    one before the pause.
# 2. ldaptive 2.5.0 does the same if the bind was an operation (SimpleBindRequest): autoReconnect is on unless it is switched off.
#    With a BindConnectionInitializer it binds again.
# 3. ldapjs 3.0.7 with reconnect: true does the same, too. Without this option neither a result nor an error comes, for five seconds.
#
# A synchronization that takes what it does not find for deleted, deletes all people. A restart of the server ends connections,
# too. ldapd closes connections that are idle for limits.idle. docs/libraries.md says what to do. UnboundID's SDK and ldap3's
# strategies RESTARTABLE and REUSABLE bind again; JNDI, net-ldap and ldap3's other strategies return an error.
#
# Seen on 2026-11-28 with Node 20 and Java 17. It needs root, Debian 12, npm, mvn, java and unshare. It fails if one of the three
# changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" slapd=2.5.13+dfsg-5 ldap-utils=2.5.13+dfsg-5
cd "$dir"
npm install --silent --no-audit --no-fund ldapts@9.2.0 ldapjs@3.0.7 > log 2>&1 || { cat log; exit 1; }
"$here/jars" jars org.apache.directory.api:api-all:2.1.9 org.ldaptive:ldaptive:2.5.0
cat > Search.java <<'J'
import org.apache.directory.api.ldap.model.cursor.EntryCursor;
import org.apache.directory.api.ldap.model.message.SearchScope;
import org.apache.directory.ldap.client.api.LdapNetworkConnection;
import org.ldaptive.*;

public class Search {
    static int apache(LdapNetworkConnection c) throws Exception {
        int n = 0;
        try (EntryCursor found = c.search("dc=example", "(objectClass=person)", SearchScope.SUBTREE)) {
            while (found.next()) n++;
        }
        return n;
    }

    static int ldaptive(Connection c) throws Exception {
        return c.operation(SearchRequest.builder().dn("dc=example").filter("(objectClass=person)").build()).execute().entrySize();
    }

    public static void main(String[] args) throws Exception {
        LdapNetworkConnection apache = new LdapNetworkConnection("127.0.0.1", 389);
        apache.bind("cn=ann,dc=example", "secret");
        System.out.println("Apache " + apache(apache));
        Connection operation = new DefaultConnectionFactory("ldap://127.0.0.1").getConnection();
        operation.open();
        operation.operation(SimpleBindRequest.builder().dn("cn=ann,dc=example").password("secret").build()).execute();
        System.out.println("ldaptive, bind as an operation " + ldaptive(operation));
        Connection initializer = new DefaultConnectionFactory(ConnectionConfig.builder().url("ldap://127.0.0.1")
            .connectionInitializers(new BindConnectionInitializer("cn=ann,dc=example", new Credential("secret"))).build()).getConnection();
        initializer.open();
        System.out.println("ldaptive, bind as initializer " + ldaptive(initializer));
        Thread.sleep(5000);
        System.out.println("Apache after a pause " + apache(apache));
        System.out.println("ldaptive, bind as an operation after a pause " + ldaptive(operation));
        System.out.println("ldaptive, bind as initializer after a pause " + ldaptive(initializer));
        System.exit(0);
    }
}
J
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
"$1/slapd"
java -cp 'jars/*' Search.java 2> java.log || cat java.log
NODE_NO_WARNINGS=1 node search.js
S
unshare --mount --net --pid --fork --kill-child --mount-proc sh run.sh "$here" > seen
cat seen
cat > expected <<'X'
Apache 1
ldaptive, bind as an operation 1
ldaptive, bind as initializer 1
Apache after a pause 0
ldaptive, bind as an operation after a pause 0
ldaptive, bind as initializer after a pause 1
ldapts 1
ldapts after a pause 0
ldapjs { reconnect: true } 1
ldapjs { reconnect: true } after a pause 0
ldapjs {} 1
ldapjs {} after a pause undefined
X
diff expected seen && echo "as described"
