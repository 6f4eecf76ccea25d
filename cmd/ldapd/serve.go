package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/serving"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/tools/schemafile"
)

func serveCommand(m *cli.Main) *cobra.Command {
	use, create, folder := cli.Serve, false, ""
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "serve --store STORE [--create] [--seed FOLDER] [--access PROFILE] [--password-policy POLICY] [--accept-clock] [--listen URL]... [--suffix DN]...",
		Short: "Serve the directory in a store",
		Long: `Serve the directory in a store until the process is told to stop. With --create, a
missing store is created as an empty directory: --suffix names its naming contexts,
--access decides who may see what, and --password-policy what passwords must be like.
When clients can connect, a line "ready URL..." is printed.`,
		Example: `  ldapd serve --store ./data --create --suffix dc=example,dc=com --admin-password-file ./admin.pw`,
		Args:    cobra.NoArgs,
	}, cli.AllKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		if folder != "" {
			if err := seed(ctx, m, c, folder); err != nil {
				return err
			}
		}
		if create {
			use = cli.Init
		}
		return serving.Serve(ctx, m, c, use, jobs)
	}))
	c.Flags().BoolVar(&create, "create", false, "make the store if there is none")
	c.Flags().StringVar(&folder, "seed", "", "if there is no store, make it from the *.schema and *.ldif files in `FOLDER`, or not at all")
	return c
}

// seed makes the store from the files in a folder, in the order of their names, schema files first, unless
// the store exists. The store appears when all files are loaded.
func seed(ctx context.Context, m *cli.Main, c *config.Config, folder string) error {
	if hbase.IsURL(c.Store) {
		return &config.Error{Where: "--seed", Text: "several servers may start on a store in HBase: load the files by 'ldapd import'"}
	}
	if there, err := cli.StoreThere(c, cli.Init); there || err != nil {
		return err
	}
	if _, err := os.Stat(folder); err != nil {
		return &config.Error{Where: "--seed", Text: err.Error()}
	}
	var schemas, entries []string
	for suffix, to := range map[string]*[]string{"schema": &schemas, "ldif": &entries, "ldif.gz": &entries, "ldif.zst": &entries} {
		names, err := filepath.Glob(filepath.Join(folder, "*."+suffix))
		if err != nil {
			return &config.Error{Where: "--seed", Text: err.Error()}
		}
		*to = append(*to, names...)
	}
	if len(schemas)+len(entries) == 0 {
		return nil
	}
	slices.Sort(schemas)
	slices.Sort(entries)
	aside := *c
	aside.Store = strings.TrimRight(c.Store, "/") + ".new" // on the same file system, so that it can be renamed
	if err := os.RemoveAll(aside.Store); err != nil {
		return err
	}
	err := loadSeed(ctx, m, &aside, schemas, entries)
	if err == nil {
		os.Remove(c.Store) // an empty folder
		err = os.Rename(aside.Store, c.Store)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("--seed %s: nothing was loaded: %w", folder, err), os.RemoveAll(aside.Store))
	}
	return nil
}

func loadSeed(ctx context.Context, m *cli.Main, c *config.Config, schemas, entries []string) error {
	if len(schemas) > 0 {
		files := &schemafile.Files{}
		if err := (schemaCommands{m}).readSchemaFiles(files, schemas); err != nil {
			return err
		}
		if err := schemaAddJob.Run(ctx, m, c, cli.Load, m.Around(), schemaAddArgs{Definitions: files.Definitions}); err != nil {
			return err
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return importCommandLine(ctx, m, c, importArgs{Files: entries}, importRemote{})
}

func devCommand(m *cli.Main) *cobra.Command {
	var files []string
	var url, console string
	c := &cobra.Command{
		Use:   "dev [--ldif FILE]... [--listen URL]",
		Short: "Serve a directory that ends with the command, to try things on",
		Long: `Serve a directory in a temporary folder, for tries and for the tests of programs. Everybody
may read it, the administrator may write, and passwords may be anything. It begins with the
entries of the files, or with dc=example,dc=com. When the command ends, everything is removed.`,
		Example: `  ldapd dev --ldif people.ldif`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m.Working = true
			return dev(c.Context(), m, files, url, console)
		},
	}
	c.Flags().StringArrayVar(&files, "ldif", nil, "`FILE` with entries; may be given several times")
	c.Flags().StringVar(&url, "listen", "ldap://127.0.0.1:3890", "`URL` to serve; with the port 0, a free port")
	c.Flags().StringVar(&console, "console-listen", "", "`URL`, such as http://127.0.0.1:3891, of pages for a browser")
	return c
}

// dev imports files into a temporary store and serves it.
func dev(ctx context.Context, m *cli.Main, files []string, url, console string) error {
	dir, err := os.MkdirTemp("", "ldapd-dev")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	const admin, password = "cn=admin", "secret"
	store, secret := filepath.Join(dir, "store"), filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	if len(files) == 0 {
		files = []string{filepath.Join(dir, "first.ldif")}
		if err := os.WriteFile(files[0], []byte("dn: dc=example,dc=com\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n"), 0o600); err != nil {
			return err
		}
	}
	m.Env = append(m.Env, config.FileEnv+"=") // not what the machine has
	run := func(args ...string) error {
		r := root(m)
		r.SetArgs(args)
		return r.ExecuteContext(ctx)
	}
	if err := run(slices.Concat([]string{"import", "--store", store, "--access", "open", "--password-policy", "none", "--log-level", "warn"}, files)...); err != nil {
		return err
	}
	fmt.Fprintf(m.Stdout, "bind as %q with the password %q; Ctrl-C ends and removes the directory\n", admin, password)
	serve := []string{"serve", "--store", store, "--listen", url}
	if console != "" {
		serve = append(serve, "--console-listen", console)
	}
	return run(append(serve, "--admin-dn", admin, "--admin-password-file", secret, "--log-level", "warn")...)
}
