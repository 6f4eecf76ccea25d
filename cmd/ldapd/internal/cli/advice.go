package cli

import (
	"errors"
	"syscall"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// advised are errors of libraries, which know no commands, and the option or command that helps.
var advised = []struct {
	err  error
	with string
}{
	{archive.ErrNotOwner, "'ldapd backup --take-over' takes it over"},
	{archive.ErrNoIdentity, "the option is --identity"},
	{lsm.ErrFollows, "'ldapd promote' opens it for writing"},
	{bulk.ErrOrder, "the option is --suffix"},
	{bulk.ErrStopped, "--continue imports the others, and passes over records that exist already"},
	{bulk.ErrTogether, "--continue applies them one by one"},
	{txn.ErrIncomplete, "that was 'ldapd backup clone', 'ldapd backup cut' or 'ldapd upgrade --to'"},
	{partition.ErrMoved, "set the option store to that one; 'ldapd upgrade --back' lets this one take updates again"},
	{syscall.EADDRINUSE, "the option is --listen"},
}

// advice returns what follows an error in a message: the option or command that helps, or "".
func advice(err error) string {
	for _, a := range advised {
		if errors.Is(err, a.err) {
			return " (" + a.with + ")"
		}
	}
	return ""
}
