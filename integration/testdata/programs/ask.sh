# Evaluates each argument when the name service $SERVICE answers. An argument calls one of
# these functions. Each prints one line. The service "test" of PAM is configured with
# pam_$SERVICE.so. It is sourced in a mount namespace with an empty /run.
mkdir /run/pam.d
for kind in auth account password session; do
	echo "$kind required pam_$SERVICE.so"
done >/run/pam.d/test
mount --bind /run/pam.d /etc/pam.d

resolve() { # DATABASE KEY
	getent -s $SERVICE "$@" || echo "$*: none"
}

login() { # USER PASSWORD
	printf '%s\n' "$2" | pamtester test "$1" authenticate acct_mgmt 2>&1 | messages
}

change() { # USER OLD NEW: the user changes the password
	id=$(getent -s $SERVICE passwd "$1" | cut -d: -f3)
	printf '%s\n' "$2" "$3" "$3" | setpriv --reuid "$id" --regid "$id" --clear-groups pamtester test "$1" chauthtok 2>&1 | messages
}

messages() { # without prompts; lines of the two outputs come in any order
	sed -E 's/^(\(current\) LDAP |Current |)Password: //; s/(New|Retype|Reenter new) (new )?Password: //gi; s/^pamtester: //; /^$/d' | sort | paste -sd '|'
}

for try in $(seq 100); do
	eval "$1" | grep -q none || break
	sleep 0.1
done
for question in "$@"; do
	eval "$question"
done
