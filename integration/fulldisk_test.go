//go:build linux

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// smallDisk mounts a disk of size bytes. It skips the test if mounting is not permitted.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if errors.Is(err, os.ErrPermission) {
		t.Skip("file systems cannot be mounted here")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// addUntilFull adds entries until the server refuses one. It returns the number of
// entries that were added, and the error of the refusal.
func addUntilFull(c *ldap.Conn, prefix string) (n int, err error) {
	for ; err == nil; n++ {
		r := ldap.NewAddRequest(fmt.Sprintf("cn=%s%d,%s", prefix, n, suffix), nil)
		r.Attribute("objectClass", []string{"device"})
		r.Attribute("description", []string{strings.Repeat(fmt.Sprint(n), 4000)})
		err = c.Add(r)
	}
	return n - 1, err
}

// awaitAdd waits until the server accepts a new entry.
func awaitAdd(t *testing.T, c *ldap.Conn) {
	t.Helper()
	r := ldap.NewAddRequest("cn=again,"+suffix, nil)
	r.Attribute("objectClass", []string{"device"})
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := c.Add(r)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("add with space again: %v", err)
		}
	}
}

// TestFullDiskUntilSpace fills a disk. While the disk is full, entries can be deleted, found
// and exported, and the server can be started again, but it must refuse new entries. When
// there is space and the server was started once more, it must accept them.
func TestFullDiskUntilSpace(t *testing.T) {
	dir := smallDisk(t, 64<<20)
	store := filepath.Join(dir, "store")
	importInto(t, store, example)
	p := serve(t, store, "--status-listen", "http://127.0.0.1:0")
	c := p.admin()
	wantHealth(t, p, "with space", 200, 200, 200)
	filler := fill(t, dir)
	n, err := addUntilFull(c, "one")
	wantCode(t, "the first refused add", err, ldap.LDAPResultUnavailable)
	wantHealth(t, p, "disk full", 200, 200, 503)
	if n > 0 {
		wantCode(t, "a delete", c.Del(ldap.NewDelRequest("cn=one0,"+suffix, nil)), ldap.LDAPResultSuccess)
	}
	if names, err := searchDN(c, suffix, ldap.ScopeBaseObject, "(objectClass=*)"); err != nil || len(names) != 1 {
		t.Errorf("search: %v %v", names, err)
	}
	if lines := strings.Count(p.stderr.String(), "full"); lines < 1 || lines > 3 {
		t.Errorf("%d lines of the full disk in the log", lines)
	}
	p.stop()
	fill(t, dir)
	if out, status := ldapdRun(t, "export", "--store", store); status != 0 || !strings.Contains(out, "uid=jdoe") {
		t.Errorf("export: status %d\n%.2000s", status, out)
	}
	p = serve(t, store)
	c = p.admin()
	if names, err := searchDN(c, suffix, ldap.ScopeWholeSubtree, "(uid=jdoe)"); err != nil || len(names) != 1 {
		t.Errorf("search after a start: %v %v", names, err)
	}
	_, err = addUntilFull(c, "two")
	wantCode(t, "an add after a start", err, ldap.LDAPResultUnavailable)
	p.stop()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	p = serve(t, store)
	awaitAdd(t, p.admin())
	p.stop()
}

// TestReadOnlyMount exports and checks a store on a file system that is mounted read-only.
// Serving that store must fail.
func TestReadOnlyMount(t *testing.T) {
	dir := smallDisk(t, 64<<20)
	store := filepath.Join(dir, "store")
	importInto(t, store, example)
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if out, status := ldapdRun(t, "export", "--store", store); status != 0 || !strings.Contains(out, "uid=jdoe") {
		t.Errorf("export: status %d\n%.2000s", status, out)
	}
	if out, status := ldapdRun(t, "check", "--store", store); status != 0 {
		t.Errorf("check: status %d\n%.2000s", status, out)
	}
	out, status := ldapdRun(t, "serve", "--store", store, "--listen", "ldap://127.0.0.1:0")
	wantFailure(t, out, status, 1, "mounted read-only")
}

// TestReadOnlyCopy exports a store that belongs to another user. A garbage collection in
// that store must fail.
func TestReadOnlyCopy(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	nobody := &syscall.Credential{Uid: 65534, Gid: 65534}
	dir, err := os.MkdirTemp("", "ldapd-copy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	store := filepath.Join(dir, "store")
	importInto(t, store, example)
	for _, name := range append(files(t, store, "*"), dir, store, program.dir) {
		if err := os.Chmod(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, status := ldapdRunAs(t, nobody, "export", "--store", store); status != 0 || !strings.Contains(out, "uid=jdoe") {
		t.Errorf("export: status %d\n%.2000s", status, out)
	}
	out, status := ldapdRunAs(t, nobody, "gc", "--store", store, "--retention", "1h")
	wantFailure(t, out, status, 1, "not writable")
}
