package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// An offer is a job that the administrator can start over LDAP, with arguments as on the command
// line. The job uses no files of a user.
type offer struct {
	usage string
	// parse returns the function that does the job, or an error for wrong arguments.
	parse func(c *config.Config, arguments []string) (func(context.Context, *Work) error, error)
}

// Offered returns the job as one that can be started over LDAP. The usage is its arguments for
// people. The function flags adds its flags, and is nil if it has none. The function complete sets
// what else the arguments need, from the server's configuration and the words that are no
// flags.
func (j Job[A]) Offered(usage string, flags func(*pflag.FlagSet, *A), complete func(c *config.Config, a *A, words []string) error) Job[A] {
	j.offer = &offer{strings.TrimSpace(j.name + " " + usage), func(c *config.Config, arguments []string) (func(context.Context, *Work) error, error) {
		var a A
		f := pflag.NewFlagSet(j.name, pflag.ContinueOnError)
		f.Usage = func() {}
		if flags != nil {
			flags(f, &a)
		}
		err := f.Parse(arguments)
		if err == nil {
			err = complete(c, &a, f.Args())
		}
		if err != nil {
			return nil, fmt.Errorf("%v: its arguments are %s", err, j.offer.usage)
		}
		return func(ctx context.Context, w *Work) error { return j.do(ctx, w, a) }, nil
	}}
	return j
}

func (j Job[A]) offered() *offer { return j.offer }

// NoWords is for jobs whose arguments are flags.
func NoWords[A any](_ *config.Config, _ *A, words []string) error {
	if len(words) > 0 {
		return fmt.Errorf("%q is no argument", words[0])
	}
	return nil
}

// Offers returns the jobs that can be started over LDAP, with their arguments.
func (l Jobs) Offers() (all []string) {
	for _, j := range l {
		if o := j.offered(); o != nil {
			all = append(all, o.usage)
		}
	}
	slices.Sort(all)
	return all
}

// Prepare returns a function that does an offered job, or an error that says what is wrong with the
// request.
func (l Jobs) Prepare(c *config.Config, name string, arguments []string) (func(context.Context, *partition.Partition, Archives, string, *monitor.Job) error, error) {
	i := slices.IndexFunc(l, func(j anyJob) bool { return j.called() == name && j.offered() != nil })
	if i < 0 {
		return nil, fmt.Errorf("%.100q is no job that can be started here: there are %s", name, strings.Join(l.Offers(), ", "))
	}
	do, err := l[i].offered().parse(c, arguments)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, p *partition.Partition, archives Archives, signer string, running *monitor.Job) error {
		return do(ctx, &Work{p, Around{
			Stdin: strings.NewReader(""), Stdout: running, Stderr: running, Elsewhere: true, running: running, Open: noFile, Create: noFile,
		}, signer, archives, nil})
	}, nil
}

var errNoFile = errors.New("a job that is started over LDAP uses no files: use the command ldapd on the server")

func noFile(string) (*os.File, error) { return nil, errNoFile }
