package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/passwordlist"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// knownPasswordsCommands is the command "ldapd known-passwords".
type knownPasswordsCommands struct{ *cli.Main }

func (m knownPasswordsCommands) root() *cobra.Command {
	var output string
	var hashes bool
	c := &cobra.Command{
		Use:   "known-passwords --output FILE [--sha1] LIST...",
		Short: "Make the list of known passwords that password policies can forbid",
		Long: `Make the list of passwords that the demand "unlisted" of a password policy forbids, from
lists of passwords that others know. These lists have one password per line, or with
--sha1 one SHA-1 hash per line, in the format of Have I Been Pwned (HASH or HASH:COUNT);
"-" means standard input. The configuration key passwords.known names the file that the
command makes. Servers read this file again when it changes, and ask no other service.

The file takes 19 bits for each password. Every password of the lists is recognized, and
one in 65,536 of other passwords is mistaken for one of them. Lists of more than four
million passwords need space for temporary files in $TMPDIR, 8 octets for each password.`,
		Example: `  ldapd known-passwords --output known.filter rockyou.txt
  zcat pwned-sha1.txt.gz | ldapd known-passwords --sha1 --output known.filter -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if output == "" {
				return &config.Error{Text: "say with --output which file to write"}
			}
			m.Working = true
			return m.run(c.Context(), output, hashes, args)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "`FILE` to write")
	c.Flags().BoolVar(&hashes, "sha1", false, "the lists contain SHA-1 hashes")
	return c
}

func (m knownPasswordsCommands) run(ctx context.Context, output string, hashes bool, lists []string) error {
	w := passwordlist.NewWriter()
	defer w.Close()
	add := w.Add
	if hashes {
		add = w.AddHash
	}
	for _, list := range lists {
		if err := m.addList(ctx, list, add); err != nil {
			return err
		}
	}
	out, finish, err := bulk.CreateFile(output)
	if err != nil {
		return err
	}
	n, err := w.Save(out)
	if err := finish(err); err != nil {
		return err
	}
	_, err = fmt.Fprintf(m.Stdout, "%d passwords in %s\n", n, output)
	return err
}

// longestLine is the maximum size of a line in a list, in bytes.
const longestLine = 1 << 20

// addList adds the lines of a list, except empty ones.
func (m knownPasswordsCommands) addList(ctx context.Context, list string, add func([]byte) error) error {
	in := m.Stdin
	if list != "-" {
		f, err := os.Open(list)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	lines := bufio.NewScanner(bufio.NewReaderSize(in, 1<<20))
	lines.Buffer(nil, longestLine)
	n := 0
	for lines.Scan() {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := add(lines.Bytes()); err != nil {
			return fmt.Errorf("%s:%d: %w", list, n, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("%s:%d: the line is longer than %d octets", list, n+1, longestLine)
	} else if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", list, err)
	}
	return nil
}
