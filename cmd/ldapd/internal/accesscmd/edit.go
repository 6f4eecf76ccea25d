package accesscmd

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
)

func (m commands) edit() *cobra.Command {
	return cli.Accepts(m.Command(&cobra.Command{
		Use:   "edit --store STORE",
		Short: "Edit the rules in force",
		Long: `Edit the rules in force with $VISUAL or $EDITOR, in the form in which access list prints
them. The command then says what is wrong with the edited rules, or who gains and loses
which rights, and asks whether to apply them. Rules that somebody else changed meanwhile
are not overwritten.`,
		Args: cobra.NoArgs,
	}, cli.StoreKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		e := &edit{Main: m.Main, config: c, in: bufio.NewReader(m.Stdin)}
		return e.run(ctx)
	}))
}

// edit is one run of the command that edits the rules interactively.
type edit struct {
	*cli.Main
	config *config.Config
	in     *bufio.Reader // the user's answers
	file   string
	was    string // the printed rules before the editing
}

func (e *edit) run(ctx context.Context) error {
	var listed strings.Builder
	a := e.Around()
	a.Stdout = &listed
	if err := listJob.Run(ctx, e.Main, e.config, cli.ReadOnly, a, formatted{}); err != nil {
		return err
	}
	e.was = strings.TrimSuffix(listed.String(), "\n")
	dir, err := os.MkdirTemp("", "ldapd-access-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	e.file = filepath.Join(dir, "rules")
	if err := os.WriteFile(e.file, []byte(listed.String()), 0o600); err != nil {
		return err
	}
	for {
		again, err := e.once(ctx)
		if err != nil || !again {
			return err
		}
	}
}

// The method "once" lets the user edit the rules a single time. If the edited rules are valid
// and the user agrees, it applies them. The first result reports whether the user wants to edit
// the rules again.
func (e *edit) once(ctx context.Context) (again bool, err error) {
	if err := e.open(ctx); err != nil {
		return false, err
	}
	raw, err := os.ReadFile(e.file)
	if err != nil {
		return false, err
	}
	text := string(raw)
	rules, err := acl.ReadFile(strings.NewReader(text))
	if err == nil && strings.Join(ruleTexts(rules), "\n") == e.was {
		_, err := fmt.Fprintln(e.Stdout, "nothing is changed")
		return false, err
	}
	if err == nil {
		err = diffJob.Run(ctx, e.Main, e.config, cli.ReadOnly, e.Around(), diffArgs{Rules: [2]ruleSource{{Text: &e.was}, {Text: &text}}})
	}
	if err != nil {
		fmt.Fprintln(e.Stderr, err)
		answer, err := e.ask("Edit again? [Y/n] ", "y")
		return answer == "y", err
	}
	switch answer, err := e.ask("Apply? [y/N/e: edit again] ", "n"); answer {
	case "y":
		return false, applyJob.Run(ctx, e.Main, e.config, cli.ReadWrite, e.Around(), applyArgs{Text: text, Was: &e.was})
	case "e":
		return true, err
	default:
		return false, err
	}
}

// open runs the user's editor on the file.
func (e *edit) open(ctx context.Context) error {
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	c := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, "sh", e.file)
	c.Stdin, c.Stdout, c.Stderr = e.Stdin, e.Stdout, e.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", editor, err)
	}
	return nil
}

// ask asks a question and returns the answer in lower case. It returns byDefault if the
// answer is empty, and "n" at the end of the input.
func (e *edit) ask(question, byDefault string) (string, error) {
	if _, err := fmt.Fprint(e.Stderr, question); err != nil {
		return "", err
	}
	line, err := e.in.ReadString('\n')
	if err != nil && line == "" {
		return "n", nil
	}
	return strings.ToLower(cmp.Or(strings.TrimSpace(line), byDefault)), nil
}
