#!/bin/sh
# Two libraries lose spaces of values that they have written to LDIF themselves, and read other values where LDIF names a file.
#
# 1. ldif 4.3.0 for Python: LDIFWriter writes spaces at the end of a value as they are, which is valid, and LDIFParser drops them.
#    The password "secret " is "secret" after a copy.
# 2. net-ldap 0.17.0 for Ruby (Debian 12): Entry#to_ldif writes a space at the begin of a value as it is, and the reader drops it.
#    Ruby's Marshal writes entries as LDIF, so a cache returns other entries than it was given.
# 3. jpegPhoto:< file:///photo names a file with the value (RFC 2849). LDIFParser reads an empty value unless it is told to read
#    files, where its documentation says that the attribute is ignored. net-ldap reads the text "< file:///photo". An import
#    replaces the photo by this.
#
# No error in any of them. docs/libraries.md says so.
#
# Seen on 2026-11-28 with Python 3.11. It needs root, Debian 12, python3 and unshare. It fails if one of the three changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" "ruby ruby-net-ldap=0.17.0-1"
cd "$dir"
python3 -m venv py && py/bin/pip install -q --disable-pip-version-check ldif==4.3.0 > log 2>&1 || { cat log; exit 1; }
printf '%s\n' 'dn: cn=a,dc=x' 'cn: a' 'jpegPhoto:< file:///photo' > photo.ldif
py/bin/python > seen <<'P'
import io
from ldif import LDIFParser, LDIFWriter

file = io.BytesIO()
LDIFWriter(file).unparse("cn=a,dc=x", {"userPassword": ["secret "]})
print("ldif", list(LDIFParser(io.BytesIO(file.getvalue())).parse())[0][1]["userPassword"])
print("ldif", list(LDIFParser(open("photo.ldif", "rb")).parse())[0][1]["jpegPhoto"])
P
cat > read.rb <<'R'
require "net/ldap"
entry = Net::LDAP::Entry.new("cn=a,dc=x")
entry[:description] = [" indented"]
puts "net-ldap #{Net::LDAP::Entry.from_single_ldif_string(entry.to_ldif)[:description]}"
puts "net-ldap #{Marshal.load(Marshal.dump(entry))[:description]}"
puts "net-ldap #{Net::LDAP::Entry.from_single_ldif_string(File.read("photo.ldif"))[:jpegPhoto]}"
R
unshare -m sh -c 'mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr; ruby read.rb' >> seen
cat seen
cat > expected <<'X'
ldif ['secret']
ldif ['']
net-ldap ["indented"]
net-ldap ["indented"]
net-ldap ["< file:///photo"]
X
diff expected seen && echo "as described"
