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
)

func main() { os.Exit(run()) }

// run is the main function. Tests call it to run the program in the test binary.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal makes the program end in an orderly way; the second ends it at
	// once.
	context.AfterFunc(ctx, stop)
	m := &Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ()}
	return m.Run(ctx, os.Args[1:])
}
