#!/bin/sh
# scim2/filter-parser, the Go parser of SCIM filters that elimity-com/scim uses, treats strings with escapes wrongly.
#
# A value in a SCIM filter is a JSON string (RFC 7644, 3.4.2.2: compValue). github.com/scim2/filter-parser/v2 2.3.1
#
# 1. refuses userName eq "caf\u00e9", with an error that names functions of the parser, and
# 2. accepts userName eq "x\"y" and returns the value x\"y, with the backslash, so that a program that compares it with
#    stored values finds nothing, and no error says so.
#
# A client that escapes what JSON permits to escape (Python's json.dumps writes every letter that is not ASCII as \u) is
# therefore refused, or answered with no results. What ldapd does about it is in docs/decisions/0056-scim.md.
#
# Seen on 2026-11-28 with Go 1.26.8. It needs go. It fails if one of the two changes.
set -eu
dir=$(mktemp -d); trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat > go.mod <<'M'
module finding

go 1.25

require github.com/scim2/filter-parser/v2 v2.3.1
M
cat > main.go <<'G'
package main

import (
	"fmt"

	filter "github.com/scim2/filter-parser/v2"
)

func main() {
	_, err := filter.ParseFilter([]byte(`userName eq "caf\u00e9"`))
	fmt.Println("refused", err != nil)
	x, err := filter.ParseFilter([]byte(`userName eq "x\"y"`))
	if err != nil {
		panic(err)
	}
	fmt.Println("value", x.(*filter.AttributeExpression).CompareValue)
}
G
GOFLAGS=-mod=mod GOMODCACHE="$dir/cache" go run . 2> log > seen || { cat log; exit 1; }
printf 'refused true\nvalue x\\"y\n' > want
diff want seen
cat seen
