// Command ldapd is an LDAP directory server whose entries live in an embedded
// store or in HBase. Every subcommand has a file of its name here; README.md shows
// them at work.
//
// Exit status: 0 done, 1 a finding or a failure, 2 wrong usage or configuration.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

// run is main for tests too, which run this program's code in their own binary.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal ends the work in order; a second one ends the process.
	context.AfterFunc(ctx, stop)
	m := &Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ()}
	return m.Run(ctx, os.Args[1:])
}
