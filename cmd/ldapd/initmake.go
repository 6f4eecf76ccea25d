package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/certs"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// A maker makes the files and the store of a directory.
type maker struct {
	m *cli.Main
	*setup
	user  int // if root hands the store over: its new owner
	group int
	made  []string // files and folders, in the order in which they were made
	owned []string // the files in made that only the server may read
}

// undo removes what was made.
func (k *maker) undo() {
	for _, name := range k.made {
		os.RemoveAll(name)
	}
}

// write makes a file. It returns an error if the file exists.
func (k *maker) write(name string, mode fs.FileMode, text []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	k.made = append(k.made, name)
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// secrets writes the hash of the password. If the certificate is to be self-signed, it also
// writes the certificate and its key.
func (k *maker) secrets(ctx context.Context) error {
	hash := []byte(k.password)
	if !auth.Hashed(hash) {
		var err error
		if hash, err = auth.New(1, nil).Hash(ctx, auth.NoChannel{}, auth.Default, hash); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(k.file), 0o755); err != nil {
		return err
	}
	k.passwordFile = k.nextTo("admin.hash")
	if err := k.write(k.passwordFile, 0o600, append(hash, '\n')); err != nil {
		return err
	}
	k.owned = append(k.owned, k.passwordFile)
	if k.certificate != selfSigned {
		return nil
	}
	if len(k.hosts) == 0 {
		k.hosts = certs.HostNames()
	}
	certificate, key, err := certs.SelfSigned(k.hosts, time.Now().Add(-time.Hour), time.Now().Add(certs.Lasts))
	if err != nil {
		return err
	}
	k.certificate, k.key = k.nextTo("server.pem"), k.nextTo("server.key")
	k.owned = append(k.owned, k.key)
	return errors.Join(k.write(k.certificate, 0o644, certificate), k.write(k.key, 0o600, key))
}

// makeStore makes the store, with its first entries and access rules.
func (k *maker) makeStore(ctx context.Context) (err error) {
	if _, err := os.Stat(k.store); errors.Is(err, fs.ErrNotExist) {
		k.made = append(k.made, k.store)
	}
	user, group, handed := k.owner()
	if err := os.MkdirAll(filepath.Dir(k.store), 0o755); err != nil {
		return err
	}
	if handed {
		k.user, k.group = user, group
	}
	c, err := config.Load(config.Sources{Flags: map[string][]string{"store": {k.store}, "suffix": {k.suffix}, "access": {k.access}, "password-policy": {k.policy}, "admin.dn": {k.admin}}})
	if err != nil {
		return err
	}
	defer cli.LowMemory(c)()
	p, err := cli.Open(ctx, c, slog.New(slog.DiscardHandler), cli.Load)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	if err := k.entries(ctx, p.Partition); err != nil {
		return fmt.Errorf("the first entries: %w", err)
	}
	return nil
}

func (k *maker) entries(ctx context.Context, p *partition.Partition) error {
	name, err := dn.Parse(k.suffix)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	text.WriteString("version: 1\n")
	writeEntry(&text, name)
	folders := k.folders
	if k.access == "services" {
		folders += ",services" // the access rules of this profile refer to ou=services
	}
	for _, u := range units(folders) {
		writeEntry(&text, append(dn.DN{{{Type: "ou", Value: []byte(u)}}}, name...))
	}
	var bad []error
	_, err = bulk.Import(ctx, p, bulk.Options{
		Files: []string{"-"}, Stdin: &text, Suffixes: []string{k.suffix}, By: partition.By{Name: write.Founder},
		Report: func(e *ldif.Error) { bad = append(bad, e) },
	})
	return errors.Join(append(bad, err)...)
}

// classesOf returns the object classes of a naming context's topmost entry, or nil if
// its name is of an unusual kind.
func classesOf(name dn.DN) []string {
	if len(name[0]) != 1 {
		return nil
	}
	switch strings.ToLower(name[0][0].Type) {
	case "dc":
		return []string{"domain"}
	case "o":
		return []string{"organization"}
	case "ou":
		return []string{"organizationalUnit"}
	case "c":
		return []string{"country"}
	case "l":
		return []string{"locality"}
	}
	return nil
}

func suffixTypes() []string { return []string{"dc=", "o=", "ou=", "c=", "l="} }

func writeEntry(w io.Writer, name dn.DN) {
	line := func(attribute string, value []byte) {
		fmt.Fprintf(w, "%s:: %s\n", attribute, base64.StdEncoding.EncodeToString(value))
	}
	fmt.Fprintln(w)
	line("dn", []byte(name.String()))
	fmt.Fprintln(w, "objectClass: top")
	for _, c := range classesOf(name) {
		fmt.Fprintln(w, "objectClass:", c)
	}
	line(name[0][0].Type, name[0][0].Value)
}

// noConsole is what a configuration without a console says of it.
const noConsole = `# Pages for a browser, with the certificate above (docs/console.md): remove the # of the next lines, and restart.
#console:
#  listen: https://0.0.0.0:8443
`

// configure writes the configuration.
func (k *maker) configure(context.Context) error {
	var b strings.Builder
	b.WriteString("# Made by ldapd init. All keys: man 5 ldapd.conf, or docs/configuration.md.\n")
	fmt.Fprintf(&b, "store: %s\n", yamlText(absolute(k.store)))
	b.WriteString("listen:\n")
	for _, u := range strings.Fields(k.listen) {
		fmt.Fprintf(&b, "  - %s\n", yamlText(u))
	}
	fmt.Fprintf(&b, "admin:\n  dn: %s\n  password-file: %s\n", yamlText(k.admin), yamlText(absolute(k.passwordFile)))
	if k.certificate != noCertificate {
		fmt.Fprintf(&b, "tls:\n  certificate: %s\n  key: %s\n", yamlText(absolute(k.certificate)), yamlText(absolute(k.key)))
	}
	if k.status != noStatus {
		fmt.Fprintf(&b, "status:\n  listen: %s\n", yamlText(k.status))
	}
	if k.console != "" {
		fmt.Fprintf(&b, "console:\n  listen: %s\n", yamlText(k.console))
	} else {
		b.WriteString(noConsole)
	}
	if err := k.write(k.file, 0o644, []byte(b.String())); err != nil {
		return err
	}
	_, err := config.Load(config.Sources{File: k.file})
	return err
}

// yamlText returns s as a YAML string. Every JSON string is also a YAML string.
func yamlText(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) // error ignored: a string can be encoded
	return strings.TrimSpace(b.String())
}

