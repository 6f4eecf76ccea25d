#!/bin/sh
# HBase 2.6.4: scans with valid filters leave out rows and columns, without an error.
#
# 1. Scan.setMaxResultsPerColumnFamily(1) beside a SingleColumnValueFilter: the row a=0, b=1 is not found by b = 1, because
#    its cells are counted before the filter has seen b. With a limit of 2 it is found.
# 2. Two ColumnRangeFilters in a FilterList with MUST_PASS_ONE answer a, b, x and y. In a reversed scan the
#    same filter answers a and b only. MultipleColumnPrefixFilter answers all four both ways.
# 3. FirstKeyOnlyFilter in a FilterList with MUST_PASS_ALL: after a SingleColumnValueFilter the row is found,
#    before it the row is missing. KeyOnlyFilter may stand before or after.
#
# ldapd uses neither setMaxResultsPerColumnFamily nor ranges of columns beside such filters.
#
# Seen on 2026-11-29 with Java 17. It needs mvn, java and python3. It fails if one of the three changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ "${1:-}" = inside ] || exec "$here/with-hbase" 2.6.4-hadoop3 "$here/$(basename "$0")" inside
cat > Filters.java <<'J'
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.*;
import org.apache.hadoop.hbase.client.*;
import org.apache.hadoop.hbase.filter.*;
import org.apache.hadoop.hbase.util.Bytes;

public class Filters {
    static final byte[] F = b("f");

    static byte[] b(String s) { return Bytes.toBytes(s); }

    static Scan row(String r) { return new Scan().withStartRow(b(r)).withStopRow(b(r), true); }

    static Filter is1(String column) {
        SingleColumnValueFilter f = new SingleColumnValueFilter(F, b(column), CompareOperator.EQUAL, b("1"));
        f.setFilterIfMissing(true);
        return f;
    }

    static void show(Table t, String what, Scan s) throws Exception {
        StringBuilder line = new StringBuilder(what + ":");
        try (ResultScanner results = t.getScanner(s)) {
            for (Result r : results) {
                for (Cell c : r.rawCells()) line.append(' ').append(Bytes.toString(CellUtil.cloneQualifier(c)));
            }
        }
        System.out.println(line);
    }

    public static void main(String[] args) throws Exception {
        Configuration c = HBaseConfiguration.create();
        c.set("hbase.zookeeper.quorum", "127.0.0.1");
        c.set("hbase.zookeeper.property.clientPort", args[0]);
        TableName name = TableName.valueOf("t");
        try (Connection con = ConnectionFactory.createConnection(c); Admin admin = con.getAdmin()) {
            admin.createTable(TableDescriptorBuilder.newBuilder(name).setColumnFamily(ColumnFamilyDescriptorBuilder.of("f")).build());
            Table t = con.getTable(name);
            t.put(new Put(b("A")).addColumn(F, b("a"), b("0")).addColumn(F, b("b"), b("1")));
            for (int n : new int[] {1, 2}) {
                show(t, "1 limit " + n, row("A").setFilter(is1("b")).setMaxResultsPerColumnFamily(n));
            }
            Put p = new Put(b("B"));
            for (String q : new String[] {"a", "b", "m", "x", "y"}) p.addColumn(F, b(q), b("1"));
            t.put(p);
            Filter ranges = new FilterList(FilterList.Operator.MUST_PASS_ONE,
                new ColumnRangeFilter(b("a"), true, b("c"), false), new ColumnRangeFilter(b("x"), true, b("z"), false));
            Filter prefixes = new MultipleColumnPrefixFilter(new byte[][] {b("a"), b("b"), b("x"), b("y")});
            for (boolean reversed : new boolean[] {false, true}) {
                show(t, "2 ranges reversed " + reversed, row("B").setFilter(ranges).setReversed(reversed));
                show(t, "2 prefixes reversed " + reversed, row("B").setFilter(prefixes).setReversed(reversed));
            }
            show(t, "3 value, first key", row("A").setFilter(new FilterList(is1("b"), new FirstKeyOnlyFilter())));
            show(t, "3 first key, value", row("A").setFilter(new FilterList(new FirstKeyOnlyFilter(), is1("b"))));
            show(t, "3 value, keys", row("A").setFilter(new FilterList(is1("b"), new KeyOnlyFilter())));
            show(t, "3 keys, value", row("A").setFilter(new FilterList(new KeyOnlyFilter(), is1("b"))));
        }
    }
}
J
javac -cp "$JARS" Filters.java
java -cp ".:$JARS" Filters "$PORT" 2> err > seen || { cat err; exit 1; }
cat > expected <<'E'
1 limit 1:
1 limit 2: a b
2 ranges reversed false: a b x y
2 prefixes reversed false: a b x y
2 ranges reversed true: a b
2 prefixes reversed true: a b x y
3 value, first key: a
3 first key, value:
3 value, keys: a b
3 keys, value: a b
E
diff expected seen && echo "as described"
