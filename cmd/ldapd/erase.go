package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/partition/erase"
	"github.com/seed-4dac0d86/ldapd/store/archive"
)

// eraseCommands is the command "ldapd erase".
type eraseCommands struct{ *cli.Main }

func (m eraseCommands) root() *cobra.Command {
	var a eraseArgs
	var yes bool
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "erase --store STORE [--dry-run] [--yes] [--keep-archive] (DN | --value VALUE [--attribute TYPE])",
		Short: "Remove a deleted entry, or a value, from the past for good",
		Long: `Remove personal data from the past, as the law may require: a deleted entry, by the
name it had, or a value, wherever entries or names had it. It is removed from all
states that can still be read, checkpoints included, from the journal, from the
memory of all servers, and from the files of an embedded store. On HBase it is gone
when HBase's cleaners have removed the old files. It cannot be brought back.

Values that entries still have are not erased: the command refuses, and names the first
of these entries. An entry whose name was erased is shown with its entryUUID instead.
"ldapd log" and cn=changelog show that something of an entry was erased, when and by
whom, but not what. The archive of an embedded store (archive.to) is started again, and
all its previous content is removed, unless --keep-archive is given. Logs and exports
are not touched. If the command is interrupted, run it again: it continues.

With "--value -" the value is read from standard input, so that it does not appear in
the history of a shell.`,
		Example: `  ldapd erase --store ./data --dry-run uid=jdoe,ou=people,dc=example,dc=com
  ldapd erase --store ./data --yes --attribute cn --value 'John Doe'`,
		Args: cobra.MaximumNArgs(1),
	}, append([]string{"admin.dn"}, archiveKeys...), func(ctx context.Context, c *config.Config, args []string) error {
		a.DN = strings.Join(args, "")
		if (a.DN == "") == (a.Value == "") || a.DN != "" && a.Attribute != "" {
			return &config.Error{Text: "say what is to be erased: a name, or --value and perhaps --attribute"}
		}
		if a.Value == "-" {
			var err error
			if a.Value, err = m.readValue(); err != nil {
				return err
			}
		}
		if !a.Dry && !yes {
			if err := m.confirmErasure(ctx, c, a); err != nil {
				return err
			}
		}
		return eraseJob.Run(ctx, m.Main, c, cli.ReadWrite, m.Around(), a)
	}))
	c.Flags().StringVar(&a.Value, "value", "", "erase `VALUE`; - reads it from a line of standard input")
	c.Flags().StringVar(&a.Attribute, "attribute", "", "erase the value only from attributes of `TYPE` and its subtypes, and from names that contain them")
	c.Flags().BoolVar(&a.Dry, "dry-run", false, "say what would be erased, and erase nothing")
	c.Flags().BoolVar(&a.KeepArchive, "keep-archive", false, "do not erase it from the store's archive, and say where the archive is")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return c
}

func (m eraseCommands) readValue() (string, error) {
	line, err := bufio.NewReader(m.Stdin).ReadString('\n')
	if line = strings.TrimRight(line, "\r\n"); line != "" {
		return line, nil
	}
	if err == nil || err == io.EOF {
		err = &config.Error{Where: "--value", Text: "standard input has no value"}
	}
	return "", err
}

// confirmErasure prints what would be erased, and asks the user for confirmation.
func (m eraseCommands) confirmErasure(ctx context.Context, c *config.Config, a eraseArgs) error {
	if !m.Interactive() {
		return &config.Error{Where: "--yes", Text: "there is no terminal to ask on whether to erase it for good: say --yes"}
	}
	a.Dry = true
	if err := eraseJob.Run(ctx, m.Main, c, cli.ReadWrite, m.Around(), a); err != nil {
		return err
	}
	fmt.Fprint(m.Stderr, "Erase it for good? (yes or no) ")
	answer, err := bufio.NewReader(m.Stdin).ReadString('\n')
	if err == nil && strings.TrimSpace(answer) != "yes" {
		err = fmt.Errorf("nothing was erased")
	}
	return err
}

type eraseArgs struct {
	DN, Attribute, Value string
	Dry, KeepArchive     bool
}

var eraseJob = cli.NewJob("erase", eraseData)

func eraseData(ctx context.Context, w *cli.Work, a eraseArgs) error {
	o := erase.Options{
		Attribute: a.Attribute, Value: []byte(a.Value), Dry: a.Dry,
		By: w.By("erase"),
	}
	var err error
	if o.Name, err = w.Name(ctx, "the name", a.DN); err != nil {
		return err
	}
	done, err := erase.Erase(ctx, w.Partition, o)
	if err != nil {
		return err
	}
	if err := tellErased(w.Stdout, done, a.Dry); err != nil || a.Dry {
		return err
	}
	fmt.Fprintln(w.Stdout, "rewriting files that may contain it")
	if err := w.Partition.DB.Purge(ctx); err != nil {
		return fmt.Errorf("it is erased, but may still be in files: %w", err)
	}
	if _, err := fmt.Fprintln(w.Stdout, "done: no file that the store has in use has it any more"); err != nil {
		return err
	}
	return forgetArchived(ctx, w, a.KeepArchive)
}

// forgetArchived makes the archive, if there is one, begin anew without what was erased. If
// keep is set, forgetArchived keeps the older epochs of the archive, and prints their bases.
func forgetArchived(ctx context.Context, w *cli.Work, keep bool) error {
	to, err := w.Archives.Open()
	if errors.Is(err, cli.ErrNoArchive) {
		return nil
	}
	if err != nil {
		return err
	}
	if keep {
		return tellKept(ctx, w.Stdout, to)
	}
	gone, err := to.Forget(ctx)
	if err != nil {
		return fmt.Errorf("it is erased, but the archive %s may still have it, run the command again: %w", to, err)
	}
	_, err = fmt.Fprintf(w.Stdout, "the archive %s was started again: %d bases and %d pieces of the log were removed\n", to, gone.Bases, gone.Pieces)
	return err
}

// tellKept begins a new epoch of the archive, and prints the bases of older epochs, which may
// still contain what was erased.
func tellKept(ctx context.Context, out io.Writer, to *archive.Archiver) error {
	if err := to.Begin(ctx); err != nil {
		return err
	}
	older, err := to.Older(ctx)
	if err != nil {
		return err
	}
	for _, m := range older {
		if _, err := fmt.Fprintf(out, "the archive %s still has it: the base of %s in epoch %d, and what follows it\n", to, m.Taken.Format(time.RFC3339), m.Epoch); err != nil {
			return err
		}
	}
	return nil
}

// tellErased prints what was erased or, if dry is set, what would be erased.
func tellErased(w io.Writer, done *erase.Erased, dry bool) error {
	would := "erased"
	if dry {
		would = "would erase"
	}
	text := fmt.Sprintf("%s %d versions of values of %d entries; %d of these lose their name, and %d all that they were\n"+
		"%s it from what the journal tells of %d changes\n",
		would, done.Values, done.Entries, done.Names, done.Gone, would, done.Commits)
	if done.Revision != 0 {
		text += fmt.Sprintf("%s tells that it was done\n", done.Revision)
	}
	_, err := io.WriteString(w, text)
	return err
}
