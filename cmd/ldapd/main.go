// Command ldapd is an LDAP directory server whose entries are stored in an embedded store
// or in HBase. Every subcommand has a file with its name here. README.md shows how to use
// them.
//
// Exit status: 0 success, 1 a finding or a failure, 2 wrong usage or configuration.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

// run is main for tests too, which run the program in their own binary.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal ends the work in an orderly way; a second one ends the process.
	context.AfterFunc(ctx, stop)
	m := &Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ()}
	return m.Run(ctx, os.Args[1:])
}
