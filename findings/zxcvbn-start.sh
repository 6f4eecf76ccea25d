#!/bin/sh
# Each start of a Go program that links zxcvbn fills its dictionaries, whether it checks a password or not.
#
# github.com/trustelem/zxcvbn 1.0.1 (2019, the port that gives the scores of the original) makes maps of its word lists in
# the initialisation of package matching: 9.9 MB, and two garbage collections while the maps grow. The command ldapd version
# takes 55 ms of CPU with GOGC=100, 34 with GOGC=400. A package that turns garbage collection off first is no help: it
# imports runtime/debug, and among packages that are ready Go initialises "github.com/..." before "runtime/debug".
#
# Seen on 2026-11-28 with Go 1.26.8. It needs go. It fails if the initialisation allocates less than 5 MB.
set -eu
dir=$(mktemp -d); trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat > go.mod <<'M'
module finding

go 1.25

require github.com/trustelem/zxcvbn v1.0.1
M
cat > main.go <<'G'
package main

import "github.com/trustelem/zxcvbn"

var check = zxcvbn.PasswordStrength // linked, not called

func main() { _ = check }
G
GOFLAGS=-mod=mod GOMODCACHE="$dir/cache" go build -o start . 2> log || { cat log; exit 1; }
GODEBUG=inittrace=1 ./start 2> trace
grep 'zxcvbn/matching' trace
awk '/zxcvbn\/matching/ { for (i = 2; i <= NF; i++) if ($i ~ /^bytes/) bytes = $(i - 1) } END { exit bytes < 5000000 }' trace
