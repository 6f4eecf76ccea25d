package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
)

// A realm is a KDC, and a server whose keytab has a key of it. Ann and the clerk have tickets in caches.
type realm struct {
	*process
	kdc   *hbasetest.KDC
	files *tlsFiles
	dir   string
}

func newRealm(t *testing.T) *realm {
	for _, name := range []string{"kinit", "ldapwhoami"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%v (Debian's krb5-user and ldap-utils)", err)
		}
	}
	if plugins, err := filepath.Glob("/usr/lib/*/sasl2/libgssapiv2.so"); err != nil || len(plugins) == 0 {
		t.Skip("no GSSAPI for ldapwhoami (Debian's libsasl2-modules-gssapi-mit)")
	}
	r := &realm{kdc: hbasetest.StartKDC(t), files: newTLS(t), dir: t.TempDir()}
	// The ticket names the host as the URL does. (libldap compares a certificate with this machine's own name if the
	// URL has localhost.)
	keytab := r.kdc.Keytab("ldap/127.0.0.1", "HTTP/127.0.0.1")
	for _, who := range []string{"ann", "clerk", "nobody"} {
		r.run(t, nil, "kinit", "-c", r.cache(who), "-k", "-t", r.kdc.Keytab(who), who+"@"+hbasetest.Realm)
	}
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	r.process = serve(t, store, append(r.files.flags(), "--listen", "ldap://127.0.0.1:0", "--listen", "ldaps://127.0.0.1:0", "--sasl-keytab", keytab,
		"--sasl-identity", `krb:clerk@EXAMPLE\.COM -> `+adminDN,
		"--sasl-identity", `krb:([^/@]+)@EXAMPLE\.COM -> ldap:///??sub?(uid=$1)`)...)
	ann := ldap.NewAddRequest(annDN, nil)
	for a, v := range map[string]string{"objectClass": "inetOrgPerson", "cn": "Ann", "sn": "Ann", "userPassword": annPassword} {
		ann.Attribute(a, []string{v})
	}
	if err := r.admin().Add(ann); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *realm) cache(who string) string { return "FILE:" + filepath.Join(r.dir, who) }

// run runs a command, and returns what it prints.
func (r *realm) run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	out, err := r.try(env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func (r *realm) try(env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), append(env, "KRB5_CONFIG="+r.kdc.Config, "LDAPTLS_CACERT="+r.files.ca, "LDAPSASL_NOCANON=on")...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestKerberos binds with tickets: OpenLDAP's client with each security layer, in clear and in TLS.
func TestKerberos(t *testing.T) {
	r := newRealm(t)
	clear, tls := []string{"-H", r.urls[0]}, []string{"-H", r.urls[1]}
	startTLS := append([]string{"-ZZ"}, clear...)
	seal, sign, none := []string{"-O", "minssf=56"}, []string{"-O", "maxssf=1,minssf=1"}, []string{"-O", "maxssf=0"}
	for _, c := range []struct {
		name, who string
		args      [][]string
		want      string // the name, or a part of what is printed if it is refused
	}{
		{"sealed", "ann", [][]string{clear, seal, {"-Y", "GSSAPI"}}, annDN},
		{"signed", "ann", [][]string{clear, sign, {"-Y", "GSSAPI"}}, annDN},
		{"in clear", "ann", [][]string{clear, none, {"-Y", "GSSAPI"}}, annDN},
		{"TLS", "ann", [][]string{tls, none, {"-Y", "GSSAPI"}}, annDN},
		{"StartTLS", "ann", [][]string{startTLS, none, {"-Y", "GSSAPI"}}, annDN},
		{"TLS, default", "ann", [][]string{tls, {"-Y", "GSSAPI"}}, annDN},
		{"SPNEGO sealed", "ann", [][]string{clear, seal, {"-Y", "GSS-SPNEGO"}}, annDN},
		{"SPNEGO signed", "ann", [][]string{clear, sign, {"-Y", "GSS-SPNEGO"}}, annDN},
		{"SPNEGO in TLS", "ann", [][]string{tls, none, {"-Y", "GSS-SPNEGO"}}, annDN},
		{"SPNEGO in clear", "ann", [][]string{clear, none, {"-Y", "GSS-SPNEGO"}}, "asks for no signing"},
		{"the administrator", "clerk", [][]string{clear, seal, {"-Y", "GSSAPI"}}, adminDN},
		{"as Ann", "clerk", [][]string{clear, seal, {"-Y", "GSSAPI", "-X", "dn:" + annDN}}, annDN},
		{"as the administrator", "ann", [][]string{clear, seal, {"-Y", "GSSAPI", "-X", "dn:" + adminDN}}, "Invalid credentials"},
		{"a principal without an entry", "nobody", [][]string{clear, seal, {"-Y", "GSSAPI"}}, "Invalid credentials"},
		{"no ticket", "stranger", [][]string{clear, seal, {"-Y", "GSSAPI"}}, "Local error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var args []string
			for _, a := range c.args {
				args = append(args, a...)
			}
			out, err := r.try([]string{"KRB5CCNAME=" + r.cache(c.who)}, "ldapwhoami", args...)
			if !strings.Contains(out, c.want) || (err == nil) != strings.HasPrefix(c.want, "uid=") && c.want != adminDN {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
