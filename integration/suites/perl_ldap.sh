#!/bin/sh
# Stands in for slapd in the tests of perl-ldap: makes a store with the schema that
# they use and serves it at the addresses of the option -h. LDAPD is the program.
set -eu
base='o=University of Michigan, c=US'
while [ "$1" != -h ]; do shift; done
set -- $2 # URLs, with a slash at the end
listen=
for url; do
	listen="$listen --listen ${url%/}"
done
echo secret > temp/password
"$LDAPD" import --access open --password-policy none --store temp/test-db --suffix "$base" /dev/null
# Of cosine.schema pilotDSA is left out, whose superclass is in a file of slapd's own.
"$LDAPD" schema add --continue --store temp/test-db data/cosine.schema data/openldap.schema || test $? = 1
exec "$LDAPD" serve --store temp/test-db --suffix "$base" $listen --admin-dn "cn=Manager, $base" \
	--admin-password-file temp/password --tls-certificate data/cert.pem --tls-key data/key.pem
