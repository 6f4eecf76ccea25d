package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTasks runs the tasks of docs/access.md on the sample directory. For each task, it
// applies the task's rules, and compares the output of the explain commands with the page.
func TestTasks(t *testing.T) {
	page, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tasks, _ := strings.Cut(string(page), "\n## Twenty tasks\n")
	store, file := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "rules")
	ldapd(t, "import", "--store", store, "--suffix", "dc=example,dc=com", "../../testdata/ldif/example.ldif")
	rules, want, asked, n := "", "", []string(nil), 0
	check := func() {
		if asked == nil {
			return
		}
		_, got, _ := strings.Cut(ldapd(t, append([]string{"access", "explain", "--store", store}, asked...)...), "\n")
		if got != want {
			t.Errorf("%sexplain %s:\n%swant\n%s", rules, strings.Join(asked, " "), got, want)
		}
		asked, want = nil, ""
	}
	for line := range strings.Lines(tasks + "\n1. end\n") {
		text, indented := strings.CutPrefix(line, "       ")
		command, isCommand := strings.CutPrefix(text, "$ explain ")
		switch {
		case !indented && strings.TrimSpace(line) != "":
			check()
			rules, n = "", n+1
		case !indented:
		case isCommand:
			check()
			if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
				t.Fatal(err)
			}
			ldapd(t, "access", "apply", "--store", store, file)
			asked = taskArguments(command)
		case asked != nil:
			want += text
		default:
			rules += text
		}
	}
	if n < 20 {
		t.Errorf("%d tasks", n)
	}
}

// taskArguments returns the arguments of a command of the page. A word without an equals
// sign after --as or --to is the uid of a person.
func taskArguments(command string) []string {
	args := strings.Fields(command)
	for i := 1; i < len(args); i++ {
		if (args[i-1] == "--as" || args[i-1] == "--to") && !strings.Contains(args[i], "=") {
			args[i] = "uid=" + args[i] + ",ou=people,dc=example,dc=com"
		}
	}
	return args
}
