package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// importArgs are the arguments of the command besides the configuration.
type importArgs struct {
	Files, Suffixes     []string
	Size                int64 // total size of all files
	Continue, FromFiles bool
	DropDuplicates      bool
	Together, Batches   bool
	Rejects             string
	Branch              string // "": none
}

// importRemote is a server to which the records are sent. The import then uses no store.
type importRemote struct {
	url, bind, passwordFile string
	startTLS                bool
}

var importJob = cli.NewJob("import", importFiles, "suffix")

func importCommand(m *cli.Main) *cobra.Command {
	var a importArgs
	var r importRemote
	keys := append([]string{"suffix", "admin.dn", "access", "password-policy"}, cli.StoreKeys...)
	c := cli.Accepts(m.Command(&cobra.Command{
		Use:   "import (--store STORE | --url URL) [--suffix DN]... FILE...",
		Short: "Load LDIF files into a directory",
		Long: `Load LDIF files, plain or compressed by gzip or zstd, into a directory; "-" is standard
input. Entries become visible all at once, or, if one is bad, not at all. Changes are
applied in their order, in one transaction. Exports of slapd (slapcat), 389 Directory
Server (db2ldif) and ApacheDS can be loaded as they are: ids, timestamps and names are
kept.

If there is no store, the command makes one, in a folder that is missing or empty. The
new store has the access rules of the files, or if they have none those of a profile
(--access). It has the password policy of cn=config in the files, or else that of
--password-policy.

An entry that the store has already is skipped and counted if its user attributes are
equal. An entry that 'ldapd init' made, and that nobody has changed or added entries to
since, is replaced by the one in the file. Any other entry whose name exists is bad.

With --continue, bad records are written to a file and everything else is
imported. With --url, the records are sent to a running server, one by one.

If a server has the embedded store open, the server does the import, and if servers
write to a store in HBase, the command imports while they write. All entries are checked
first. Then they are added to a branch, which is merged at the end by one commit, so
that clients see all of the entries or none, and do not wait. If the command is
interrupted, the same command continues in the branch, whose name is import-FILE-... .
If others changed the same things meanwhile, the branch is not merged: see
'ldapd branch'. With --batches, the entries become visible batch by batch instead. With
--at-once, updates wait until all entries are loaded; a store in HBase must then have no
other writers.

With --branch, entries and changes go into a branch (ldapd branch create) and become
visible together when it is merged. Other clients do not wait for the import.`,
		Example: `  ldapd import --store ./data --suffix dc=example,dc=com people.ldif.gz
  slapcat | ldapd import --store ./data -
  ldapd import --url ldap://127.0.0.1:3890 --bind cn=admin --password-file pw changes.ldif`,
		Args: cobra.MinimumNArgs(1),
	}, keys, func(ctx context.Context, c *config.Config, args []string) error {
		a.Files = args
		return importCommandLine(ctx, m, c, a, r)
	}))
	c.Flags().StringVar(&a.Branch, "branch", "", "import into the branch `NAME`")
	c.Flags().StringVar(&r.url, "url", "", "`URL` of a running server to send the records to: ldap://, ldaps:// or ldapi://")
	c.Flags().StringVar(&r.bind, "bind", "", "`DN` to bind as at the server of --url")
	c.Flags().StringVar(&r.passwordFile, "password-file", "", "`FILE` whose first line is the password for --bind")
	c.Flags().BoolVar(&r.startTLS, "starttls", false, "use StartTLS before binding")
	c.Flags().BoolVar(&a.Continue, "continue", false, "skip bad records")
	c.Flags().StringVar(&a.Rejects, "rejects", "", "`FILE` for bad records with --continue (default the first file's name followed by .rejects)")
	c.Flags().BoolVar(&a.DropDuplicates, "drop-duplicates", false, "if an entry has the same value several times, keep one of them and count the others, instead of refusing the entry")
	c.Flags().BoolVar(&a.Together, "at-once", false, "make entries visible together by one load instead of a branch, while updates wait")
	c.Flags().BoolVar(&a.Batches, "batches", false, "while servers write to the store, make entries visible batch by batch instead of by the merge of a branch")
	c.Flags().BoolVar(&a.FromFiles, "allow-file-urls", false, `allow values that are read from files ("jpegPhoto:< file:///...")`)
	return c
}

func importCommandLine(ctx context.Context, m *cli.Main, c *config.Config, a importArgs, r importRemote) error {
	if a.Rejects == "" {
		a.Rejects = bulk.RejectsOf(a.Files)
	}
	a.Suffixes, a.Size = c.Suffix, bulk.SizeOf(a.Files)
	around := m.Around()
	around.Open = cli.OneOf(a.Files, os.Open)
	around.Create = cli.OneOf([]string{a.Rejects}, func(name string) (*os.File, error) { return bulk.CreateRejects(name, a.Files) })
	switch {
	case r.url != "" && c.Store != "" && c.Origin("store") == "--store":
		return &config.Error{Where: "--url", Text: "give either --store or --url"}
	case a.Batches && (r.url != "" || a.Branch != "" || a.Together):
		return &config.Error{Where: "--batches", Text: "it goes with --store, and not with --branch or --at-once"}
	case a.Branch != "" && (r.url != "" || len(a.Suffixes) > 0 && c.Origin("suffix") == "--suffix" || a.Together):
		return &config.Error{Where: "--branch", Text: "it goes with --store, and not with --suffix or --at-once"}
	case a.Branch != "":
		a.Suffixes = nil
		return importJob.Run(ctx, m, c, cli.ReadWrite, around, a)
	case r.url != "":
		return sendFiles(ctx, &around, r, a)
	}
	return importJob.Run(ctx, m, c, cli.Load, around, a)
}

