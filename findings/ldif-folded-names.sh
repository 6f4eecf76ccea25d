#!/bin/sh
# Two libraries fold long names in LDIF within a letter, and two others read such names with other letters, without an error.
#
# A name that is not ASCII is to be base64 in LDIF (RFC 2849: dn-spec).
#
# 1. go-ldap/ldif (aa3bc3095c92, 2025-09-10) and Perl's Net::LDAP::LDIF 0.6800 (Debian 12) write it in UTF-8, and fold it after
#    a number of octets, also in the middle of a letter. They write values of attributes in base64.
# 2. UnboundID's LDIFReader 7.0.5 and ldaptive's LdifReader 2.5.0 decode a line before they join it with the next one. The two
#    halves of a letter become two U+FFFD: the entry gets another name, without an error. UnboundID's tools for LDIF use this
#    class.
#
# It happens to names of more than 72 octets, with a letter of several octets where the line ends. Readers that join octets
# (slapadd, ldapadd, ldapd import) read them rightly; python-ldap refuses them. docs/libraries.md says how to write them otherwise.
#
# Seen on 2026-11-28 with Go 1.26.8 and Java 17. It needs root, Debian 12, perl, go, mvn and java. It fails if one of the two changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
"$here/debs" "$dir" libnet-ldap-perl=1:0.6800+dfsg-1
cd "$dir"
for artifact in com.unboundid:unboundid-ldapsdk:7.0.5 org.ldaptive:ldaptive:2.5.0 org.slf4j:slf4j-api:2.0.9 org.slf4j:slf4j-nop:2.0.9; do
	mvn -q dependency:copy -Dartifact=$artifact -DoutputDirectory=jars > log 2>&1 || { cat log; exit 1; }
done
cat > go.mod <<'M'
module finding

go 1.25

require (
	github.com/go-ldap/ldap/v3 v3.4.15
	github.com/go-ldap/ldif v0.0.0-20250910174327-aa3bc3095c92
)
M
cat > main.go <<'G'
package main

import (
	"os"

	"github.com/go-ldap/ldap/v3"
	"github.com/go-ldap/ldif"
)

func main() {
	if err := ldif.Dump(os.Stdout, 0, ldap.NewEntry(os.Args[1], map[string][]string{"sn": {"x"}})); err != nil {
		panic(err)
	}
}
G
cat > write.pl <<'P'
use Net::LDAP::LDIF;
use Net::LDAP::Entry;
my $file = Net::LDAP::LDIF->new("net-ldap.ldif", "w");
$file->write_entry(Net::LDAP::Entry->new($ARGV[0], sn => "x"));
P
cat > Read.java <<'J'
import com.unboundid.ldif.LDIFReader;
import java.io.FileReader;
import java.nio.charset.StandardCharsets;
import org.ldaptive.io.LdifReader;

public class Read {
    public static void main(String[] args) throws Exception {
        var out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String file : new String[] {"go-ldap.ldif", "net-ldap.ldif"}) {
            try (LDIFReader r = new LDIFReader(file)) {
                out.println(file + " UnboundID " + r.readEntry().getDN());
            }
            try (FileReader r = new FileReader(file, StandardCharsets.UTF_8)) {
                out.println(file + " ldaptive " + new LdifReader(r).read().getEntry().getDn());
            }
        }
    }
}
J
name='cn=Ζωή Δούκα,ou=Τμήμα Ηλεκτροεγκεφαλογραφημάτων,dc=example'
GOFLAGS=-mod=mod GOMODCACHE="$dir/cache" go run . "$name" > go-ldap.ldif 2> log || { cat log; exit 1; }
perl -I root/usr/share/perl5 write.pl "$name"
java -cp 'jars/*' Read.java > seen
cat seen
cat > expected <<'X'
go-ldap.ldif UnboundID cn=Ζωή Δούκα,ou=Τμήμα Ηλεκτροεγκεφαλογρα��ημάτων,dc=example
go-ldap.ldif ldaptive cn=Ζωή Δούκα,ou=Τμήμα Ηλεκτροεγκεφαλογρα��ημάτων,dc=example
net-ldap.ldif UnboundID cn=Ζωή Δούκα,ou=Τμήμα Ηλεκτροεγκεφαλογραφ��μάτων,dc=example
net-ldap.ldif ldaptive cn=Ζωή Δούκα,ou=Τμήμα Ηλεκτροεγκεφαλογραφ��μάτων,dc=example
X
diff expected seen && echo "as described"
