package directory_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
)

// TestViewTasks runs the commands in the tasks of docs/views.md twice: with views that are
// computed, and with views that are kept.
func TestViewTasks(t *testing.T) {
	page, err := os.ReadFile("../docs/views.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tasks, _ := strings.Cut(string(page), "\n## Ten tasks\n")
	for name, keep := range map[string]bool{"computed": false, "kept": true} {
		t.Run(name, func(t *testing.T) { runViewTasks(t, tasks, keep) })
	}
}

func runViewTasks(t *testing.T, tasks string, keep bool) {
	p := newPartition(t)
	if err := onlineschema.AddSuffixes(t.Context(), p, []string{"cn=views"}); err != nil {
		t.Fatal(err)
	}
	s := newDirectory(t, p, directory.Options{}).NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	searches := 0
	for command, text := range viewCommands(tasks) {
		words := shellWords(command)
		switch {
		case words[0] == "ldapadd" || words[0] == "ldapmodify":
			for r, err := range ldif.NewReader(strings.NewReader(text), ldif.Options{}).Records() {
				if err != nil {
					t.Fatal(err)
				}
				request := r.Change
				if request == nil {
					request = &op.Add{Name: r.DN, Attributes: r.Attributes}
				}
				serve(t, s, request)
			}
			if keep {
				if err := materialized.Update(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
		case strings.HasPrefix(command, "ldapd checkpoint "):
			if _, err := p.DB.Checkpoint(t.Context(), words[2]); err != nil {
				t.Fatal(err)
			}
		case words[0] == "ldapsearch":
			searches++
			if got, want := searchAsShell(t, s, words[1:]), tidied(text); got != want {
				t.Errorf("%s\n%s\nwant\n%s", command, got, want)
			}
		default:
			t.Errorf("%s: what is this?", command)
		}
	}
	if searches < 11 {
		t.Errorf("%d searches", searches)
	}
}

// viewCommands returns the commands of a page with the indented text below each.
func viewCommands(page string) func(yield func(command, text string) bool) {
	return func(yield func(command, text string) bool) {
		command, text := "", ""
		for line := range strings.Lines(page + "    $ end\n") {
			indented, ok := strings.CutPrefix(line, "    ")
			next, isCommand := strings.CutPrefix(indented, "$ ")
			switch {
			case ok && isCommand:
				if command != "" && !yield(command, text) {
					return
				}
				command, text = strings.TrimSpace(next), ""
			case ok || strings.TrimSpace(line) == "":
				text += strings.TrimPrefix(line, "    ")
			}
		}
	}
}

var shellWord = regexp.MustCompile(`'[^']*'|\S+`)

func shellWords(command string) (words []string) {
	for _, w := range shellWord.FindAllString(command, -1) {
		words = append(words, strings.Trim(w, "'"))
	}
	return words
}

// searchAsShell runs a search with the arguments of ldapsearch.
func searchAsShell(t *testing.T, s *directory.Session, args []string) string {
	t.Helper()
	r := &op.Search{}
	var controls []op.Control
	for len(args) > 1 && strings.HasPrefix(args[0], "-") {
		switch value := args[1]; args[0] {
		case "-b":
			r.Base = value
		case "-s":
			r.Scope = op.Scope(slices.Index([]string{"base", "one", "sub", "children"}, value))
		case "-E":
			oid, moment, _ := strings.Cut(strings.TrimPrefix(value, "!"), "=:")
			if oid != control.OIDAt {
				t.Fatalf("%s is another control", oid)
			}
			controls = append(controls, op.Control{OID: oid, Critical: true, Value: []byte(moment)})
		default:
			t.Fatalf("%s is no option of ldapsearch that this test knows", args[0])
		}
		args = args[2:]
	}
	r.Filter, r.Attributes = filter.MustParse(args[0]), args[1:]
	var out answers
	s.Serve(t.Context(), &op.Message{Request: r, Controls: controls}, &out)
	if out.done.Code != op.Success {
		t.Errorf("%q: %v", args, &out.done.Result)
	}
	return tidied(strings.Join(out.entries, "\n"))
}

var anyID = regexp.MustCompile(`entryUUID=[0-9a-f-]{36},`)

// tidied returns the text of entries with the attributes of each entry sorted, and without
// the entryUUIDs in names, so that two texts can be compared.
func tidied(text string) string {
	var all []string
	for entry := range strings.SplitSeq("\n"+anyID.ReplaceAllString(text, "entryUUID=...,"), "\ndn: ") {
		lines := strings.Split(strings.TrimSpace(entry), "\n")
		for i := range lines {
			lines[i] = strings.TrimSpace(lines[i])
		}
		slices.Sort(lines[1:])
		all = append(all, strings.Join(lines, "\n  "))
	}
	return strings.TrimSpace(strings.Join(all, "\ndn: "))
}
