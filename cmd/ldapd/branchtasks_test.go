package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

const taskAdmin = "cn=admin,dc=example,dc=com"

// TestBranchTasks runs the tasks of docs/branches.md on each kind of store.
func TestBranchTasks(t *testing.T) {
	page, err := os.ReadFile("../../docs/branches.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tasks, _ := strings.Cut(string(page), "\n## Ten tasks\n")
	embedded, err := lsm.Open(lsm.Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer embedded.Close()
	for name, store := range map[string]table.Store{"embedded": embedded, "shared": tabletest.NewMem()} {
		t.Run(name, func(t *testing.T) {
			r := newTaskRunner(t, store)
			n := 0
			for command, text := range taskCommands(tasks) {
				n++
				r.run(strings.ReplaceAll(command, "ADMIN", taskAdmin), text)
			}
			if n < 30 {
				t.Errorf("%d commands", n)
			}
		})
	}
}

// taskCommands returns the commands of a page, each with the indented text below it.
func taskCommands(page string) func(yield func(command, text string) bool) {
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

// A taskRunner runs commands on a directory in this process.
type taskRunner struct {
	t        *testing.T
	p        *partition.Partition
	d        *directory.Directory
	sessions map[string]*directory.Session
	folder   string
}

func newTaskRunner(t *testing.T, s table.Store) *taskRunner {
	t.Helper()
	ctx := context.Background()
	p, err := partition.Open(ctx, s, partition.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(ctx) })
	if err := onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}); err != nil {
		t.Fatal(err)
	}
	d, err := directory.New(p, directory.Options{Admin: taskAdmin, AdminPassword: "{SSHA}y+dX0kZIbVwVNdDNg5T1bjbFH+F/+wKO"})
	if err != nil {
		t.Fatal(err)
	}
	return &taskRunner{t: t, p: p, d: d, sessions: map[string]*directory.Session{}, folder: t.TempDir()}
}

var taskWord = regexp.MustCompile(`'[^']*'|\S+`)

func (r *taskRunner) run(command, text string) {
	r.t.Helper()
	var words []string
	for _, w := range taskWord.FindAllString(command, -1) {
		words = append(words, strings.Trim(w, "'"))
	}
	switch words[0] {
	case "ldapadd", "ldapmodify":
		r.modify(words[1:], text)
	case "ldapsearch":
		if got := r.search(words[1:]); tidy(got) != tidy(text) {
			r.t.Errorf("%s\n%s\nwant\n%s", command, tidy(got), tidy(text))
		}
	case "ldapd":
		r.ldapd(command, words[1:], text)
	default:
		r.t.Errorf("%s: what is this?", command)
	}
}

// session returns the session of the user whom -D names, and the rest of the arguments.
func (r *taskRunner) session(args []string) (*directory.Session, []string) {
	r.t.Helper()
	if len(args) < 3 || args[0] != "-D" || args[2] != "-W" {
		r.t.Fatalf("%q: -D and -W are missing", args)
	}
	s := r.sessions[args[1]]
	if s == nil {
		s = r.d.NewSession(nil)
		r.sessions[args[1]] = s
		r.serve(s, &op.Bind{Version: 3, Name: args[1], Password: []byte("secret")})
	}
	return s, args[3:]
}

func (r *taskRunner) serve(s *directory.Session, request op.Request) string {
	r.t.Helper()
	var out taskAnswers
	s.Serve(context.Background(), &op.Message{Request: request}, &out)
	if out.done.Code != op.Success {
		r.t.Errorf("%+v: %v", request, &out.done.Result)
	}
	return strings.Join(out.entries, "\n")
}

func (r *taskRunner) modify(args []string, text string) {
	r.t.Helper()
	s, args := r.session(args)
	if len(args) == 2 && args[0] == "-f" {
		b, err := os.ReadFile(filepath.Join(r.folder, args[1]))
		if err != nil {
			r.t.Fatal(err)
		}
		text = string(b)
	}
	for rec, err := range ldif.NewReader(strings.NewReader(text), ldif.Options{}).Records() {
		if err != nil {
			r.t.Fatal(err)
		}
		request := rec.Change
		if request == nil {
			request = &op.Add{Name: rec.DN, Attributes: rec.Attributes}
		}
		r.serve(s, request)
	}
}