func (a *importArgs) options(w *cli.Around) bulk.Options {
	return bulk.Options{
		Files: a.Files, Stdin: w.Stdin, Open: w.Open, Size: a.Size, Suffixes: a.Suffixes,
		Continue: a.Continue, Rejects: a.Rejects, Create: w.Create, AllowFiles: a.FromFiles,
		DropDuplicates: a.DropDuplicates, Together: a.Together, Batches: a.Batches,
		Report:   reportBad(w),
		Summary:  func(s *bulk.Summary) { summarize(w, s) },
		Note:     func(s string) { fmt.Fprintln(w.Stderr, "note:", s) },
		Progress: w.Progress("import"),
	}
}

func importFiles(ctx context.Context, w *cli.Work, a importArgs) error {
	if a.FromFiles && w.Elsewhere {
		return &config.Error{Where: "--allow-file-urls", Text: "the server that has the store would read the files, by its own rights: import with --url, or while no server runs"}
	}
	o := a.options(&w.Around)
	o.By, o.Concurrent = w.By(""), w.Elsewhere && !a.Together
	if a.Branch != "" {
		var err error
		if o.Branch, err = branch.Find(w.Partition, a.Branch); err != nil {
			return err
		}
	}
	o.Progress.Begin()
	res, err := bulk.Import(ctx, w.Partition, o)
	o.Progress.End()
	if res.Done > 0 {
		fmt.Fprintln(w.Stdout, "imported", o.Progress.Rate(res.Done))
	}
	if res.There > 0 {
		fmt.Fprintln(w.Stdout, res.There, "entries were there already")
	}
	return err
}

func sendFiles(ctx context.Context, w *cli.Around, f importRemote, a importArgs) error {
	r, o := bulk.Remote{URL: f.url, BindDN: f.bind, StartTLS: f.startTLS}, a.options(w)
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
		fmt.Fprintln(w.Stdout, "sent", o.Progress.Rate(res.Done))
	}
	return err
}

// maxReports is the largest number of bad records that are reported one by one.
const maxReports = 100

// maxReport is the largest length of a report about a bad record, in bytes. The file of bad
// records has whole reports.
const maxReport = 500

func shortened(text string) string {
	if len(text) <= maxReport {
		return text
	}
	return strings.ToValidUTF8(text[:maxReport], "") + "... and more"
}

func reportBad(a *cli.Around) func(*ldif.Error) {
	n := 0
	return func(e *ldif.Error) {
		switch n++; {
		case n <= maxReports:
			fmt.Fprintln(a.Stderr, shortened(e.Error()))
		case n == maxReports+1:
			fmt.Fprintln(a.Stderr, "... and more, which are counted only")
		}
	}
}

// remedies say for the causes of bad records what can be done.
var remedies = map[bulk.Cause]string{
	bulk.Undefined:  "add them by 'ldapd schema add' with the schema files of the old server, or strip them from the file",
	bulk.Schema:     "add them by 'ldapd schema add', which takes this file, before the entries",
	bulk.NoOption:   "add them to the key attribute-options of the configuration, or strip them from the file",
	bulk.TwoClasses: "make one of the two AUXILIARY in the file with its definition before 'ldapd schema add', or remove it from the entries",
	bulk.Forbidden:  "correct the entries, or let a class allow the attribute by 'ldapd schema add'",
	bulk.BadValues:  "correct the values; with --drop-duplicates, values that are there twice are no mistake",
	bulk.NoParent:   "import the entries above them first; those may be among the bad records. --suffix makes the name of an entry a naming context",
	bulk.Outside:    "name the first entry of each tree by --suffix",
	bulk.Present:    "leave these records out, or import changes (changetype: modify) that make the entries equal",
	bulk.Misfit:     "import changes in their order, each once, into the state that they were made for",
	bulk.Cut:        "name it rightly or copy it again, and import the whole file; entries that are there already are skipped",
	bulk.Unreadable: "correct the lines; --allow-file-urls reads values from files, as those of ldapsearch -t",
}

// summarize prints why records were bad, and what mends each cause.
func summarize(a *cli.Around, s *bulk.Summary) {
	fmt.Fprintln(a.Stderr, "why records are bad:")
	causes := slices.SortedFunc(maps.Keys(s.Records), func(x, y bulk.Cause) int {
		return cmp.Or(s.Records[y]-s.Records[x], strings.Compare(string(x), string(y)))
	})
	for _, c := range causes {
		fmt.Fprintf(a.Stderr, "%7d  %s", s.Records[c], c)
		if remedies[c] != "" {
			fmt.Fprintf(a.Stderr, ": %s", remedies[c])
		}
		fmt.Fprintln(a.Stderr)
		switch c {
		case bulk.Undefined:
			listed(a, "types", slices.Sorted(maps.Keys(s.Types)))
			listed(a, "classes", slices.Sorted(maps.Keys(s.Classes)))
		case bulk.NoOption:
			listed(a, "descriptions", slices.Sorted(maps.Keys(s.Options)))
		case bulk.TwoClasses:
			var pairs []string
			for _, pair := range slices.Sorted(maps.Keys(s.Pairs)) {
				pairs = append(pairs, fmt.Sprintf("%s (%d)", pair, s.Pairs[pair]))
			}
			listed(a, "pairs", pairs)
		}
	}
}

// listed prints how many names there are, and the names.
func listed(a *cli.Around, what string, names []string) {
	if len(names) > 0 {
		fmt.Fprintf(a.Stderr, "         %d %s: %s\n", len(names), what, strings.Join(names, ", "))
	}
}
