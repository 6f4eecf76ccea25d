#!/bin/sh
# HBase 2.6.4: a conditional Put stamps all its columns like the cell that it tests, and takes an empty cell for none.
#
# 1. A Put without a time stamp, made by CheckAndMutate, gets in every column the stamp of the tested cell if that is newer
#    than the clock. Here the tested column "lock" is a year ahead, and "name", which has never had a stamp, is
#    written a year ahead too.
# 2. A later Put of "name" succeeds, and a Get answers the older value: for a year, no ordinary Put changes it.
#    A Put with a stamp of its own keeps it.
# 3. Increment.setTimestamp has no effect: a new cell gets the clock's time, and a cell that is ahead its own stamp and one.
# 4. CheckAndMutate.ifNotExists succeeds on a cell that exists and is empty, so a Put of an empty value cannot be
#    the one that creates a cell: each of two callers is told that it did.
#
# ldapd writes a table either with stamps of its own or by conditional Puts alone, and never stores an empty value.
#
# Seen on 2026-11-29 with Java 17. It needs mvn, java and python3. It fails if one of the four changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ "${1:-}" = inside ] || exec "$here/with-hbase" 2.6.4-hadoop3 "$here/$(basename "$0")" inside
cat > Stamps.java <<'J'
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.*;
import org.apache.hadoop.hbase.client.*;
import org.apache.hadoop.hbase.util.Bytes;

public class Stamps {
    static final byte[] F = b("f");

    static byte[] b(String s) { return Bytes.toBytes(s); }

    static long stamp(Table t, String row, String column) throws Exception {
        return t.get(new Get(b(row))).getColumnLatestCell(F, b(column)).getTimestamp();
    }

    public static void main(String[] args) throws Exception {
        Configuration c = HBaseConfiguration.create();
        c.set("hbase.zookeeper.quorum", "127.0.0.1");
        c.set("hbase.zookeeper.property.clientPort", args[0]);
        TableName name = TableName.valueOf("t");
        try (Connection con = ConnectionFactory.createConnection(c); Admin admin = con.getAdmin()) {
            admin.createTable(TableDescriptorBuilder.newBuilder(name).setColumnFamily(ColumnFamilyDescriptorBuilder.of("f")).build());
            Table t = con.getTable(name);
            long ahead = System.currentTimeMillis() + 365L * 24 * 3600 * 1000;

            t.put(new Put(b("r")).addColumn(F, b("lock"), ahead, b("free")));
            CheckAndMutate.Builder free = CheckAndMutate.newBuilder(b("r")).ifEquals(F, b("lock"), b("free"));
            boolean done = t.checkAndMutate(free.build(new Put(b("r")).addColumn(F, b("name"), b("old")))).isSuccess();
            System.out.println("1 " + done + " same stamp " + (stamp(t, "r", "name") == ahead));
            t.put(new Put(b("r")).addColumn(F, b("name"), b("new")));
            System.out.println("2 " + Bytes.toString(t.get(new Get(b("r"))).getValue(F, b("name"))));
            t.checkAndMutate(free.build(new Put(b("r")).addColumn(F, b("other"), 7, b("x"))));
            System.out.println("2 own stamp " + stamp(t, "r", "other"));

            t.increment(new Increment(b("i")).addColumn(F, b("n"), 1).setTimestamp(5));
            t.put(new Put(b("j")).addColumn(F, b("n"), ahead, Bytes.toBytes(1L)));
            t.increment(new Increment(b("j")).addColumn(F, b("n"), 1).setTimestamp(5));
            System.out.println("3 clock " + (stamp(t, "i", "n") > 1_000_000_000_000L) + " ahead " + (stamp(t, "j", "n") - ahead));

            for (String who : new String[] {"first", "second"}) {
                Put create = new Put(b("e")).addColumn(F, b("made"), b("")).addColumn(F, b("by"), b(who));
                done = t.checkAndMutate(CheckAndMutate.newBuilder(b("e")).ifNotExists(F, b("made")).build(create)).isSuccess();
                System.out.println("4 " + who + " " + done);
            }
        }
    }
}
J
javac -cp "$JARS" Stamps.java
java -cp ".:$JARS" Stamps "$PORT" 2> err > seen || { cat err; exit 1; }
cat > expected <<'E'
1 true same stamp true
2 old
2 own stamp 7
3 clock true ahead 1
4 first true
4 second true
E
diff expected seen && echo "as described"
