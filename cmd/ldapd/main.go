// Command ldapd is an LDAP directory server that stores entries in an embedded store or in
// HBase. Most subcommands have a file of the same name in this folder. README.md shows how to
// use the subcommands.
//
// The exit status is 0 for success, 1 for a finding or a failure, and 2 for wrong usage
// or configuration.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/accesscmd"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/apply"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/glance"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/look"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/notify"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/people"
)

func main() { os.Exit(run()) }

// run is the main function. Tests call it to run the program in the test binary.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal makes the program end in an orderly way; the second ends it at
	// once.
	context.AfterFunc(ctx, stop)
	m := &cli.Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ()}
	return m.Run(ctx, root(m), os.Args[1:])
}

// root returns the command that contains all other commands. A new command needs a
// function in a separate file, and a line in root.
func root(m *cli.Main) *cobra.Command {
	root := &cobra.Command{
		Use:           "ldapd",
		Short:         "LDAP directory server on an embedded store or HBase",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(m.Stdin)
	root.SetOut(m.Stdout)
	root.SetErr(m.Stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().String("config", "", "YAML `FILE` with the configuration; without it and --store, "+config.DefaultFile+" if there is one")
	root.AddCommand(
		serveCommand(m), devCommand(m),
		initCommands{m}.root(),
		importCommand(m),
		exportCommand(m),
		migrateCommands{m}.root(), migrateCommands{m}.compare(),
		checkCommand(m),
		indexCommand(m),
		reindexCommand(m),
		uniqueCommand(m),
		referencesCommand(m),
		viewCommands{m}.root(),
		branchCommands{m}.root(),
		accesscmd.Command(m), accountCommands{m}.root(),
		gcCommand(m),
		eraseCommands{m}.root(),
		schemaCommands{m}.root(),
		explainCommand(m),
		clusterCommand(m),
		logCommand(m),
		diffCommand(m),
		restoreCommand(m),
		checkpointCommand(m),
		passwdCommand(m),
		knownPasswordsCommands{m}.root(),
		hashCommand(m),
		configCommand(m),
		healthCommands{m}.root(),
		upgradeCommand(m), resealCommand(m),
		backupCommands{m}.root(), promoteCommands{m}.root(),
		versionCommand(m),
	)
	root.AddCommand(people.Commands(m)...)
	root.AddCommand(look.Commands(m)...)
	root.AddCommand(apply.Command(m), apply.SuffixCommand(m), notify.Command(m), glance.Command(m))
	return root
}

// jobs are all jobs that a server does for tools.
var jobs = append(cli.Jobs{
	importJob, exportJob, checkJob, indexJob, reindexJob, explainJob, uniqueJob, referencesJob, clusterJob, gcJob,
	viewListJob, viewShowJob, viewRebuildJob, branchJob,
	schemaListJob, schemaShowJob, schemaAddJob, schemaRemoveJob,
	accountJob, logJob, diffJob, restoreJob, checkpointJob, eraseJob, upgradeJob, resealJob, backupJob, drillJob, promoteJob,
	migrateJob, compareJob, people.Job, look.Job, apply.Job, apply.SuffixJob, glance.Job,
}, accesscmd.Jobs...)
