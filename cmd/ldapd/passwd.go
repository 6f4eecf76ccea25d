package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
)

func passwdCommand(m *cli.Main) *cobra.Command {
	var scheme, output string
	var scram bool
	c := &cobra.Command{
		Use:   "passwd [--scheme SCHEME] [--scram] [--output FILE]",
		Short: "Hash a password for the configuration or for userPassword",
		Long: `Hash a password, asked for on the terminal or read from the first line of standard
input. Print the hash, or write it to a file that only you can read. With --scram, the
keys that SCRAM needs are written after the hash, one line for each mechanism, for the
administrator's password file or authPassword.`,
		Example: `  ldapd passwd --scram --output admin.pw
  ldapd serve --store ./data --admin-password-file admin.pw`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m.Working = true
			return writeOutput(m, output, func(w io.Writer) error { return passwd(c.Context(), m, w, scheme, scram) })
		},
	}
	c.Flags().StringVar(&scheme, "scheme", auth.Default, "`SCHEME`: "+strings.Join(auth.NewSchemes(), ", "))
	c.Flags().StringVarP(&output, "output", "o", "", "`FILE` to write, with mode 0600")
	c.Flags().BoolVar(&scram, "scram", false, "print the keys for SCRAM (RFC 5803) too")
	return c
}

func passwd(ctx context.Context, m *cli.Main, out io.Writer, scheme string, scram bool) error {
	password, err := m.NewPassword()
	if err != nil {
		return err
	}
	if password == "" {
		return errors.New("the password is empty: nobody could bind with it")
	}
	passwords := auth.New(1, nil)
	hash, err := passwords.Hash(ctx, auth.NoChannel{}, scheme, []byte(password))
	if err != nil {
		return &config.Error{Where: "--scheme", Text: err.Error()}
	}
	lines := [][]byte{hash}
	if scram {
		keys, err := passwords.ScramKeys(ctx, auth.NoChannel{}, auth.Mechanisms, []byte(password))
		if err != nil {
			return err
		}
		if keys == nil {
			return errors.New("SCRAM cannot have this password: it has characters that RFC 4013 prohibits")
		}
		lines = append(lines, keys...)
	}
	sayReadable(out, m.Stderr)
	_, err = fmt.Fprintf(out, "%s\n", bytes.Join(lines, []byte("\n")))
	return err
}
