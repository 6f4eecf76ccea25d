package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/term"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/handoff"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// A Job is the work of a command on an open directory. It runs in the command's process
// or, while a server holds the store's folder, in the server's process (package
// handoff). Therefore a job uses nothing except its parameters: args is data, and Work
// contains everything that belongs to the process.
type Job[A any] struct {
	name    string
	do      func(ctx context.Context, w *Work, args A) error
	carries []string
	offer   *offer
}

// NewJob returns a job with a name. The strings in carries are the names of the configuration
// keys whose values args contains, or which are the same for every process. A server does the
// job by its own configuration, so it does not see the other keys.
func NewJob[A any](name string, do func(ctx context.Context, w *Work, args A) error, carries ...string) Job[A] {
	return Job[A]{name: name, do: do, carries: carries}
}

// Work is the environment in which a job runs.
type Work struct {
	*partition.Partition
	Around
	Signer   string // DN of the administrator of the process that runs the job
	Archives Archives
	Metrics  *monitor.Metrics // of the server that does the job; nil: no server does it
}

// By returns the author of a change, for the journal and modifiersName.
func (w *Work) By(request string) partition.By {
	return partition.By{Name: w.Signer, Request: request}
}

// Around is the environment of a command. Open and Create open the user's files, even
// if the job runs in another process.
type Around struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	terminal       bool // Stderr is a terminal
	Elsewhere      bool // the job runs in a server's process
	Open, Create   func(name string) (*os.File, error)
	running        *monitor.Job // nil: the job runs in the tool's process
}

// Jobs are the jobs that a server does for tools.
type Jobs []anyJob

// anyJob is a job with any type of arguments.
type anyJob interface {
	called() string
	offered() *offer
	decode(ctx context.Context, w *Work, args json.RawMessage) error
}

func (j Job[A]) called() string { return j.name }

func (j Job[A]) decode(ctx context.Context, w *Work, text json.RawMessage) error {
	var args A
	if err := json.Unmarshal(text, &args); err != nil {
		return fmt.Errorf("the arguments were not understood: the tool and the server are of different versions: %w", err)
	}
	return j.do(ctx, w, args)
}

// Around returns the environment of a command in this process.
func (m *Main) Around() Around {
	return Around{Stdin: m.Stdin, Stdout: m.Stdout, Stderr: m.Stderr, terminal: isTerminal(m.Stderr)}
}

// Run does the job on the store's directory. The job runs in this process or, if a
// server holds the store's folder, in the server's process.
func (j Job[A]) Run(ctx context.Context, m *Main, c *config.Config, use Mode, a Around, args A) error {
	there, err := StoreThere(c, use)
	if err != nil {
		return err
	}
	if there && !hbase.IsURL(c.Store) {
		noteNewStores(c, a)
	}
	defer LowMemory(c)()
	for end := time.Now().Add(patience); ; {
		p, err := Open(ctx, c, m.Logger(c), use)
		if err == nil {
			err = j.do(ctx, &Work{p.Partition, a, c.Admin.DN, m.ArchivesOf(c, p), nil}, args)
			return errors.Join(err, p.Close(context.WithoutCancel(ctx)))
		}
		if errors.Is(err, table.ErrLocked) {
			err = j.Ask(ctx, c, a, args, err)
		}
		if !errors.Is(err, handoff.ErrNobody) || time.Now().After(end) || pause.For(ctx, 50*time.Millisecond) != nil {
			return err
		}
	}
}

// patience is how long Job.Run waits for a store that another process has locked, if that
// process does not answer requests. Such a process is a server that is starting, or another
// tool.
const patience = 5 * time.Second

// Ask requests the job from the server that holds the store's folder.
func (j Job[A]) Ask(ctx context.Context, c *config.Config, a Around, args A, locked error) error {
	if err := j.refuseOptions(c, a); err != nil {
		return err
	}
	err := handoff.Ask(ctx, c.Store, handoff.Request{
		Work: j.name, Args: args, Terminal: a.terminal,
		Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr,
		Open: a.Open, Create: a.Create,
	})
	var failed *handoff.Failure
	switch {
	case errors.Is(err, handoff.ErrNobody):
		return fmt.Errorf("%w; %w", locked, err)
	case errors.As(err, &failed) && failed.Usage:
		return &config.Error{Text: failed.Text}
	}
	return err
}

// ofProcess are the keys that concern only the process that does a job, and ofNewStores those that
// concern only stores that are made.
var (
	ofProcess   = []string{"cache", "log.level", "log.format", "lease", "admin.dn"}
	ofNewStores = []string{"access", "password-policy"}
)

// noteNewStores says that options for new stores have no effect, because there is a store.
func noteNewStores(c *config.Config, a Around) {
	for _, k := range config.Keys {
		if given := c.Origin(k.Name); given == "--"+k.Flag() && slices.Contains(ofNewStores, k.Name) {
			fmt.Fprintf(a.Stderr, "note: %s has no effect, because the store exists already: change cn=config instead\n", given)
		}
	}
}

// refuseOptions returns an error if the command line has an option that the job does not carry to a
// server. If the option concerns only the process, refuseOptions says that it has no effect.
func (j Job[A]) refuseOptions(c *config.Config, a Around) error {
	for _, k := range config.Keys {
		given := c.Origin(k.Name)
		if given != "--"+k.Flag() || k.Test || k.Name == "store" || slices.Contains(j.carries, k.Name) || slices.Contains(ofNewStores, k.Name) {
			continue
		}
		if !slices.Contains(ofProcess, k.Name) {
			return &config.Error{Where: given, Text: fmt.Sprintf("a server has the store open and does the work, with its own configuration: leave the option out, set %s there, or stop the server", k.Name)}
		}
		fmt.Fprintf(a.Stderr, "note: %s has no effect, because the server that has the store open does the work\n", given)
	}
	return nil
}

// Do does the job that a tool has requested.
func (l Jobs) Do(ctx context.Context, p *partition.Partition, archive Archives, signer string, all *monitor.Metrics, call *handoff.Call) (err error) {
	i := slices.IndexFunc(l, func(j anyJob) bool { return j.called() == call.Work })
	if i < 0 {
		return fmt.Errorf("this version of the server does not do %q", call.Work)
	}
	ctx, running := all.Jobs.Begin(ctx, call.Work, signer, nil)
	defer func() { running.End(err) }()
	err = l[i].decode(ctx, &Work{p, Around{
		Stdin: &lateInput{open: call.Open}, Stdout: call.Stdout, Stderr: call.Stderr,
		terminal: call.Terminal, Elsewhere: true, Open: call.Open, Create: call.Create, running: running,
	}, signer, archive, all}, call.Args)
	var mistake *config.Error
	if errors.As(err, &mistake) {
		return &handoff.Failure{Text: mistake.Error(), Usage: true}
	}
	return err
}

// A lateInput is the tool's standard input, which is opened at the first read.
type lateInput struct {
	open func(string) (*os.File, error)
	in   io.Reader
}

func (l *lateInput) Read(p []byte) (int, error) {
	if l.in == nil {
		f, err := l.open(handoff.Stdin)
		if err != nil {
			return 0, err
		}
		l.in = f
	}
	return l.in.Read(p)
}

// Progress returns a Progress that writes to standard error.
func (a *Around) Progress(verb string) *bulk.Progress {
	p := bulk.NewProgress(a.Stderr, a.terminal, verb)
	if a.running != nil {
		a.running.Measure(p.Ratio)
	}
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
