#!/bin/sh
# Five libraries take names of LDAP apart, or make them canonical, so that another name or another value results.
#
# 1. Net_LDAP2_Util::canonical_dn 2.2.1 and Horde_Ldap_Util::canonicalDN 2.4.2 (PHP, Debian 12) escape again what is escaped: the
#    canonical form of cn=Lee\, Ann has a backslash in its value. They do not see the comma behind cn=Lee\\ as the end of the RDN.
# 2. JLDAP 4.3 (Java), LDAPDN.normalize and explodeDN, do the same to \2c and \5c, and read \c4\8d, the letter č, as two letters.
#    normalize makes one value of an RDN with two: cn=Ann+uid=7 becomes cn=Ann\+uid=7.
# 3. Net::LDAP::DN 0.17.0 (Ruby, Debian 12) makes one value of an RDN with two as well. \20 and \#, with which values begin that begin
#    with a space or a #, end in a TypeError.
# 4. eldap:parse_dn of Erlang/OTP 25 (Debian 12) leaves the escapes in the values: Lee\, Ann.
#
# Perl's Net::LDAP::Util 0.6800 (Debian 12) does all of them rightly. It hurts who compares names, or takes a user's cn out of one:
# members of groups are not found, and a search for the value finds nothing. docs/libraries.md says what to do.
#
# Seen on 2026-11-29 with Java 17 and PHP 8.2. It needs root, Debian 12, mvn, java and unshare. It fails if one of the four changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" "php8.2-cli php8.2-ldap php-net-ldap2=2.2.1-1 php-horde-ldap=2.4.2-6" "ruby ruby-net-ldap=0.17.0-1" \
	"erlang-base erlang-eldap=1:25.2.3+dfsg-1+deb12u4" "perl libnet-ldap-perl=1:0.6800+dfsg-1"
cd "$dir"
"$here/jars" jars com.novell.ldap:jldap:4.3
cat > names <<'N'
cn=Lee\, Ann,dc=x
cn=Lee\2c Ann,dc=x
cn=Lee\\,dc=x
cn=Lu\c4\8di\c4\87,dc=x
cn=\#1,dc=x
cn=Ann+uid=7,dc=x
N
cat > read.php <<'P'
<?php
spl_autoload_register(function ($class) { @include_once strtr($class, '_', '/') . '.php'; });
require_once 'Net/LDAP2.php';
require_once 'Net/LDAP2/Util.php';
foreach (file('names', FILE_IGNORE_NEW_LINES) as $name) {
    echo $name, ' Net_LDAP2 ', Net_LDAP2_Util::canonical_dn($name), ' Horde ', Horde_Ldap_Util::canonicalDN($name), "\n";
}
P
cat > Read.java <<'J'
import com.novell.ldap.LDAPDN;
import java.nio.file.*;

public class Read {
    public static void main(String[] args) throws Exception {
        var out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String name : Files.readAllLines(Path.of("names"))) {
            out.println(name + " JLDAP " + LDAPDN.normalize(name).replace("\u008d", "<8d>").replace("\u0087", "<87>")
                + " [" + LDAPDN.explodeDN(name, true)[0].replace("\u008d", "<8d>").replace("\u0087", "<87>") + "]");
        }
    }
}
J
cat > read.rb <<'R'
require "net/ldap"
require "net/ldap/dn"
File.readlines("names", chomp: true).each do |name|
  parts = Net::LDAP::DN.new(name).to_a
  puts "#{name} Ruby #{Net::LDAP::DN.new(*parts)} [#{parts[1]}]"
rescue TypeError
  puts "#{name} Ruby TypeError"
end
R
cat > read.erl <<'E'
-module(read).
-export([main/0]).
main() ->
    {ok, Names} = file:read_file("names"),
    lists:foreach(fun(Name) ->
        {ok, [[{attribute_type_and_value, _, Value} | _] | _]} = eldap:parse_dn(Name),
        io:format("~s eldap [~s]~n", [Name, Value])
    end, string:lexemes(binary_to_list(Names), "\n")).