func (r *taskRunner) search(args []string) string {
	r.t.Helper()
	s, args := r.session(args)
	q := &op.Search{Scope: op.WholeSubtree}
	for len(args) > 1 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-b":
			q.Base = args[1]
		case "-s":
			q.Scope = op.Scope(slices.Index([]string{"base", "one", "sub", "children"}, args[1]))
		}
		args = args[2:]
	}
	q.Filter, q.Attributes = filter.MustParse(args[0]), args[1:]
	return r.serve(s, q)
}

// ldapd runs a command of ldapd. The text below the command in the page is either its
// standard input or the output that it must have.
func (r *taskRunner) ldapd(command string, args []string, text string) {
	r.t.Helper()
	var out bytes.Buffer
	file := filepath.Join(r.folder, "in.ldif")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	w := &cli.Work{Partition: r.p, Around: cli.Around{Stdin: strings.NewReader(text), Stdout: &out, Stderr: &out,
		Open: func(string) (*os.File, error) { return os.Open(file) }}, Signer: taskAdmin}
	job, plain := taskJob(args)
	err := job(w)
	if err != nil {
		out.WriteString("ldapd: " + err.Error() + "\n")
	}
	if name, ok := strings.CutPrefix(args[len(args)-1], ">"); ok || len(args) > 2 && args[len(args)-2] == ">" {
		if err := os.WriteFile(filepath.Join(r.folder, filepath.Base(args[len(args)-1])), out.Bytes(), 0o600); err != nil {
			r.t.Fatal(name, err)
		}
	}
	got := anyTime.ReplaceAllString(anyMoment.ReplaceAllString(out.String(), "r..."), "since ...")
	switch want := strings.ReplaceAll(text, "ADMIN", taskAdmin); {
	case plain && err != nil:
		r.t.Errorf("%s: %v", command, err)
	case !plain && strings.TrimSpace(got) != strings.TrimSpace(want):
		r.t.Errorf("%s\n%s\nwant\n%s", command, got, want)
	}
}

var (
	anyMoment = regexp.MustCompile(`\br[0-9a-f]{10}-[0-9a-f]+-[0-9a-f]+\b`)
	anyTime   = regexp.MustCompile(`since 20[-0-9T:]+Z`)
)

// taskJob returns the job of a command. The result plain is set if the text below the command
// in the page is the input of the command and not the output.
func taskJob(args []string) (do func(w *cli.Work) error, plain bool) {
	flags := map[string]string{}
	var rest []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--theirs" || args[i] == "--ours":
			flags[args[i]] = "true"
		case strings.HasPrefix(args[i], "--"):
			flags[args[i]] = args[i+1]
			i++
		default:
			rest = append(rest, args[i])
		}
	}
	ctx := context.Background()
	switch rest[0] {
	case "branch":
		a := branchArgs{Do: rest[1], Description: flags["--description"]}
		if len(rest) > 2 {
			a.Name = rest[2]
		}
		if flags["--theirs"] != "" {
			a.Keep = history.Theirs
		}
		return func(w *cli.Work) error { return doBranch(ctx, w, a) }, false
	case "import":
		a := importArgs{Files: []string{rest[1]}, Branch: flags["--branch"]}
		return func(w *cli.Work) error { return importFiles(ctx, w, a) }, true
	case "checkpoint":
		return func(w *cli.Work) error { return checkpoint(ctx, w, checkpointArgs{Name: rest[1]}) }, true
	case "diff":
		return func(w *cli.Work) error { return diff(ctx, w, diffArgs{From: flags["--from"], To: flags["--to"]}) }, false
	}
	return nil, false
}

// taskAnswers collects the answers of an operation.
type taskAnswers struct {
	entries []string
	done    op.Response
}

func (a *taskAnswers) Entry(e *op.SearchEntry) error {
	text := "dn: " + e.Name + "\n"
	for _, x := range e.Attributes {
		text += attributeText(&x)
	}
	a.entries = append(a.entries, text)
	return nil
}

func attributeText(a *entry.Attribute) (text string) {
	for _, v := range a.Values {
		text += a.Description() + ": " + string(v) + "\n"
	}
	return text
}

func (a *taskAnswers) Reference([]string, []op.Control) error { return nil }

func (a *taskAnswers) Intermediate(string, []byte, []op.Control) error { return nil }

func (a *taskAnswers) Done(r *op.Response) error {
	a.done = *r
	return nil
}

// tidy sorts entries, and the attributes of each, so that they can be compared.
func tidy(text string) string {
	var all []string
	for e := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(strings.TrimSpace(e), "\n")
		slices.Sort(lines[1:])
		all = append(all, strings.Join(lines, "\n"))
	}
	slices.Sort(all)
	return strings.Join(all, "\n\n")
}
