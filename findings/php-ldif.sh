#!/bin/sh
# Two libraries for PHP read valid LDIF as entries with other values, and not all that they have written themselves.
#
# php-net-ldap2 2.2.1 (Net_LDAP2_LDIF) and php-horde-ldap 2.4.2 (Horde_Ldap_Ldif), of Debian 12:
#
# 1. Types of attributes do not differ by case. Of mail: ann@x and Mail: ann@y both return ann@y only.
# 2. Any number of spaces may be between the colon and the value (RFC 2849: FILL). Of "sn:  Lee", as in files with columns, both take
#    the second space for a part of the value. They drop spaces at its end, which are part of it.
# 3. A record with changetype delete is returned as an entry to be added, whose attribute changetype has the value delete.
# 4. Net_LDAP2 leaves out lines without a space after the colon, without a value, with an option other than ;binary, and of
#    attributes that have a hyphen or are OIDs. The entry is returned nevertheless; error() has one of these lines. Horde throws an
#    error, so it refuses such a file.
# 5. Both write options, hyphens and empty values, and so neither reads what it wrote.
#
# In 1 to 3 nothing says so. It hurts programs in PHP that import people. docs/libraries.md says what to do.
#
# Seen on 2026-11-29 with PHP 8.2. It needs root, Debian 12 and unshare. It fails if one of the five changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
"$here/debs" "$dir" "php8.2-cli php8.2-ldap php-net-ldap2=2.2.1-1 php-horde-ldap=2.4.2-6"
cd "$dir"
cat > read.php <<'P'
<?php
spl_autoload_register(function ($class) { @include_once strtr($class, '_', '/') . '.php'; });
require_once 'Net/LDAP2.php';
require_once 'Net/LDAP2/LDIF.php';

function show($values) { return json_encode($values, JSON_UNESCAPED_SLASHES); }

function net() {
    $r = new Net_LDAP2_LDIF('in.ldif', 'r');
    $entry = $r->read_entry();
    echo '  Net_LDAP2 ', show($entry->getValues()), $r->error() ? ', error()' : '', "\n";
}

function horde() {
    try {
        $r = new Horde_Ldap_Ldif('in.ldif', 'r');
        $values = $r->readEntry()->getValues();
        echo '  Horde ', show($values), "\n";
    } catch (Horde_Ldap_Exception $e) {
        echo '  Horde: ', $e->getMessage(), "\n";
    }
}

foreach (["mail: ann@x\nMail: ann@y", 'sn:  Lee', 'sn: Lee ', 'changetype: delete', 'sn:Lee', 'sn:', 'sn;lang-de: Lee', 'ms-note: Lee', '2.5.4.4: Lee'] as $lines) {
    file_put_contents('in.ldif', "dn: cn=ann,dc=x\n$lines\n");
    echo show($lines), "\n";
    net();
    horde();
}
$values = ['sn' => 'Lee', 'sn;lang-de' => 'Lee', 'ms-note' => '', 'userCertificate;binary' => 'x'];
echo "what it wrote\n";
$w = new Net_LDAP2_LDIF('in.ldif', 'w');
$w->write_entry(Net_LDAP2_Entry::createFresh('cn=ann,dc=x', $values));
$w->done();
net();
$w = new Horde_Ldap_Ldif('in.ldif', 'w');
$w->writeEntry(Horde_Ldap_Entry::createFresh('cn=ann,dc=x', $values));
$w->done();
horde();
P
unshare -m sh -c 'mount -t overlay none -o "lowerdir=$PWD/root/usr:/usr" /usr
php8.2 -n -d include_path=/usr/share/php -d extension=ldap.so -d error_reporting=4437 read.php' > seen 2>&1
cat seen
cat > expected <<'X'
"mail: ann@x\nMail: ann@y"
  Net_LDAP2 {"mail":"ann@y","Mail":"ann@y"}
  Horde {"mail":"ann@y","Mail":"ann@y"}
"sn:  Lee"
  Net_LDAP2 {"sn":" Lee"}
  Horde {"sn":" Lee"}
"sn: Lee "
  Net_LDAP2 {"sn":"Lee"}
  Horde {"sn":"Lee"}
"changetype: delete"
  Net_LDAP2 {"changetype":"delete"}
  Horde {"changetype":"delete"}
"sn:Lee"
  Net_LDAP2 [], error()
  Horde: Invalid syntax at input line 2
"sn:"
  Net_LDAP2 [], error()
  Horde: Invalid syntax at input line 2
"sn;lang-de: Lee"
  Net_LDAP2 [], error()
  Horde: Invalid syntax at input line 2
"ms-note: Lee"
  Net_LDAP2 [], error()
  Horde: Invalid syntax at input line 2
"2.5.4.4: Lee"
  Net_LDAP2 [], error()
  Horde: Invalid syntax at input line 2
what it wrote
  Net_LDAP2 {"sn":"Lee","userCertificate;binary":"x"}, error()
  Horde: Invalid syntax at input line 3
X
diff expected seen && echo "as described"
