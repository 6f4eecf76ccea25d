package passwordlist

import (
	"bytes"
	"crypto/sha1"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

var passwords = flag.Int("passwords", 100_000, "`PASSWORDS` in the list of TestList")

func write(t testing.TB, w *Writer) (string, int) {
	t.Helper()
	defer w.Close()
	file := filepath.Join(t.TempDir(), "known")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	n, err := w.Save(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return file, n
}

// TestList checks lists that were made in memory and with temporary files. A list must
// contain all its passwords, must seem to contain about as many other passwords as
// expected, and must not be too large.
func TestList(t *testing.T) {
	for _, limit := range []int{inMemory, 1000} {
		w := NewWriter()
		w.limit = limit
		for i := range *passwords {
			for range 1 + i%2 { // some of them twice
				if err := w.Add(fmt.Appendf(nil, "password-%d", i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		file, n := write(t, w)
		if n != *passwords {
			t.Errorf("%d passwords", n)
		}
		l, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range *passwords {
			if !l.Contains(fmt.Appendf(nil, "password-%d", i)) {
				t.Fatalf("password %d is missing", i)
			}
		}
		const others = 1_000_000
		found := 0
		for i := range others {
			if l.Contains(fmt.Appendf(nil, "other-%d", i)) {
				found++
			}
		}
		// The expected number is others/65,536 = 15.3, with a standard deviation of 3.9.
		if found < 1 || found > 38 {
			t.Errorf("%d of %d other passwords are in the list", found, others)
		}
		info, _ := os.Stat(file)
		bits := float64(info.Size()*8) / float64(n)
		t.Logf("limit %d: %.2f bits a password, %d of %d others found", limit, bits, found, others)
		if limit == inMemory && bits > 20 {
			t.Errorf("%.1f bits a password", bits)
		}
		if l.Len() != n {
			t.Errorf("Len is %d", l.Len())
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d MB from the system", m.Sys>>20)
}

func TestHashes(t *testing.T) {
	w := NewWriter()
	for i, form := range []string{"%x", "%X:17", "%x:"} {
		if err := w.AddHash(fmt.Appendf(nil, form, sha1.Sum(fmt.Append(nil, "p", i)))); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"", "password", strings.Repeat("z", 40), strings.Repeat("a", 41), ":"} {
		if err := w.AddHash([]byte(bad)); err == nil {
			t.Errorf("%q is a hash", bad)
		}
	}
	file, _ := write(t, w)
	l, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if !l.Contains(fmt.Append(nil, "p", i)) {
			t.Errorf("p%d is missing", i)
		}
	}
}

func TestEmptyList(t *testing.T) {
	file, n := write(t, NewWriter())
	l, err := Read(file)
	if err != nil || n != 0 || l.Contains([]byte("x")) {
		t.Errorf("%d, %v", n, err)
	}
}

// TestDamagedLists checks that no damaged file is used, wherever the damage is.
func TestDamagedLists(t *testing.T) {
	w := NewWriter()
	for i := range 100 {
		if err := w.Add(fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	file, _ := write(t, w)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, text []byte, want string) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); err == nil || !strings.HasPrefix(err.Error(), file+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1
		refused(fmt.Sprint("octet ", i), flipped, "")
		refused(fmt.Sprint("cut at ", i), whole[:i], "")
	}
	refused("more", append(bytes.Clone(whole), 0), "damaged")
	refused("a list of passwords", []byte("123456\npassword\n"), "it is no list of known passwords")
	newer := bytes.Clone(whole)
	newer[len(magic)] = 2
	refused("a newer one", newer, "its format is 2")
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there")
	}
}

// TestFileIsReadAgain checks that a new list is in force at once, and that an invalid list
// does not replace the list in force.
func TestFileIsReadAgain(t *testing.T) {
	list := func(password string) []byte {
		w := NewWriter()
		if err := w.Add([]byte(password)); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := w.Save(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	file, at := filepath.Join(t.TempDir(), "known"), time.Now()
	put := func(text []byte) {
		at = at.Add(time.Second)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	put(list("one"))
	var log bytes.Buffer
	f, err := Open(file, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || !f.Contains([]byte("one")) || f.Contains([]byte("two")) {
		t.Fatal(err)
	}
	put(list("two"))
	if f.Contains([]byte("one")) || !f.Contains([]byte("two")) {
		t.Error("the new list does not count")
	}
	put([]byte("nonsense"))
	for range 3 {
		if !f.Contains([]byte("two")) {
			t.Error("a bad list replaced the old one")
		}
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
		t.Errorf("reported %d times", n)
	}
	os.Remove(file)
	if !f.Contains([]byte("two")) {
		t.Error("a missing file replaced the old one")
	}
}
