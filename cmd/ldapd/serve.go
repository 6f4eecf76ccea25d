package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/passwordlist"
	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

func (m *Main) serveCommand() *cobra.Command {
	use, create := openServe, false
	c := accepts(m.command(&cobra.Command{
		Use:   "serve --store STORE [--create [--access PROFILE] [--password-policy POLICY]] [--accept-clock] [--listen URL]... [--suffix DN]...",
		Short: "Serve the directory in a store",
		Long: `Serve the directory in a store until the process is told to stop. With --create, a
missing store is created as an empty directory: --suffix names its naming contexts,
--access decides who may see what, and --password-policy what passwords must be like.
When clients can connect, a line "ready URL..." is printed.`,
		Example: `  ldapd serve --store ./data --create --suffix dc=example,dc=com --admin-password-file ./admin.pw`,
		Args:    cobra.NoArgs,
	}, allKeys, func(ctx context.Context, c *config.Config, _ []string) error {
		if create {
			use = openInit
		}
		return m.serve(ctx, c, use)
	}))
	c.Flags().BoolVar(&create, "create", false, "make the store if there is none")
	return c
}

// serve serves until ctx ends. A standby that is promoted, or continues from another base,
// starts again in this process.
func (m *Main) serve(ctx context.Context, c *config.Config, use openMode) error {
	for {
		once, again := context.WithCancelCause(ctx)
		err := m.serveOnce(once, c, use, again)
		isAgain := context.Cause(once) == errAgain && (err == nil || errors.Is(err, context.Canceled)) || errors.Is(err, errAgain)
		again(nil)
		if !isAgain || ctx.Err() != nil {
			return err
		}
		if now, err := m.again(); err == nil {
			c = now
		} else {
			m.logger(c).Error("the configuration cannot be used, the one before stays in force", "error", err)
		}
	}
}

// serveOnce serves until ctx ends. The function again ends ctx with a cause that makes serve
// start the server anew.
func (m *Main) serveOnce(ctx context.Context, c *config.Config, use openMode, again context.CancelCauseFunc) (err error) {
	log := m.logger(c)
	hangups, unnotify := hangups()
	defer unnotify()
	m.tuneMemory(c)
	f, err := openFront(c, log)
	if err != nil {
		return err
	}
	defer f.close()
	w, err := openWatch(c, log)
	if err != nil {
		return err
	}
	defer w.close()
	tracer := openTraces(c, w.metrics.Registry, log)
	defer tracer.close()
	access, closer, err := m.accessLog(c)
	if err != nil {
		return err
	}
	defer closer.Close()
	standby, err := openFollower(ctx, c, log, again)
	if err != nil {
		return err
	}
	var fence fence
	p, err := openPartition(ctx, c, log, standby.purpose(use), func(o *txn.Options) { o.Observe, o.Fenced = w.countAttempt, fence.lost })
	if err != nil {
		return err
	}
	// The store is closed after ctx has ended, so closing it needs a context that does
	// not end.
	last := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, p.Close(last)) }()
	archived, stopArchiving, err := m.serveArchive(ctx, c, p, standby, log)
	if err != nil {
		return err
	}
	defer stopArchiving()
	fence.archive.Store(archived.running)
	stopFollowing, err := standby.follow(ctx, p, log)
	if err != nil {
		return err
	}
	defer stopFollowing()
	if standby == nil {
		if err := onlineschema.AddSuffixes(ctx, p.Partition, c.Suffix); err != nil {
			return err
		}
	}
	warn(c, log)
	warnOpen(p.Partition, log)
	o, err := directoryOptions(c, log)
	if err != nil {
		return err
	}
	hashes := m.hashes(log)
	defer hashes.Close()
	o.Passwords = auth.New(c.Passwords.Parallel, hashes)
	o.Access, o.Metrics = access, w.metrics
	o.Health = w.health
	tracer.addTo(&o)
	o.Extensions = f.options.Extensions()
	if o.Secret, err = write.Secret(ctx, p.Partition); err != nil {
		return err
	}
	d, err := directory.New(p.Partition, o)
	if err != nil {
		return err
	}
	defer d.Close()
	stopWarming := m.warm(c, p.Partition, log)
	defer stopWarming()
	stopViews := beside(func(ctx context.Context) {
		if standby != nil {
			return // a standby gets the records of views from the log of its primary
		}
		materialized.Keep(ctx, p.Partition, func(err error) { log.Warn("views are not kept for now", "error", err) })
	})
	defer stopViews()
	stopGiving := beside(giveBack)
	defer stopGiving()
	stopTools := m.serveTools(c, p.Partition, archived, d.Admin, w.metrics.Jobs, log)
	defer stopTools()
	f.options.Traffic = w.metrics.Traffic
	w.serve(ctx, p, o.Passwords, f.files, archived)
	defer w.stop(last)
	r := &reloader{m: m, watch: w, started: c, current: c, log: log, files: f.files, access: closer, directory: d, partition: p.Partition}
	return m.run(ctx, c, f, r, hangups)
}

