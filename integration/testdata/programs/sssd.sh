# Resolves users and groups by sssd, in a mount namespace of its own: sssd has its
# folders and its configuration at fixed places. $URL, $STARTTLS and $CA are the
# server; each argument is asked of getent.
set -e
for dir in /var/lib/sss /var/log/sssd /etc/sssd /run; do
	mount -t tmpfs none $dir
done
mkdir -p /etc/sssd/conf.d /var/lib/sss/db /var/lib/sss/mc /var/lib/sss/pubconf /var/lib/sss/pipes/private
cat >/etc/sssd/sssd.conf <<END
[sssd]
services = nss
domains = test
[domain/test]
id_provider = ldap
auth_provider = none
access_provider = permit
ldap_uri = $URL
ldap_search_base = dc=example,dc=com
ldap_schema = rfc2307
min_id = 1
${STARTTLS:+ldap_id_use_start_tls = true}
${CA:+ldap_tls_reqcert = demand
ldap_tls_cacert = $CA}
END
chmod 600 /etc/sssd/sssd.conf
/usr/sbin/sssd -i --logger=stderr 2>/var/log/sssd/log &
sssd=$!
for try in $(seq 100); do
	getent -s sss $1 >/dev/null && break
	sleep 0.1
done
for question in "$@"; do
	getent -s sss $question || echo "$question: none"
done
cat /var/log/sssd/log >&2
kill $sssd
wait $sssd || true
