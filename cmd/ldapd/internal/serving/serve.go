// Package serving is the command serve: it opens the parts of a server, one after the other, and
// closes them in the reverse order.
package serving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/passwordlist"
	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/auth/bearer"
	"github.com/seed-4dac0d86/ldapd/directory/auth/gssapi"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor/scrape"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// Serve serves the configured store until ctx ends, and does the jobs of tools. A standby that is
// promoted, or continues from another base, starts again in this process.
func Serve(ctx context.Context, m *cli.Main, c *config.Config, use cli.Mode, jobs cli.Jobs) error {
	for {
		once, again := context.WithCancelCause(ctx)
		err := serveOnce(once, m, c, use, jobs, again)
		isAgain := context.Cause(once) == errAgain && (err == nil || errors.Is(err, context.Canceled)) || errors.Is(err, errAgain)
		again(nil)
		if !isAgain || ctx.Err() != nil {
			return err
		}
		if now, err := m.Reread(); err == nil {
			c = now
		} else {
			m.Logger(c).Error("the configuration cannot be used, the one before stays in force", "error", err)
		}
	}
}

// serveOnce serves until ctx ends. The function restart ends ctx with a cause that makes Serve
// start the server anew.
func serveOnce(ctx context.Context, m *cli.Main, c *config.Config, use cli.Mode, jobs cli.Jobs, restart context.CancelCauseFunc) (err error) {
	signals, unnotify := hangups()
	defer unnotify()
	metrics := monitor.New(cli.Version())
	log := slog.New(slog.NewMultiHandler(m.Logger(c).Handler(), metrics.Warnings.Handler()))
	s := &serving{Main: m, config: c, log: log, use: use, jobs: jobs, restart: restart, hangups: signals, watch: &watch{metrics: metrics, registry: scrape.Registry(metrics)}}
	for _, start := range []part{
		s.listen, s.monitor, s.openStore, s.archive, s.follow, s.openDirectory,
		s.warm, s.keepViews, s.returnMemory, s.letStart, s.doJobs, s.publish, s.showConsole,
	} {
		stop, err := start(ctx)
		if err != nil {
			return errors.Join(err, s.stop())
		}
		s.stops = append(s.stops, stop)
	}
	return errors.Join(s.answer(ctx), s.stop())
}

// A part of a server is started after the parts before it in the list of serveOnce, and stopped
// before them.
type part func(context.Context) (stop func() error, err error)

// A serving is a server from its start to its end.
type serving struct {
	*cli.Main
	config  *config.Config
	log     *slog.Logger
	use     cli.Mode
	jobs    cli.Jobs
	restart context.CancelCauseFunc // makes Serve start the server anew
	hangups <-chan os.Signal
	stops   []func() error
	// collects is the percentage that the garbage collector was last set to. 0: GOGC is set
	collects int

	front     *listeners
	watch     *watch
	tracer    traces
	access    *slog.Logger
	accessLog io.Closer
	standby   *follower // nil: the server is no standby
	fence     fence
	store     *cli.Store
	archives  cli.Archives
	archiver  *archive.Archiver // nil: the process does not archive
	hashes    *auth.Passwords
	directory *directory.Directory
	started   sessionJobs
}

// stop stops the parts that were started.
func (s *serving) stop() (err error) {
	for _, stop := range slices.Backward(s.stops) {
		err = errors.Join(err, stop())
	}
	return err
}

// each returns a function that calls all functions and cannot fail.
func each(stops ...func()) func() error {
	return func() error {
		for _, stop := range stops {
			stop()
		}
		return nil
	}
}

func (s *serving) listen(context.Context) (stop func() error, err error) {
	s.tuneMemory(s.config)
	s.front, err = openFront(s.config, s.log)
	if err != nil {
		return nil, err
	}
	return each(s.front.close), nil
}

