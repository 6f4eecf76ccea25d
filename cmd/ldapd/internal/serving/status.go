package serving

import (
	"context"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/status"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// A watch publishes the state of a serving process.
type watch struct {
	metrics *monitor.Metrics
	// registry has metrics and what else is scraped.
	registry *prometheus.Registry
	health   *status.Health
	server   *status.Server // nil: no listener is configured
	part     *partition.Partition
	log      *slog.Logger
	// announced means that serve has put this server into the list of the store's servers, or has
	// tried to.
	announced bool
}

// countAttempt counts an attempt to commit.
func (w *watch) countAttempt(a txn.Attempt) { w.metrics.Commit(monitor.Attempt(a)) }

// open opens the status listener. Until serve is called, /ready reports that the server is
// starting.
func (w *watch) open(c *config.Config, log *slog.Logger) (err error) {
	w.health, w.log = status.NewHealth(), log
	if c.Status == "" {
		return nil
	}
	metrics := prometheus.Gatherers{w.registry}
	if hbase.IsURL(c.Store) {
		metrics = append(metrics, status.HBase)
	}
	w.server, err = status.Listen(c.Status, status.Options{Health: w.health, Metrics: metrics, Targets: w.targets, Log: log})
	if err != nil {
		return &config.Error{Where: c.Origin("status.listen"), Text: "status.listen: " + err.Error()}
	}
	return nil
}

func (w *watch) close() {
	if w.server != nil {
		w.server.Close()
	}
}

// url returns the URL of the status listener, or "".
func (w *watch) url() string {
	if w.server == nil {
		return ""
	}
	return w.server.URL()
}

// serve makes the watch report the state of a server's store and its directory.
func (w *watch) serve(ctx context.Context, s *serving) {
	w.part = s.store.Partition
	o := &status.Sources{Partition: w.part, Store: s.store.Tables, Passwords: s.hashes}
	if s.front.files != nil {
		o.Certificates = s.front.files.Ends
	}
	if s.archiver != nil {
		o.Archive = s.archiver.Status
	}
	if s.standby != nil {
		o.Standby = s.standby.Status
	}
	w.registry.MustRegister(status.Collector(o))
	s.hashes.Watch(w.metrics.Hash)
	w.health.Serve(func() txn.Status { return w.part.DB.Status() })
	if w.server != nil && s.standby == nil { // the list of servers in a standby's store is a copy of the primary's
		own := txn.Server{Version: cli.Version(), Status: w.server.URL(), Since: time.Now().UTC()}
		if err := w.part.DB.Announce(ctx, own); err != nil {
			w.log.Warn("other servers do not list this one", "error", err)
		}
		w.announced = true
	}
}

// stop makes /ready report that the server is stopping, and removes the server from the
// list of the store's servers.
func (w *watch) stop(ctx context.Context) {
	w.health.Stop()
	if w.announced {
		if err := w.part.DB.Withdraw(ctx); err != nil {
			w.log.Warn("other servers go on listing this one", "error", err)
		}
	}
}

// targets returns the addresses of the status listeners of all servers of the store.
func (w *watch) targets(ctx context.Context) (hosts []string, err error) {
	hosts = []string{}
	if w.part == nil {
		return hosts, nil
	}
	all, err := w.part.DB.Servers(ctx)
	for _, s := range all {
		if u, err := url.Parse(s.Status); err == nil && u.Host != "" {
			hosts = append(hosts, u.Host)
		}
	}
	slices.Sort(hosts)
	return hosts, err
}
