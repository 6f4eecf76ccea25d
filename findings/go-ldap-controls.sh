#!/bin/sh
# go-ldap reports every sort as successful, loses the cookie of a synchronization, and gives one of several places of an entry.
#
# github.com/go-ldap/ldap/v3 3.4.15, beside Debian's slapd 2.5.13:
#
# 1. ControlServerSideSortingResult.Result is 0 (success) whatever the server has answered. A server that cannot sort returns the
#    entries as they are, and says so in this control (RFC 2891, 1.2): here with 16, noSuchAttribute. The program takes the first
#    entry for the smallest one.
# 2. Syncrepl: if an entry outside the content changes, the server sends a new cookie (RFC 4533, 2.5: newcookie). It is empty in
#    ControlSyncInfo.NewCookie. A program that stores the newest cookie stores this one, and reads everything again when it
#    begins the next time. The cookies in other messages are right.
# 3. A search reference has a URL for each server that holds the entries (RFC 4511, 4.5.3). Referrals has the first one only, so the
#    program has nowhere to go if that server is down.
#
# No error in any of them. docs/libraries.md says what to do.
#
# Seen on 2026-11-29 with Go 1.26.8. It needs root, Debian 12, go and unshare. It fails if one of the three changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
"$here/debs" "$dir" slapd=2.5.13+dfsg-5 ldap-utils=2.5.13+dfsg-5
cd "$dir"
cat > go.mod <<'M'
module finding

go 1.25

require (
	github.com/go-asn1-ber/asn1-ber v1.5.8
	github.com/go-ldap/ldap/v3 v3.4.15
)
M
cat > main.go <<'G'
package main

import (
	"context"
	"encoding/hex"
	"fmt"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	// SEQUENCE { "1.2.840.113556.1.4.474", SEQUENCE { ENUMERATED 16 } }
	control := must(hex.DecodeString("301f0416" + hex.EncodeToString([]byte("1.2.840.113556.1.4.474")) + "040530030a0110"))
	fmt.Println("sort", must(ldap.DecodeControl(ber.DecodePacket(control))).(*ldap.ControlServerSideSortingResult).Result)

	c := must(ldap.DialURL("ldap://127.0.0.1"))
	all := ldap.NewSearchRequest("dc=example", ldap.ScopeWholeSubtree, 0, 0, 0, false, "(objectClass=*)", nil, nil)
	fmt.Println("references", must(c.Search(all)).Referrals)

	ctx, stop := context.WithCancel(context.Background())
	ann := func() *ldap.SearchRequest { // Syncrepl appends its control to the request
		return ldap.NewSearchRequest("dc=example", ldap.ScopeWholeSubtree, 0, 0, 0, false, "(cn=ann)", nil, nil)
	}
	var older, newest []byte
	for r := c.Syncrepl(ctx, ann(), 1, ldap.SyncRequestModeRefreshAndPersist, nil, false); r.Next(); {
		for _, control := range r.Controls() {
			info, ok := control.(*ldap.ControlSyncInfo)
			if !ok {
				continue
			}
			if info.RefreshDelete != nil {
				older = info.RefreshDelete.Cookie
				fmt.Printf("refreshDelete %.12s...\n", older)
				d := must(ldap.DialURL("ldap://127.0.0.1"))
				must(0, d.Bind("cn=admin,dc=example", "secret"))
				change := ldap.NewModifyRequest("cn=bob,dc=example", nil)
				change.Replace("sn", []string{"b"})
				must(0, d.Modify(change))
			}
			if info.NewCookie != nil {
				newest = info.NewCookie.Cookie
				fmt.Printf("newcookie %q\n", newest)
				stop()
			}
		}
	}
	for _, cookie := range [][]byte{older, newest} {
		n := 0
		d := must(ldap.DialURL("ldap://127.0.0.1"))
		r := d.Syncrepl(context.Background(), ann(), 1, ldap.SyncRequestModeRefreshOnly, cookie, false)
		for r.Next() {
			if r.Entry() != nil {
				n++
			}
		}
		must(0, r.Err())
		fmt.Printf("entries from %.12q on: %d\n", cookie, n)
	}
}
G
GOFLAGS=-mod=mod GOMODCACHE="$dir/cache" go build -o finding . 2> go.log || { cat go.log; exit 1; }
cat > run.sh <<'S'
ip link set lo up
mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
mkdir db
printf '%s\n' "include $PWD/root/etc/ldap/schema/core.schema" 'modulepath /usr/lib/ldap' 'moduleload syncprov' 'database ldif' \
	'suffix dc=example' "directory $PWD/db" 'rootdn cn=admin,dc=example' 'rootpw secret' 'overlay syncprov' > slapd.conf
printf '%s\n' 'dn: dc=example' 'objectClass: dcObject' 'objectClass: organization' 'o: x' 'dc: example' '' \
	'dn: cn=ann,dc=example' 'objectClass: person' 'cn: ann' 'sn: a' '' 'dn: cn=bob,dc=example' 'objectClass: person' 'cn: bob' 'sn: x' '' \
	'dn: ou=there,dc=example' 'objectClass: referral' 'objectClass: extensibleObject' 'ou: there' \
	'ref: ldap://one.example/ou=people' 'ref: ldap://two.example/ou=people' > x.ldif
"$1/slapd"
ldapsearch -x -LLL -H ldap://127.0.0.1 -b dc=example -s sub '(ou=there)' 1.1 | sed -n 's/^# ref/ldapsearch /p'
timeout 60 ./finding
S
unshare --mount --net --pid --fork --kill-child --mount-proc sh run.sh "$here" > seen
cat seen
cat > expected <<'X'
ldapsearch ldap://one.example/ou=people??sub
ldapsearch ldap://two.example/ou=people??sub
sort 0
references [ldap://one.example/ou=people??sub]
refreshDelete rid=000,csn=...
newcookie ""
entries from "rid=000,csn=" on: 0
entries from "" on: 1
X
diff expected seen && echo "as described"
