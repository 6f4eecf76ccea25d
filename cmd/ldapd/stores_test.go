package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
)

// TestStoresOfEarlierVersions checks that stores of earlier versions can be read,
// checked, changed and upgraded. Each store has the entries of a small directory, which
// were changed once after the checkpoint "first". To add a store, make it with an
// import, a checkpoint and a change, and pack its folder s with tar.
func TestStoresOfEarlierVersions(t *testing.T) {
	all, err := filepath.Glob("testdata/stores/*.tar.gz")
	if err != nil || len(all) == 0 {
		t.Fatal(err, "no stores")
	}
	for _, file := range all {
		t.Run(filepath.Base(file), func(t *testing.T) {
			folder := t.TempDir()
			unpack(t, file, folder)
			store := filepath.Join(folder, "s")
			now := ldapd(t, "export", "--store", store)
			if !strings.Contains(now, "mail: john@example.com\n") || !strings.Contains(now, "dn: ou=people,dc=example,dc=com\n") {
				t.Errorf("it has\n%s", now)
			}
			if then := ldapd(t, "export", "--store", store, "--at", "first"); !strings.Contains(then, "mail: jdoe@example.com\n") {
				t.Errorf("it had\n%s", then)
			}
			ldapd(t, "check", "--store", store)
			change := filepath.Join(folder, "change.ldif")
			text := "version: 1\n\ndn: uid=jdoe,ou=people,dc=example,dc=com\nchangetype: modify\nadd: title\ntitle: Boss\n"
			if err := os.WriteFile(change, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			ldapd(t, "import", "--accept-clock", "--store", store, change)
			ldapd(t, "upgrade", "--accept-clock", "--store", store)
			if again := ldapd(t, "export", "--store", store); !strings.Contains(again, "title: Boss\n") {
				t.Errorf("after the change it has\n%s", again)
			}
			ldapd(t, "check", "--store", store)
			if strings.Contains(file, "codes") {
				return
			}
			copied := filepath.Join(folder, "copied")
			ldapd(t, "upgrade", "--accept-clock", "--store", store, "--to", copied)
			for _, args := range [][]string{{"export"}, {"export", "--at", "first"}, {"log"}, {"checkpoint", "--list"}, {"index"}} {
				if was, is := ldapd(t, append(args, "--store", store)...), ldapd(t, append(args, "--store", copied)...); was != is {
					t.Errorf("%s of the store:\n%s\nand of the copy:\n%s", args, was, is)
				}
			}
			ldapd(t, "gc", "--store", copied)
			ldapd(t, "check", "--store", copied)
			if text := ldapd(t, "upgrade", "--dry-run", "--store", copied); strings.Contains(text, "rows") {
				t.Error(text)
			}
		})
	}
}

// ldapd runs a command that must succeed, and returns its output.
func ldapd(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	m := &cli.Main{Stdin: &bytes.Buffer{}, Stdout: &out, Stderr: &errs}
	if status := m.Run(context.Background(), root(m), args); status != 0 {
		t.Fatalf("ldapd %s: status %d\n%s", strings.Join(args, " "), status, errs.String())
	}
	return out.String()
}

func unpack(t *testing.T, file, folder string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(folder, h.Name)
		if h.FileInfo().IsDir() {
			err = os.Mkdir(name, 0o700)
		} else {
			b, e := io.ReadAll(r)
			if err = e; err == nil {
				err = os.WriteFile(name, b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
