#!/bin/sh
# gohbase sends an empty time range with every Get and Scan that has none, and HBase 3 reads it as [0, 0).
#
# 1. gohbase (cfe2cb9e6df3, 2026-06-13): hrpc.NewGetStr and hrpc.NewScanStr without a time range make a
#    request with `time_range:{}`, the message without its two optional fields. Only a range that ends
#    before math.MaxInt64 or begins after 0 has fields.
# 2. HBase 2.6.4: ProtobufUtil.toTimeRange reads this message as all time: 0, 2^63-1.
# 3. HBase 3.0.0-beta-1: the same method reads it as 0, 0. No cell is in this range, so every such Get and
#    Scan has an empty answer and no error, also those of hbase:meta with which the client finds regions.
#
# A Go program on gohbase therefore finds no table on HBase 3. What ldapd does about it is in
# docs/decisions/0054-hbase-client.md.
#
# Seen on 2026-11-28 with Go 1.26.8 and Java 17. It needs go, mvn and java. It fails if one of the three changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
mkdir client && cd client
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

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"
)

func main() {
	in := region.NewInfo(1, nil, []byte("t"), []byte("t,,1.x."), nil, nil)
	get, err := hrpc.NewGetStr(context.Background(), "t", "row")
	if err != nil {
		panic(err)
	}
	get.SetRegion(in)
	scan, err := hrpc.NewScanStr(context.Background(), "t")
	if err != nil {
		panic(err)
	}
	scan.SetRegion(in)
	for _, r := range []*pb.TimeRange{get.ToProto().(*pb.GetRequest).Get.TimeRange, scan.ToProto().(*pb.ScanRequest).Scan.TimeRange} {
		fmt.Println("sent", r != nil, r.GetFrom(), r.GetTo(), r != nil && r.From == nil && r.To == nil)
	}
}
G
GOFLAGS=-mod=mod GOMODCACHE="$dir/cache" go run . 2> go.log > sent || { cat go.log; exit 1; }
cd ..
cat > Range.java <<'J'
import org.apache.hadoop.hbase.io.TimeRange;
import org.apache.hadoop.hbase.shaded.protobuf.ProtobufUtil;
import org.apache.hadoop.hbase.shaded.protobuf.generated.HBaseProtos;

public class Range {
    public static void main(String[] args) throws Exception {
        TimeRange r = ProtobufUtil.toTimeRange(HBaseProtos.TimeRange.parseFrom(new byte[0]));
        System.out.println(args[0] + " reads " + r.getMin() + " " + r.getMax());
    }
}
J
for version in 2.6.4 3.0.0-beta-1; do
	"$here/jars" "jars-$version" "org.apache.hbase:hbase-client:$version"
	mkdir "classes-$version"
	javac -cp "jars-$version/*" -d "classes-$version" Range.java
	java -cp "classes-$version:jars-$version/*" Range "$version" 2> /dev/null >> read
done
cat client/sent read > seen
cat seen
cat > expected <<'E'
sent true 0 0 true
sent true 0 0 true
2.6.4 reads 0 9223372036854775807
3.0.0-beta-1 reads 0 0
E
diff expected seen && echo "as described"
