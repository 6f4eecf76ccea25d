package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
)

var moments = flag.Int("moments", 12, "how many moments TestUntil restores")

// A home is a folder in which a test runs commands.
type home struct {
	*testing.T
	dir string
}

// ldapd runs a command that must succeed, and returns its output.
func (h *home) ldapd(args ...string) string {
	h.Helper()
	var out, errs bytes.Buffer
	m := &cli.Main{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: []string{"LDAPD_ARCHIVE_TO=" + h.path("archive")}}
	if status := m.Run(context.Background(), root(m), args); status != 0 {
		h.Fatalf("ldapd %s: exit status %d: %s%s", strings.Join(args, " "), status, out.String(), errs.String())
	}
	return out.String()
}

func (h *home) path(name string) string { return filepath.Join(h.dir, name) }

// change writes a file of random changes of some entries, and returns its path. The parameter
// "existing" is the set of the entries that exist.
func (h *home) change(rnd *rand.Rand, existing map[int]bool) string {
	var b strings.Builder
	for range 8 {
		n := rnd.IntN(30)
		name := fmt.Sprintf("dn: cn=e%d,dc=example,dc=com\nchangetype: ", n)
		switch {
		case !existing[n]:
			fmt.Fprintf(&b, "%sadd\nobjectClass: device\ncn: e%d\ndescription: %d\n\n", name, n, rnd.Int())
			existing[n] = true
		case rnd.IntN(3) == 0:
			fmt.Fprintf(&b, "%sdelete\n\n", name)
			delete(existing, n)
		default:
			fmt.Fprintf(&b, "%smodify\nadd: description\ndescription: %d\n-\n\n", name, rnd.Int())
		}
	}
	file := h.path("change.ldif")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		h.Fatal(err)
	}
	return file
}

// TestUntil restores an archive up to random commits. Each restored store must equal the
// state that the original store had at that commit, and must pass ldapd check.
func TestUntil(t *testing.T) {
	h := &home{t, t.TempDir()}
	store := h.path("store")
	base := h.path("base.ldif")
	if err := os.WriteFile(base, []byte("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.ldapd("import", "--store", store, "--suffix", "dc=example,dc=com", base)
	h.ldapd("backup", "--store", store)
	first := len(commits(h.ldapd("log", "--store", store)))
	rnd := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	there := map[int]bool{}
	for range 12 {
		h.ldapd("import", "--store", store, h.change(rnd, there))
		switch rnd.IntN(4) {
		case 0: // the next backup archives this change too
		case 1:
			h.ldapd("backup", "--store", store, "--base")
		default:
			h.ldapd("backup", "--store", store)
		}
	}
	h.ldapd("backup", "--store", store)
	all := commits(h.ldapd("log", "--store", store))
	if len(all) < first+60 {
		t.Fatalf("%d commits", len(all))
	}
	for range *moments {
		until := all[first+rnd.IntN(len(all)-first)] // the log begins with the oldest commit
		restored := h.path("restored")
		h.ldapd("backup", "restore", "--to", restored, "--until", until)
		h.ldapd("check", "--store", restored)
		if got, want := h.ldapd("export", "--store", restored), h.ldapd("export", "--store", store, "--at", until); got != want {
			t.Errorf("restored until %s:\n%s\nthe store then:\n%s", until, got, want)
		}
		if err := os.RemoveAll(restored); err != nil {
			t.Fatal(err)
		}
	}
}

// commits returns the revisions in a log, in the log's order.
func commits(log string) []string {
	return regexp.MustCompile(`(?m)\br[0-9a-f]+-[0-9a-f]+-[0-9a-f]+\b`).FindAllString(log, -1)
}
