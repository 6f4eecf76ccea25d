#!/bin/sh
# gohbase (cfe2cb9e6df3, 2026-06-13): a reversed scan without a start row reads the first region only, without an error.
#
# 1. Of a table with the regions -c, c-e and e-, a scan answers a b c d e f, and with hrpc.Reversed() b a.
# 2. With a start row behind the last key the reversed scan answers all six: a program must state one, and there
#    is no key that is behind all others.
# 3. CheckAndPut with an expected value of nil, which stands for absence, succeeds on a cell that is empty.
#
# ldapd states the start of each reversed scan.
#
# Seen on 2026-11-29 with HBase 2.6.4, Go 1.26.8 and Java 17. It needs go, mvn, java and python3.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ "${1:-}" = inside ] || exec "$here/with-hbase" 2.6.4-hadoop3 "$here/$(basename "$0")" inside
cat > go.mod <<'M'
module finding

go 1.25

require github.com/tsuna/gohbase v0.0.0-20260613001017-cfe2cb9e6df3
M
cat > main.go <<'G'
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
)

var ctx = context.Background()

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func put(row, value string) *hrpc.Mutate {
	return must(hrpc.NewPutStr(ctx, "t", row, map[string]map[string][]byte{"f": {"q": []byte(value)}}))
}

func main() {
	quiet := gohbase.Logger(slog.New(slog.DiscardHandler))
	split := hrpc.SplitKeys([][]byte{[]byte("c"), []byte("e")})
	if err := gohbase.NewAdminClient(os.Args[1], quiet).CreateTable(hrpc.NewCreateTable(ctx, []byte("t"), map[string]map[string]string{"f": nil}, split)); err != nil {
		panic(err)
	}
	c := gohbase.NewClient(os.Args[1], quiet)
	for _, r := range "abcdef" {
		must(c.Put(put(string(r), "1")))
	}
	show := func(what string, s *hrpc.Scan) {
		fmt.Print(what, ":")
		for scanner := c.Scan(s); ; {
			r, err := scanner.Next()
			if err == io.EOF {
				break
			}
			fmt.Printf(" %s", must(r, err).Cells[0].Row)
		}
		fmt.Println()
	}
	show("forward", must(hrpc.NewScanStr(ctx, "t")))
	show("reversed", must(hrpc.NewScanStr(ctx, "t", hrpc.Reversed())))
	show("reversed from z", must(hrpc.NewScanRangeStr(ctx, "t", "z", "", hrpc.Reversed())))
	must(c.Put(put("empty", "")))
	fmt.Println("absent:", must(c.CheckAndPut(put("empty", "1"), "f", "q", nil)))
	fmt.Println("absent:", must(c.CheckAndPut(put("empty", "2"), "f", "q", nil)))
}
G
GOFLAGS=-mod=mod GOMODCACHE="$PWD/cache" go run . "127.0.0.1:$PORT" 2> err > seen || { cat err; exit 1; }
cat > expected <<'E'
forward: a b c d e f
reversed: b a
reversed from z: f e d c b a
absent: true
absent: false
E
diff expected seen && echo "as described"
