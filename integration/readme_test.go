package integration

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestFirstSession runs the commands of the README's first session on the directory that
// scripts/run makes. Each command must print the block that follows it.
func TestFirstSession(t *testing.T) {
	wantPrograms(t, "/usr/bin/ldapsearch")
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, session, _ := strings.Cut(string(page), "\n## A first session\n")
	session, _, _ = strings.Cut(session, "\nA directory of your own")
	data := filepath.Join(t.TempDir(), "data")
	url, _ := sampleServer(t)
	ran := 0
	for command, want := range commandsOf(session) {
		command = strings.NewReplacer("ldap://127.0.0.1:3890", url(data), "bin/ldapd", ldapd(t), "data/store", filepath.Join(data, "store")).Replace(command)
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		if got := paragraphs(string(out)); err != nil || got != paragraphs(want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", command, err, got, want)
		}
		ran++
	}
	if ran < 4 {
		t.Errorf("%d commands", ran)
	}
}

// paragraphs returns a text with its paragraphs sorted, because the entries of a search
// have no order.
func paragraphs(text string) string {
	all := strings.Split(strings.TrimSpace(text), "\n\n")
	slices.Sort(all)
	return strings.Join(all, "\n\n")
}

// TestRunHint runs the commands that scripts/run prints.
func TestRunHint(t *testing.T) {
	wantPrograms(t, "/usr/bin/ldapsearch", "/usr/bin/ldapadd", "/usr/bin/ldappasswd")
	server, hint := sampleServer(t)
	url := server(filepath.Join(t.TempDir(), "data"))
	_, commands, _ := strings.Cut(hint(), "(Debian's package ldap-utils has these):")
	commands, _, _ = strings.Cut(commands, "\nThe newcomer must")
	commands = strings.ReplaceAll(commands, "ldap://127.0.0.1:0", url)
	out, err := exec.Command("sh", "-e", "-c", commands).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\ncn: New Comer\n") {
		t.Errorf("%v\n%s\n%s", err, commands, out)
	}
	runServicePolicy(t, url)
}

// runServicePolicy runs the command of the recipe "A policy for services", and checks that the account
// can be used at once, and after many guesses.
func runServicePolicy(t *testing.T, url string) {
	page, err := os.ReadFile("../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, _ := strings.Cut(string(page), "\n## A policy for services\n")
	recipe, _, _ = strings.Cut(recipe, "\nGuesses are not")
	_, recipe, _ = strings.Cut(recipe, "\n    ")
	// The sample has an entry ou=services already.
	recipe = strings.NewReplacer("\n    ", "\n", "ldap://127.0.0.1:3890", url, " -W", " -w secret", "ou=services", "ou=programs", "ou: services", "ou: programs").Replace(recipe)
	if out, err := exec.Command("sh", "-c", recipe).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, recipe, out)
	}
	_, password, _ := strings.Cut(recipe, "\nuserPassword: ")
	password, _, _ = strings.Cut(password, "\n")
	read := func(password string) error {
		return exec.Command("ldapsearch", "-x", "-H", url, "-D", "cn=mailer,ou=programs,dc=example,dc=com", "-w", password, "-b", "dc=example,dc=com", "-s", "base").Run()
	}
	for range 12 { // the default policy permits 10
		if read("wrong") == nil {
			t.Error("a wrong password was accepted")
		}
	}
	if err := read(password); err != nil {
		t.Errorf("the service cannot read: %v", err)
	}
}

// sampleServer returns two functions. The first runs scripts/run on a folder and returns the URL of
// the server. Later calls of the function only return the same URL. The second returns what the
// script has printed.
func sampleServer(t *testing.T) (server func(data string) string, printed func() string) {
	url, text := "", ""
	return func(data string) string {
		if url != "" {
			return url
		}
		cmd := exec.Command("scripts/run", ldapd(t), data, "ldap://127.0.0.1:0", "dc=example,dc=com", "http://127.0.0.1:0")
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "LDAPD_ACCESS=staff", "LDAPD_PASSWORD_POLICY=default")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			text += lines.Text() + "\n"
			if _, after, ok := strings.Cut(lines.Text(), "ready "); ok {
				url = strings.Fields(after)[0]
				return url
			}
		}
		t.Fatal("scripts/run does not get ready")
		return ""
	}, func() string { return text }
}

// commandsOf returns the indented commands of a section with the indented blocks that
// follow them.
func commandsOf(section string) func(yield func(command, output string) bool) {
	return func(yield func(command, output string) bool) {
		command, output := "", ""
		for line := range strings.Lines(section + "\nend\n") {
			text, indented := strings.CutPrefix(line, "    ")
			switch {
			case indented && command == "":
				command = strings.TrimSpace(text)
			case indented:
				output += text
			case strings.TrimSpace(line) == "":
				output += "\n"
			case command != "":
				if !yield(command, strings.TrimSpace(output)) {
					return
				}
				command, output = "", ""
			}
		}
	}
}