func absolute(name string) string {
	if a, err := filepath.Abs(name); err == nil {
		return a
	}
	return name
}

// If root has made the files and the store, hand changes the owner of the store and of the
// files in the list owned to the user that the service runs as.
func (k *maker) hand(context.Context) error {
	if k.user == 0 {
		return nil
	}
	for _, name := range k.owned {
		if err := os.Chown(name, k.user, k.group); err != nil {
			return err
		}
	}
	return filepath.WalkDir(k.store, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, k.user, k.group)
		}
		return err
	})
}

// say prints what was made, and three commands to try.
func (k *maker) say() error {
	start := "ldapd serve --config " + k.file
	if _, err := os.Stat("/run/systemd/system"); err == nil && k.file == packaged {
		start = "systemctl enable --now ldapd"
	} else if k.user != 0 {
		start = fmt.Sprintf("sudo -u '#%d' %s", k.user, start)
	}
	url := reachable(k.listen)
	trust := ""
	if strings.HasPrefix(url, "ldaps:") {
		trust = "LDAPTLS_CACERT=" + k.certificate + " "
	}
	_, err := fmt.Fprintf(k.m.Stdout, `made %s and the store %s

Try:
  %s
  %sldapwhoami -x -H %s -D '%s' -W
  %sldapsearch -x -H %s -D '%s' -W -b '%s'
  ldapd health --config %s
`, k.file, k.store, start, trust, url, k.admin, trust, url, k.admin, k.suffix, k.file)
	return err
}
