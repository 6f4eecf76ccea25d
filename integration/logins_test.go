package integration

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	godiff "github.com/google/go-cmp/cmp"
)

// wantMounts skips the test if the process may not mount files over other files.
func wantMounts(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt").CombinedOutput(); err != nil {
		t.Skipf("no mount namespace (is this root?): %v %s", err, out)
	}
}

// A scriptCall is a call of a function of testdata/programs/ask.sh, with the expected answer.
type scriptCall struct{ call, answer string }

// getent contains calls that ask for the users and groups of the sample directory.
var getent = []scriptCall{
	{"resolve passwd jdoe", "jdoe:*:10000:10000:John Doe:/home/jdoe:/bin/zsh"},
	{"resolve passwd 10002", "jmuller:*:10002:10000:Jorg Muller:/home/jmuller:/bin/bash"},
	{"resolve passwd asantos", "passwd asantos: none"}, // asantos is no posixAccount
	{"resolve passwd nobody*", "passwd nobody*: none"},
	{"resolve group wheel", "wheel:*:10:jdoe"},
	{"resolve group 10000", "staff:*:10000:"},
	{"resolve initgroups sgarcia", "sgarcia               10001"},
}

// askScript runs a script of testdata/programs in a separate mount namespace. The script
// starts a service, with more variables in its environment, and makes the calls to this service.
func askScript(t *testing.T, script, conf string, calls []scriptCall, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "testdata/programs/"+script)
	var want []string
	for _, q := range calls {
		cmd.Args = append(cmd.Args, q.call)
		want = append(want, q.answer)
	}
	cmd.Env = append(append(os.Environ(), "LC_ALL=C", "CONF="+conf), env...)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if diff := godiff.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" || err != nil {
		t.Errorf("%v (- want, + got):\n%s%s", err, diff, log.String())
	}
}

func wantSSSD(t *testing.T) {
	t.Helper()
	wantMounts(t)
	wantPrograms(t, "/usr/sbin/sssd", "/usr/bin/getent", "/usr/lib/*/sssd/libsss_ldap.so", "/lib/*/libnss_sss.so.2")
}

func wantNslcd(t *testing.T) {
	t.Helper()
	wantMounts(t)
	wantPrograms(t, "/usr/sbin/nslcd", "/usr/bin/getent", "/lib/*/libnss_ldap.so.2")
}

// TestSSSD resolves the users and groups of the sample directory as Unix does: with
// getent, through sssd. The test needs root: sssd reads files at fixed paths, and the
// test mounts other files over them.
func TestSSSD(t *testing.T) {
	t.Parallel()
	wantSSSD(t)
	p := serveSecured(t, serviceEntry(t, "sssd"))
	recipe := configurationOf(t, p, "sssd", "etc/sssd/sssd.conf")
	clear := strings.Replace(recipe, "ldap_id_use_start_tls = true", "", 1)
	for name, conf := range map[string]string{"clear": clear, "StartTLS": recipe, "ldaps": strings.Replace(clear, p.urls[0], p.urls[1], 1)} {
		t.Run(name, func(t *testing.T) { askScript(t, "sssd.sh", writeIn(t, t.TempDir(), "sssd.conf", conf), getent) })
	}
	p.stop()
}

const unixDN = "ou=unix," + suffix

// unixUsers have the password "correct horse". Their policy has an expiry after 30 days, a
// warning 10 days before the expiry, and three grace logins after the expiry.
var unixUsers = []struct {
	name string
	days int // age of the password
	more string
}{
	{"fresh", 0, ""},
	{"warned", 25, ""},
	{"expired", 60, ""},
	{"reset", 0, "pwdReset: TRUE\n"},
	{"disabled", 0, "pwdAccountLockedTime: 000001010000Z\n"},
	{"attacked", 0, ""},
	{"outsider", 0, ""},
}

// unixEntries writes an LDIF file of the users and their policy.
func unixEntries(t *testing.T) string {
	var s strings.Builder
	fmt.Fprintf(&s, `dn: cn=policy,%[1]s
objectClass: subentry
objectClass: pwdPolicy
cn: policy
subtreeSpecification: { base "ou=unix" }
pwdAttribute: userPassword
pwdCheckQuality: 1
pwdMinLength: 8
pwdLockout: TRUE
pwdMaxFailure: 3
pwdMaxAge: 2592000
pwdExpireWarning: 864000
pwdGraceAuthNLimit: 3
pwdMustChange: TRUE

dn: %s
objectClass: organizationalUnit

`, suffix, unixDN)
	for i, u := range unixUsers {
		set := time.Now().AddDate(0, 0, -u.days).UTC().Format("20060102150405Z")
		fmt.Fprintf(&s, "dn: uid=%s,%s\nobjectClass: account\nobjectClass: posixAccount\nobjectClass: simpleSecurityObject\ncn: %[1]s\nuidNumber: %[3]d\ngidNumber: %[3]d\n"+
			"homeDirectory: /home/%[1]s\nuserPassword: correct horse\npwdChangedTime: %[4]s\n%[5]s\n", u.name, unixDN, 20000+i, set, u.more)
	}
	fmt.Fprintf(&s, "dn: cn=logins,ou=groups,%s\nobjectClass: groupOfNames\n", suffix)
	for _, u := range unixUsers[:len(unixUsers)-1] { // all users except outsider
		fmt.Fprintf(&s, "member: uid=%s,%s\n", u.name, unixDN)
	}
	return writeIn(t, t.TempDir(), "unix.ldif", s.String())
}

