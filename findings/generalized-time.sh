#!/bin/sh
# UnboundID's SDK, Apache's LDAP API and ldap2date read some valid times of LDAP as other times, and ldap2date writes others.
#
# Generalized Time (RFC 4517, 3.3.13) may leave out seconds and minutes, have a fraction of what is last, and a zone:
#
# 1. UnboundID 7.0.5, StaticUtils.decodeGeneralizedTime: 1994121610.5Z is half past ten. It reads half a second past ten. It
#    refuses a comma before the fraction.
# 2. UnboundID 7.0.5 and Apache 2.1.9 count days before 1582-10-15 in the Julian calendar: 00010101000000Z, which programs write
#    for "never", is 0000-12-30. A program that compares it with java.time's 0001-01-01 takes it for another time.
# 3. ldap2date 2.0.0 (npm) reads fractions of hours as UnboundID does. It takes the first digit of the zone for the hours, the
#    other three for minutes, and adds what it should subtract: 10:32:30-0500 is 15:32:30 UTC, and it reads 02:12:30. It reads the year 1 as 1901.
# 4. ldap2date.toGeneralizedTime writes 7 milliseconds as .7, which is 700.
#
# ldaptive 2.5.0 reads all of them rightly. ldapd returns a time as it was stored. docs/libraries.md says what to store.
#
# Seen on 2026-11-28 with Java 17 and Node 20. It needs mvn, java and npm. It fails if one of the four changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
cd "$dir"
"$here/jars" jars com.unboundid:unboundid-ldapsdk:7.0.5 org.apache.directory.api:api-all:2.1.9 org.ldaptive:ldaptive:2.5.0
npm install --silent --no-audit --no-fund ldap2date@2.0.0 > log 2>&1 || { cat log; exit 1; }
cat > Read.java <<'J'
import com.unboundid.util.StaticUtils;
import org.apache.directory.api.util.GeneralizedTime;
import org.ldaptive.transcode.GeneralizedTimeValueTranscoder;

public class Read {
    public static void main(String[] times) throws Exception {
        for (String time : times) {
            System.out.println(time + " ldaptive " + new GeneralizedTimeValueTranscoder().decodeStringValue(time).toInstant());
            System.out.println(time + " Apache " + new GeneralizedTime(time).getDate().toInstant());
            try {
                System.out.println(time + " UnboundID " + StaticUtils.decodeGeneralizedTime(time).toInstant());
            } catch (java.text.ParseException e) {
                System.out.println(time + " UnboundID refuses");
            }
        }
    }
}
J
cat > read.js <<'J'
const t = require("ldap2date")
for (const time of process.argv.slice(2)) console.log(time, "ldap2date", t.parse(time).toISOString())
console.log("ldap2date writes", t.toGeneralizedTime(new Date("1994-12-16T10:32:30.007Z")))
J
times="1994121610.5Z 19941216103230,5Z 19941216103230-0500 00010101000000Z"
java -cp 'jars/*' Read.java $times 2> log > seen || { cat log; exit 1; }
node read.js $times >> seen
cat seen
cat > expected <<'X'
1994121610.5Z ldaptive 1994-12-16T10:30:00Z
1994121610.5Z Apache 1994-12-16T10:30:00Z
1994121610.5Z UnboundID 1994-12-16T10:00:00.500Z
19941216103230,5Z ldaptive 1994-12-16T10:32:30.500Z
19941216103230,5Z Apache 1994-12-16T10:32:30.500Z
19941216103230,5Z UnboundID refuses
19941216103230-0500 ldaptive 1994-12-16T15:32:30Z
19941216103230-0500 Apache 1994-12-16T15:32:30Z
19941216103230-0500 UnboundID 1994-12-16T15:32:30Z
00010101000000Z ldaptive 0001-01-01T00:00:00Z
00010101000000Z Apache 0000-12-30T00:00:00Z
00010101000000Z UnboundID 0000-12-30T00:00:00Z
1994121610.5Z ldap2date 1994-12-16T10:00:00.500Z
19941216103230,5Z ldap2date 1994-12-16T10:32:30.500Z
19941216103230-0500 ldap2date 1994-12-16T02:12:30.000Z
00010101000000Z ldap2date 1901-01-01T00:00:00.000Z
ldap2date writes 19941216103230.7Z
X
diff expected seen && echo "as described"