E
cat > read.pl <<'P'
use Net::LDAP::Util qw(canonical_dn ldap_explode_dn);
open F, "names";
while (<F>) {
    chomp;
    print "$_ Perl ", canonical_dn($_), " [", ldap_explode_dn($_)->[0]{CN}, "]\n";
}
P
cat > run.sh <<'S'
mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
php8.2 -n -d include_path=/usr/share/php -d extension=ldap.so -d error_reporting=4437 read.php
java -cp 'jars/*' Read.java
ruby read.rb
erlc read.erl && erl -noshell -noinput -s read main -s init stop
perl read.pl
S
LC_ALL=C.UTF-8 unshare -m sh run.sh > seen
cat seen
cat > expected <<'X'
cn=Lee\, Ann,dc=x Net_LDAP2 CN=Lee\\\, Ann,DC=x Horde CN=Lee\\\, Ann,DC=x
cn=Lee\2c Ann,dc=x Net_LDAP2 CN=Lee\\2c Ann,DC=x Horde CN=Lee\\2c Ann,DC=x
cn=Lee\\,dc=x Net_LDAP2 CN=Lee\\\\\,dc\=x Horde CN=Lee\\\\\,dc\=x
cn=Lu\c4\8di\c4\87,dc=x Net_LDAP2 CN=Lu\\c4\\8di\\c4\\87,DC=x Horde CN=Lu\\c4\\8di\\c4\\87,DC=x
cn=\#1,dc=x Net_LDAP2 CN=\\\#1,DC=x Horde CN=\\\#1,DC=x
cn=Ann+uid=7,dc=x Net_LDAP2 CN=Ann+UID=7,DC=x Horde CN=Ann+UID=7,DC=x
cn=Lee\, Ann,dc=x JLDAP cn=Lee\, Ann,dc=x [Lee, Ann]
cn=Lee\2c Ann,dc=x JLDAP cn=Lee\\\, Ann,dc=x [Lee\, Ann]
cn=Lee\\,dc=x JLDAP cn=Lee\\,dc=x [Lee\]
cn=Lu\c4\8di\c4\87,dc=x JLDAP cn=LuÄ<8d>iÄ<87>,dc=x [LuÄ<8d>iÄ<87>]
cn=\#1,dc=x JLDAP cn=\#1,dc=x [#1]
cn=Ann+uid=7,dc=x JLDAP cn=Ann\+uid=7,dc=x [Ann+7]
cn=Lee\, Ann,dc=x Ruby cn=Lee\, Ann,dc=x [Lee, Ann]
cn=Lee\2c Ann,dc=x Ruby cn=Lee\, Ann,dc=x [Lee, Ann]
cn=Lee\\,dc=x Ruby cn=Lee\\,dc=x [Lee\]
cn=Lu\c4\8di\c4\87,dc=x Ruby cn=Lučić,dc=x [Lučić]
cn=\#1,dc=x Ruby TypeError
cn=Ann+uid=7,dc=x Ruby cn=Ann\+uid=7,dc=x [Ann+uid=7]
cn=Lee\, Ann,dc=x eldap [Lee\, Ann]
cn=Lee\2c Ann,dc=x eldap [Lee\2c Ann]
cn=Lee\\,dc=x eldap [Lee\\]
cn=Lu\c4\8di\c4\87,dc=x eldap [Lu\c4\8di\c4\87]
cn=\#1,dc=x eldap [\#1]
cn=Ann+uid=7,dc=x eldap [Ann]
cn=Lee\, Ann,dc=x Perl CN=Lee\2c Ann,DC=x [Lee, Ann]
cn=Lee\2c Ann,dc=x Perl CN=Lee\2c Ann,DC=x [Lee, Ann]
cn=Lee\\,dc=x Perl CN=Lee\5c,DC=x [Lee\]
cn=Lu\c4\8di\c4\87,dc=x Perl CN=Lučić,DC=x [Lučić]
cn=\#1,dc=x Perl CN=\231,DC=x [#1]
cn=Ann+uid=7,dc=x Perl CN=Ann+UID=7,DC=x [Ann]
X
diff expected seen && echo "as described"
