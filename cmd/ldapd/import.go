package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/seed-4dac0d86/ldapd/bulk"
	"github.com/seed-4dac0d86/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/ldif"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// importFlags are what the command has besides the configuration.
type importFlags struct {
	url, bind, passwordFile string
	startTLS                bool
	proceed, allowFiles     bool
	rejects                 string
}

func (m *Main) importCommand() *cobra.Command {
	var f importFlags
	keys := append([]string{"suffix", "admin.dn"}, storeKeys...)
	c := m.command(&cobra.Command{
		Use:   "import (--store STORE | --url URL) [--suffix DN]... FILE...",
		Short: "Take LDIF files into a directory",
		Long: `Take LDIF files, plain or compressed by gzip or zstd, into a directory; "-" is
standard input. Files of entries are loaded in one step: all of them are to be
seen, or, if one is bad, none. Files of changes are applied in their order, in one
transaction. Exports of slapd (slapcat), 389 Directory Server (db2ldif) and
ApacheDS load as they are: ids, timestamps and names are kept.

With --continue, bad records are written to a file and everything else is
imported. With --url, the records are sent to a running server, one by one.

No server may be running on an embedded store; use --url then.`,
		Example: `  ldapd import --store ./data --suffix dc=example,dc=com people.ldif.gz
  slapcat | ldapd import --store ./data -
  ldapd import --url ldap://127.0.0.1:3890 --bind cn=admin --password-file pw changes.ldif`,
		Args: cobra.MinimumNArgs(1),
	}, keys, func(ctx context.Context, c *config.Config, args []string) error {
		return m.importFiles(ctx, c, f, args)
	})
	c.Flags().StringVar(&f.url, "url", "", "`URL` of a running server to send the records to: ldap://, ldaps:// or ldapi://")
	c.Flags().StringVar(&f.bind, "bind", "", "`DN` to bind as at that server")
	c.Flags().StringVar(&f.passwordFile, "password-file", "", "`FILE` whose first line is the password for it")
	c.Flags().BoolVar(&f.startTLS, "starttls", false, "use StartTLS before binding")
	c.Flags().BoolVar(&f.proceed, "continue", false, "go on behind bad records")
	c.Flags().StringVar(&f.rejects, "rejects", "", "`FILE` for bad records with --continue (default the first file's name and .rejects)")
	c.Flags().BoolVar(&f.allowFiles, "allow-file-urls", false, `let values be read from files ("jpegPhoto:< file:///...")`)
	return c
}

func (m *Main) importFiles(ctx context.Context, c *config.Config, f importFlags, files []string) error {
	progress := m.progress("import")
	o := bulk.Options{
		Files: files, Stdin: m.Stdin, Suffixes: c.Suffix,
		By:       partition.By{Name: c.Admin.DN},
		Continue: f.proceed, Rejects: f.rejects, AllowFiles: f.allowFiles,
		Report:   m.reportBad(),
		Note:     func(s string) { fmt.Fprintln(m.Stderr, "note:", s) },
		Progress: progress,
	}
	switch {
	case f.url != "" && c.Store != "" && c.Origin("store") == "--store":
		return &config.Error{Where: "--url", Text: "give either --store or --url"}
	case f.url != "":
		return m.send(ctx, f, o)
	}
	done := lowMemory(c)
	defer done()
	p, err := openPartition(ctx, c, m.logger(c), writing)
	if err != nil {
		return err
	}
	progress.Begin()
	res, err := bulk.Import(ctx, p.Partition, o)
	progress.End()
	if res.Done > 0 {
		fmt.Fprintln(m.Stdout, "imported", progress.Rate(res.Done))
	}
	return errors.Join(err, p.Close(context.WithoutCancel(ctx)))
}

func (m *Main) send(ctx context.Context, f importFlags, o bulk.Options) error {
	r := bulk.Remote{URL: f.url, BindDN: f.bind, StartTLS: f.startTLS}
	if f.passwordFile != "" {
		b, err := os.ReadFile(f.passwordFile)
		if err != nil {
			return &config.Error{Where: "--password-file", Text: err.Error()}
		}
		line, _, _ := strings.Cut(string(b), "\n")
		r.Password = strings.TrimRight(line, "\r")
	}
	o.Progress.Begin()
	res, err := bulk.Send(ctx, r, o)
	o.Progress.End()
	if res.Done > 0 {
		fmt.Fprintln(m.Stdout, "sent", o.Progress.Rate(res.Done))
	}
	return err
}

// maxReports bounds the bad records that are told of one by one.
const maxReports = 100

func (m *Main) reportBad() func(*ldif.Error) {
	n := 0
	return func(e *ldif.Error) {
		switch n++; {
		case n <= maxReports:
			fmt.Fprintln(m.Stderr, e)
		case n == maxReports+1:
			fmt.Fprintln(m.Stderr, "... and more, which are counted only")
		}
	}
}

// progress shows what a long command does on standard error.
func (m *Main) progress(verb string) *bulk.Progress {
	return bulk.NewProgress(m.Stderr, isTerminal(m.Stderr), verb)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// bulkMemory is what a command that goes through a whole store may take beside
// what the store does.
const bulkMemory = 640 << 20

// lowMemory makes the process live in bounded memory: entries are read once, so
// keeping them is no use. The function it gives ends that.
func lowMemory(c *config.Config) func() {
	if c.Cache == 0 {
		c.Cache = 32 << 20
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetMemoryLimit(bulkMemory)
	return func() { debug.SetMemoryLimit(before) }
}