// logins are calls, each with the answers of sssd and of nslcd.
var logins = []struct{ call, sssd, nslcd string }{
	{"resolve passwd fresh", "fresh:*:20000:20000:fresh:/home/fresh:", "fresh:*:20000:20000:fresh:/home/fresh:"},
	{"login fresh 'correct horse'", loggedIn, loggedIn},
	{"login fresh wrong", refused, refused},
	{"login warned 'correct horse'", "Your password will expire in 4 day(s).|" + loggedIn, "Password will expire in 4 days|" + loggedIn},
	{"login expired 'correct horse'", "Your password has expired. You have 2 grace login(s) remaining.|" + loggedIn, "Password expired, 2 grace logins left|" + loggedIn},
	{"login reset 'correct horse'", mustChange + "Password expired. Change your password now.|successfully authenticated", mustChange + "Password must be changed|successfully authenticated"},
	{"login disabled 'correct horse'", refused, refused},
	{"login outsider 'correct horse'", "Permission denied|successfully authenticated", "LDAP authorisation check failed|Permission denied|successfully authenticated"},
	{"login attacked wrong", refused, refused},
	{"login attacked wrong", refused, refused},
	{"login attacked wrong", refused, refused},
	{"login attacked 'correct horse'", refused, refused},
	{"change reset 'correct horse' 'battery staple'", wasChanged, wasChanged},
	{"login reset 'battery staple'", loggedIn, loggedIn},
	{"change expired 'correct horse' 'battery staple'", wasChanged, wasChanged},
	{"login expired 'battery staple'", loggedIn, loggedIn},
	{"change fresh 'correct horse' short", mustChange + "Password change failed. Server message: " + tooShort, "Permission denied|password change failed: " + tooShort},
	{"login fresh 'correct horse'", loggedIn, loggedIn},
}

// Outputs of pamtester, and a diagnostic message of the server (tooShort).
const (
	loggedIn   = "account management done.|successfully authenticated"
	refused    = "Authentication failure"
	mustChange = "Authentication token is no longer valid; new one required|"
	wasChanged = "authentication token altered successfully."
	tooShort   = "the password is shorter than 8 characters"
)

// TestLogins logs in by PAM, through sssd and through nslcd. Both services decide who may
// log in, and pass on the messages of the password policy control.
func TestLogins(t *testing.T) {
	t.Parallel()
	wantMounts(t)
	wantPrograms(t, "/usr/bin/pamtester", "/usr/bin/setpriv")
	var sssd, nslcd []scriptCall
	for _, x := range logins {
		sssd, nslcd = append(sssd, scriptCall{x.call, x.sssd}), append(nslcd, scriptCall{x.call, x.nslcd})
	}
	t.Run("sssd", func(t *testing.T) {
		t.Parallel()
		wantSSSD(t)
		wantPrograms(t, "/lib/*/security/pam_sss.so")
		runLogins(t, "sssd", "etc/sssd/sssd.conf", sssd)
	})
	t.Run("nslcd", func(t *testing.T) {
		t.Parallel()
		wantNslcd(t)
		wantPrograms(t, "/lib/*/security/pam_ldap.so")
		runLogins(t, "nslcd", "etc/nslcd.conf", nslcd)
	})
}

func runLogins(t *testing.T, service, file string, calls []scriptCall) {
	p := serveSecured(t, unixEntries(t), serviceEntry(t, service))
	conf := writeIn(t, t.TempDir(), "conf", configurationOf(t, p, service, file))
	show(t, conf, p.ca)
	askScript(t, service+".sh", conf, calls)
	p.stop()
}

// TestGoLDAPPasswordPolicy checks that go-ldap reads the answers of the password policy
// control (draft-behera-ldap-password-policy-11, 6).
func TestGoLDAPPasswordPolicy(t *testing.T) {
	t.Parallel()
	p := serveSecured(t, unixEntries(t))
	type said = ldap.ControlBeheraPasswordPolicy
	for _, x := range []struct {
		user string
		code uint16
		want said
	}{
		{"fresh", ldap.LDAPResultSuccess, said{Expire: -1, Grace: -1, Error: -1}},
		{"warned", ldap.LDAPResultSuccess, said{Expire: 5 * 24 * 3600, Grace: -1, Error: -1}},
		{"expired", ldap.LDAPResultSuccess, said{Expire: -1, Grace: 2, Error: -1}},
		{"reset", ldap.LDAPResultSuccess, said{Expire: -1, Grace: -1, Error: 2, ErrorString: ldap.BeheraPasswordPolicyErrorMap[2]}},
		{"disabled", ldap.LDAPResultInvalidCredentials, said{Expire: -1, Grace: -1, Error: -1}}, // without pwdTell
	} {
		c := p.connect("", "")
		r, err := c.SimpleBind(ldap.NewSimpleBindRequest("uid="+x.user+","+unixDN, "correct horse", []ldap.Control{ldap.NewControlBeheraPasswordPolicy()}))
		wantCode(t, x.user, err, x.code)
		got := said{Expire: -1, Grace: -1, Error: -1}
		if r != nil {
			for _, answer := range r.Controls {
				if b, ok := answer.(*said); ok {
					got = *b
				}
			}
		}
		if got.Expire > 0 {
			got.Expire = (got.Expire + 3600) / (24 * 3600) * (24 * 3600) // round to days: some seconds have passed
		}
		if got != x.want {
			t.Errorf("%s: %+v, want %+v", x.user, got, x.want)
		}
	}
	p.stop()
}