// monitor opens the status listener, the tracer and the access log.
func (s *serving) monitor(context.Context) (stop func() error, err error) {
	if s.access, s.accessLog, err = s.openAccessLog(s.config); err != nil {
		return nil, err
	}
	if err := s.watch.open(s.config, s.log); err != nil {
		return nil, errors.Join(err, s.accessLog.Close())
	}
	s.tracer = openTraces(s.config, s.watch.registry, s.log)
	return each(func() { s.accessLog.Close() }, s.tracer.close, s.watch.close), nil
}

func (s *serving) openStore(ctx context.Context) (stop func() error, err error) {
	if s.standby, err = openFollower(ctx, s.config, s.log, s.restart); err != nil {
		return nil, err
	}
	s.store, err = cli.Open(ctx, s.config, s.log, s.standby.purpose(s.use), func(o *txn.Options) {
		o.Observe, o.Fenced = s.watch.countAttempt, s.fence.lost
	})
	if err != nil {
		return nil, err
	}
	// The store is closed after ctx has ended, so closing it needs a context that does not end.
	return func() error { return s.store.Close(context.WithoutCancel(ctx)) }, nil
}

// follow keeps a standby up to date, and adds the configured naming contexts to the directory of
// other servers.
func (s *serving) follow(ctx context.Context) (stop func() error, err error) {
	stopFollowing, err := s.standby.follow(ctx, s.store, s.log)
	if err != nil {
		return nil, err
	}
	if s.standby == nil {
		if err := onlineschema.AddSuffixes(ctx, s.store.Partition, s.config.Suffix); err != nil {
			return nil, err
		}
	}
	return each(stopFollowing), nil
}

func (s *serving) openDirectory(ctx context.Context) (stop func() error, err error) {
	Warn(s.config, s.log)
	warnOpen(s.store.Partition, s.log)
	o, err := directoryOptions(s.config, s.log)
	if err != nil {
		return nil, err
	}
	hashes := s.newHasher(s.log)
	s.hashes = auth.New(s.config.Passwords.Parallel, hashes)
	o.Passwords, o.Access, o.Metrics, o.Health = s.hashes, s.access, s.watch.metrics, s.watch.health
	o.StartJob, o.Jobs = s.startJob, s.jobs.Offers()
	s.tracer.addTo(&o)
	o.Extensions = s.front.options.Extensions()
	if o.Secret, err = write.Secret(ctx, s.store.Partition); err == nil {
		s.directory, err = directory.New(s.store.Partition, o)
	}
	if err != nil {
		hashes.Close()
		return nil, err
	}
	return each(s.directory.Close, hashes.Close), nil
}

// warm fills the cache in the background. It does nothing for a shared store, which may be far
// larger than the cache.
func (s *serving) warm(context.Context) (stop func() error, err error) {
	if hbase.IsURL(s.config.Store) {
		return each(), nil
	}
	return each(inBackground(func(ctx context.Context) {
		if n, err := search.Warm(ctx, s.store.Partition); err == nil {
			s.log.Info("cache is warm", "entries", n)
		} else if ctx.Err() == nil {
			s.log.Warn("cache is not warm", "error", err)
		}
	})), nil
}

// keepViews keeps the views. A standby gets their records from the log of its primary.
func (s *serving) keepViews(context.Context) (stop func() error, err error) {
	if s.standby != nil {
		return each(), nil
	}
	return each(inBackground(func(ctx context.Context) {
		materialized.Keep(ctx, s.store.Partition, func(err error) { s.log.Warn("views are not kept for now", "error", err) })
	})), nil
}

func (s *serving) returnMemory(context.Context) (stop func() error, err error) {
	return each(inBackground(s.watchMemory)), nil
}

// publish makes the status listener report the state of the store, and other servers list this one.
func (s *serving) publish(ctx context.Context) (stop func() error, err error) {
	s.front.options.Traffic = s.watch.metrics.Traffic
	s.watch.serve(ctx, s)
	return each(func() { s.watch.stop(context.WithoutCancel(ctx)) }), nil
}