// warm fills the cache in the background, until stop is called. It does nothing for a
// shared store, which may be far larger than the cache.
func (m *Main) warm(c *config.Config, p *partition.Partition, log *slog.Logger) (stop func()) {
	if strings.HasPrefix(c.Store, "hbase:") {
		return func() {}
	}
	return beside(func(ctx context.Context) {
		if n, err := search.Warm(ctx, p); err == nil {
			log.Info("cache is warm", "entries", n)
		} else if ctx.Err() == nil {
			log.Warn("cache is not warm", "error", err)
		}
	})
}

// run serves until ctx ends or a listener fails.
func (m *Main) run(ctx context.Context, c *config.Config, f *listeners, r *reloader, hangups <-chan os.Signal) error {
	log := r.log
	s := server.New(handler{r.directory}, f.options)
	r.server = s
	r.watch.metrics.SetLoad(s.Load)
	defer beside(func(ctx context.Context) { r.serve(ctx, hangups) })()
	failed := make(chan error, len(f.listeners))
	for _, l := range f.listeners {
		go func() { failed <- s.Serve(l) }()
	}
	urls := f.urls()
	log.Info("serving", "store", c.Store, "urls", strings.Join(urls, " "), "status", r.watch.url())
	fmt.Fprintln(m.Stdout, "ready", strings.Join(urls, " "))
	manager := &supervisor{health: r.watch.health, log: log}
	stopSigns := beside(func(ctx context.Context) { manager.ready(ctx, urls) })

	var err error
	select {
	case <-ctx.Done():
		r.watch.health.Stop()
		log.Info("stopping")
	case err = <-failed:
	}
	stopSigns()
	patience := c.GracePeriod
	if context.Cause(ctx) == errAgain {
		patience = min(patience, shortGrace)
	} else {
		manager.stopping()
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if e := s.Shutdown(grace); e != nil {
		log.Warn("operations were still running after the grace period and have been ended")
	}
	log.Info("stopped")
	return err
}

// shortGrace is how long running operations get before a server starts again in the same
// process.
const shortGrace = time.Second

// A fence keeps a server from making changes after a store in another folder has taken its
// archive over.
type fence struct {
	archive atomic.Pointer[archive.Archiver]
}

// lost returns an error if the archive was taken over.
func (f *fence) lost() error {
	if a := f.archive.Load(); a != nil {
		return a.Lost()
	}
	return nil
}

// handler adapts a Directory to package server, which package directory does not import.
type handler struct{ *directory.Directory }

func (h handler) NewSession(c *server.ConnInfo) server.Session {
	return h.Directory.NewSessionIn(c.Branch, c)
}

func directoryOptions(c *config.Config, log *slog.Logger) (directory.Options, error) {
	tokens, err := bearer(c, log)
	if err != nil {
		return directory.Options{}, err
	}
	listed, err := knownPasswords(c, log)
	return directory.Options{
		Admin:         c.Admin.DN,
		AdminPassword: c.Admin.Password,
		Limits:        directory.Limits(c.Limits.PerUser),
		LimitRules:    limitRules(c),
		Transactions: directory.TransactionLimits{
			Open:       orNever(c.Limits.Transactions.Open, -1),
			Operations: c.Limits.Transactions.Operations,
			Octets:     c.Limits.Transactions.Memory,
			Idle:       orNever(c.Limits.Transactions.Idle, -1),
		},
		AdminKeys:          c.Admin.ScramKeys,
		Version:            version(),
		ClearPasswords:     clearPasswords[c.Passwords.RequireTLS],
		UpgradePasswords:   c.Passwords.Upgrade,
		Listed:             listed,
		Mechanisms:         c.SASL.Mechanisms,
		PlainInClear:       c.SASL.PlainInClear,
		Identities:         c.SASL.Identities,
		CertificateInEntry: c.SASL.InEntry,
		Tokens:             tokens,
		Referral:           c.Referral,
		Primary:            c.Standby.Primary,
		Log:                log,
		Slow:               c.Slow,
	}, err
}

var clearPasswords = map[string]directory.ClearPasswords{
	"false":  directory.ClearFromAnywhere,
	"remote": directory.ClearFromThisMachine,
	"true":   directory.ClearFromNowhere,
}

// bearer reads the keys of the token issuer. If none is configured, it returns nil.
func bearer(c *config.Config, log *slog.Logger) (*auth.Bearer, error) {
	if c.SASL.Issuer == nil {
		return nil, nil
	}
	issuer := *c.SASL.Issuer
	issuer.Log = log
	b, err := auth.NewBearer(issuer)
	if err != nil {
		return nil, &config.Error{Where: c.Origin("sasl.issuer"), Text: "sasl.issuer: " + err.Error()}
	}
	return b, nil
}

// knownPasswords reads the list of known passwords. If none is configured, it returns nil.
func knownPasswords(c *config.Config, log *slog.Logger) (func([]byte) bool, error) {
	if c.Passwords.Known == "" {
		return nil, nil
	}
	f, err := passwordlist.Open(c.Passwords.Known, log)
	if err != nil {
		return nil, &config.Error{Where: c.Origin("passwords.known"), Text: "passwords.known: " + err.Error()}
	}
	return f.Contains, nil
}

func limitRules(c *config.Config) []directory.LimitRule {
	var rules []directory.LimitRule
	for _, r := range c.Limits.Rules {
		rules = append(rules, directory.LimitRule{Who: r.Who, Limits: directory.Limits(r.PerUser)})
	}
	return rules
}
