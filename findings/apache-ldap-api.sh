#!/bin/sh
# Apache's LDAP API writes LDIF without the values of controls, and until 2.1.8 it searches for other values than those with
# backslashes that it was asked for.
#
# org.apache.directory.api:api-all 2.1.8 and 2.1.9:
#
# 1. In 2.1.8, FilterEncoder.encodeFilterValue, which is to escape any value, and FilterBuilder.equal, which uses it, take a
#    backslash for the begin of an escape if a hexadecimal digit or a backslash follows. \\srv\home is searched for as
#    \srv\home, C:\data as C: and the octet da and "ta", CORP\d as CORP\. The search succeeds, and finds nothing or another
#    entry. 2.1.9 escapes them.
# 2. LdifUtils.convertToLdif writes the value of a control as [B@ and a number, the name that Java gives to an array. A change
#    with an assertion, read from LDIF and written again, has another assertion.
# 3. GeneralizedTime.toGeneralizedTime with the zone format DIFF_HOUR cuts the minutes of the zone off, and does not adapt the
#    time: 03:04 at -0330 becomes 03:04 at -03, half an hour earlier.
#
# docs/libraries.md says so.
#
# Seen on 2026-11-28 with Java 17. It needs mvn and java. It fails if one of the three changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat > See.java <<'J'
import org.apache.directory.api.ldap.model.filter.FilterEncoder;
import org.apache.directory.api.ldap.model.ldif.LdifEntry;
import org.apache.directory.api.ldap.model.ldif.LdifReader;
import org.apache.directory.api.ldap.model.ldif.LdifUtils;
import org.apache.directory.api.util.GeneralizedTime;
import org.apache.directory.ldap.client.api.search.FilterBuilder;

public class See {
    public static void main(String[] args) throws Exception {
        for (String value : new String[] {"\\\\srv\\home", "C:\\data", "CORP\\d", "CORP\\user"})
            System.out.println(value + " " + FilterEncoder.encodeFilterValue(value) + " " + FilterBuilder.equal("description", value));
        for (LdifEntry e : new LdifReader().parseLdif("dn: cn=a,dc=x\ncontrol: 1.3.6.1.1.12 true: v\nchangetype: delete\n"))
            System.out.println(LdifUtils.convertToLdif(e).replaceAll("@[0-9a-f]+", "@...").strip());
        System.out.println(new GeneralizedTime("20240102030405-0330").toGeneralizedTime(GeneralizedTime.Format.YEAR_MONTH_DAY_HOUR_MIN_SEC,
            GeneralizedTime.FractionDelimiter.DOT, 0, GeneralizedTime.TimeZoneFormat.DIFF_HOUR));
    }
}
J
for version in 2.1.8 2.1.9; do
	"$here/jars" "jars-$version" "org.apache.directory.api:api-all:$version"
	echo "$version" >> seen
	java -cp "jars-$version/*" See.java 2> log >> seen || { cat log; exit 1; }
done
cat seen
cat > expected <<'X'
2.1.8
\\srv\home \5Csrv\5Chome (description=\5Csrv\5Chome)
C:\data C:\data (description=C:\data)
CORP\d CORP\5C (description=CORP\5C)
CORP\user CORP\5Cuser (description=CORP\5Cuser)
dn: cn=a,dc=x
control: 1.3.6.1.1.12 true::[B@...
changetype: delete
20240102030405-03
2.1.9
\\srv\home \5C\5Csrv\5Chome (description=\5C\5Csrv\5Chome)
C:\data C:\5Cdata (description=C:\5Cdata)
CORP\d CORP\5Cd (description=CORP\5Cd)
CORP\user CORP\5Cuser (description=CORP\5Cuser)
dn: cn=a,dc=x
control: 1.3.6.1.1.12 true::[B@...
changetype: delete
20240102030405-03
X
diff expected seen && echo "as described"
