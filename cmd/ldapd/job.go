package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/handoff"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// A job is the work of a command on an open directory. It runs in the command's process
// or, while a server holds the store's folder, in the server's process (package
// handoff). Therefore a job uses nothing except its parameters: args is data, and work
// contains everything that belongs to the process.
type job[A any] struct {
	name    string
	do      func(ctx context.Context, w *work, args A) error
	carries []string
}

// newJob returns a job with a name. The strings in carries are the names of the configuration
// keys whose values args contains, or which are the same for every process. A server does the
// job by its own configuration, so it does not see the other keys.
func newJob[A any](name string, do func(ctx context.Context, w *work, args A) error, carries ...string) job[A] {
	return job[A]{name, do, carries}
}

// work is the environment in which a job runs.
type work struct {
	*partition.Partition
	around
	signer  string // DN of the administrator of the process that runs the job
	archive archives
}

// The method "by" returns the author of a change, for the journal and modifiersName.
func (w *work) by(request string) partition.By {
	return partition.By{Name: w.signer, Request: request}
}

// around is the environment of a command. open and create open the user's files, even
// if the job runs in another process.
type around struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	terminal       bool // Stderr is a terminal
	elsewhere      bool // the job runs in a server's process
	open, create   func(name string) (*os.File, error)
	running        *monitor.Job // nil: the job runs in the tool's process
}

// A jobList has the jobs that a server does for tools.
type jobList []anyJob

// anyJob is a job with any type of arguments.
type anyJob interface {
	called() string
	decode(ctx context.Context, w *work, args json.RawMessage) error
}

func (j job[A]) called() string { return j.name }

func (j job[A]) decode(ctx context.Context, w *work, text json.RawMessage) error {
	var args A
	if err := json.Unmarshal(text, &args); err != nil {
		return fmt.Errorf("the arguments were not understood: the tool and the server are of different versions: %w", err)
	}
	return j.do(ctx, w, args)
}

func (m *Main) around() around {
	return around{Stdin: m.Stdin, Stdout: m.Stdout, Stderr: m.Stderr, terminal: isTerminal(m.Stderr)}
}

// The method "on" does the job on the store's directory. The job runs in this process or, if a
// server holds the store's folder, in the server's process.
func (j job[A]) on(ctx context.Context, m *Main, c *config.Config, use openMode, a around, args A) error {
	there, err := storeThere(c, use)
	if err != nil {
		return err
	}
	if there && !strings.HasPrefix(c.Store, "hbase:") {
		noteNewStores(c, a)
	}
	defer lowMemory(c)()
	for end := time.Now().Add(patience); ; {
		p, err := openPartition(ctx, c, m.logger(c), use)
		if err == nil {
			err = j.do(ctx, &work{p.Partition, a, c.Admin.DN, m.archivesOf(c, p)}, args)
			return errors.Join(err, p.Close(context.WithoutCancel(ctx)))
		}
		if errors.Is(err, table.ErrLocked) {
			err = j.ask(ctx, c, a, args, err)
		}
		if !errors.Is(err, handoff.ErrNobody) || time.Now().After(end) || pause.For(ctx, 50*time.Millisecond) != nil {
			return err
		}
	}
}

// patience is how long job.on waits for a store that another process has locked, if that
// process does not answer requests. Such a process is a server that is starting, or another
// tool.
const patience = 5 * time.Second

// ask requests the job from the server that holds the store's folder.
func (j job[A]) ask(ctx context.Context, c *config.Config, a around, args A, locked error) error {
	if err := j.refuseOptions(c, a); err != nil {
		return err
	}
	err := handoff.Ask(ctx, c.Store, handoff.Request{
		Work: j.name, Args: args, Terminal: a.terminal,
		Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr,
		Open: a.open, Create: a.create,
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
func noteNewStores(c *config.Config, a around) {
	for _, k := range config.Keys {
		if given := c.Origin(k.Name); given == "--"+k.Flag() && slices.Contains(ofNewStores, k.Name) {
			fmt.Fprintf(a.Stderr, "note: %s has no effect, because the store exists already: change cn=config instead\n", given)
		}
	}
}

// refuseOptions returns an error if the command line has an option that the job does not carry to a
// server. If the option concerns only the process, refuseOptions says that it has no effect.
func (j job[A]) refuseOptions(c *config.Config, a around) error {
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

// do does the job that a tool has requested.
func (l jobList) do(ctx context.Context, p *partition.Partition, archive archives, signer string, all *monitor.Jobs, call *handoff.Call) error {
	i := slices.IndexFunc(l, func(j anyJob) bool { return j.called() == call.Work })
	if i < 0 {
		return fmt.Errorf("this version of the server does not do %q", call.Work)
	}
	running := all.Begin(call.Work)
	defer running.End()
	err := l[i].decode(ctx, &work{p, around{
		Stdin: &lateInput{open: call.Open}, Stdout: call.Stdout, Stderr: call.Stderr,
		terminal: call.Terminal, elsewhere: true, open: call.Open, create: call.Create, running: running,
	}, signer, archive}, call.Args)
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

// progress returns a Progress that writes to standard error.
func (a *around) progress(verb string) *bulk.Progress {
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
