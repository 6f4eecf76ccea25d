package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

// TestDocs checks that docs/configuration.md is the text that reference returns.
func TestDocs(t *testing.T) {
	const file = "../../../../docs/configuration.md"
	text := reference()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != text {
		t.Errorf("docs/configuration.md is not what go test ./cmd/ldapd/internal/config -run TestDocs -update writes (%v)", err)
	}
}

// reference returns a page that lists every key, except the keys for tests.
func reference() string {
	var b strings.Builder
	b.WriteString(`# Configuration

This page lists all keys. It is made from the program's own list
(` + "`go test ./cmd/ldapd/internal/config -run TestDocs -update`" + `). The key ` + "`limits.size`" + ` is ` + "`size`" + ` below ` + "`limits`" + ` in the
YAML file, the variable ` + "`LDAPD_LIMITS_SIZE`" + ` and the flag ` + "`--limits-size`" + `; the later ones of these take
precedence. [operating.md](operating.md) and the pages that it lists explain the keys; ` + "`ldapd config`" + ` prints the values in force.
In a YAML list in brackets, a value with commas, such as a DN, needs quotes.

| key | default | read at SIGHUP | |
|---|---|---|---|
`)
	for _, k := range Keys {
		if k.Test {
			continue
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Name, cell(k.Default, "`"), map[bool]string{true: "yes"}[k.Reload], describe(k))
	}
	return b.String()
}

// cell returns s as the text of a table cell.
func cell(s, quote string) string {
	if s == "" {
		return ""
	}
	return quote + strings.ReplaceAll(s, "|", `\|`) + quote
}

func describe(k Key) string {
	s := cell(k.Help, "")
	if k.List {
		s += "; a list"
	}
	if k.Secret {
		s += "; not shown by `ldapd config`"
	}
	return s
}