// answer serves clients until ctx ends or a listener fails.
func (s *serving) answer(ctx context.Context) error {
	srv := server.New(Handler{s.directory}, s.front.options)
	s.watch.metrics.SetLoad(srv.Load)
	r := &reloader{serving: s, current: s.config, server: srv}
	defer inBackground(r.serve)()
	failed := make(chan error, len(s.front.listeners))
	for _, l := range s.front.listeners {
		go func() { failed <- srv.Serve(l) }()
	}
	urls := s.front.urls()
	s.log.Info("serving", "store", s.config.Store, "urls", strings.Join(urls, " "), "status", s.watch.url(), "console", strings.Join(s.front.consoleURLs(), " "))
	fmt.Fprintln(s.Stdout, "ready", strings.Join(urls, " "))
	if s.front.console != nil {
		fmt.Fprintln(s.Stdout, "console", strings.Join(s.front.consoleURLs(), " "))
	}
	manager := &supervisor{health: s.watch.health, log: s.log}
	stopSigns := inBackground(func(ctx context.Context) { manager.ready(ctx, urls) })

	var err error
	select {
	case <-ctx.Done():
		s.watch.health.Stop()
		s.log.Info("stopping")
	case err = <-failed:
	}
	stopSigns()
	patience := s.config.GracePeriod
	if context.Cause(ctx) == errAgain {
		patience = min(patience, shortGrace)
	} else {
		manager.stopping()
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if e := srv.Shutdown(grace); e != nil {
		s.log.Warn("operations were still running after the grace period and have been ended")
	}
	s.log.Info("stopped")
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

// Handler adapts a Directory to package server, which package directory does not import.
type Handler struct{ *directory.Directory }

// NewSession begins a session on a connection.
func (h Handler) NewSession(c *server.ConnInfo) server.Session {
	return h.Directory.NewSessionIn(c.Branch, c)
}

func directoryOptions(c *config.Config, log *slog.Logger) (directory.Options, error) {
	tokens, err := Bearer(c, log)
	if err != nil {
		return directory.Options{}, err
	}
	kerberos, err := Kerberos(c, log)
	if err != nil {
		return directory.Options{}, err
	}
	listed, err := KnownPasswords(c, log)
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
		Version:            cli.Version(),
		ClearPasswords:     clearPasswords[c.Passwords.RequireTLS],
		UpgradePasswords:   c.Passwords.Upgrade,
		Listed:             listed,
		Mechanisms:         c.SASL.Mechanisms,
		PlainInClear:       c.SASL.PlainInClear,
		Identities:         c.SASL.Identities,
		CertificateInEntry: c.SASL.InEntry,
		Tokens:             tokens,
		Kerberos:           kerberos,
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

// Bearer reads the keys of the token issuer. If none is configured, it returns nil.
func Bearer(c *config.Config, log *slog.Logger) (auth.Tokens, error) {
	if c.SASL.Issuer == nil {
		return nil, nil
	}
	issuer := *c.SASL.Issuer
	issuer.Log = log
	b, err := bearer.New(issuer)
	if err != nil {
		return nil, &config.Error{Where: c.Origin("sasl.issuer"), Text: "sasl.issuer: " + err.Error()}
	}
	return b, nil
}

// Kerberos reads the keytab. If none is configured, it returns nil.
func Kerberos(c *config.Config, log *slog.Logger) (auth.Kerberos, error) {
	if c.SASL.Keytab == "" {
		return nil, nil
	}
	a, err := gssapi.Open(c.SASL.Keytab, log)
	if err != nil {
		return nil, &config.Error{Where: c.Origin("sasl.keytab"), Text: "sasl.keytab: " + err.Error()}
	}
	return a, nil
}

// KnownPasswords reads the list of known passwords. If none is configured, it returns nil.
func KnownPasswords(c *config.Config, log *slog.Logger) (func([]byte) bool, error) {
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
