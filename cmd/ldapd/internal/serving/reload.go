package serving

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
)

// hangups returns a channel that receives SIGHUP signals. Until stop is called, a SIGHUP
// does not end the process.
func hangups() (c <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

// A reloader reloads the configuration while the server runs: the keys with
// [config.Key.Reload], the TLS files, and the access log's file.
type reloader struct {
	*serving
	current *config.Config // the configuration that was read last; config is the one of the start
	server  *server.Server
}

// serve calls reload at every SIGHUP until ctx ends.
func (r *reloader) serve(ctx context.Context) {
	for {
		select {
		case <-r.hangups:
			r.reload(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// reload reads the configuration again. If it is invalid, reload logs the error, and the
// current configuration stays in force. In both cases, the file of the access log is
// opened again, and the TLS files are read again.
func (r *reloader) reload(ctx context.Context) {
	r.accessLog.Close() // the next line that is logged opens the file by its name again
	if r.front.files != nil {
		r.front.files.Reload()
	}
	c, err := r.Reread()
	if err == nil {
		err = r.use(ctx, c)
	}
	if err != nil {
		r.log.Error("the configuration cannot be used, the one before stays in force", "error", err)
		return
	}
	changed, _ := config.Changed(r.current, c)
	_, restart := config.Changed(r.config, c)
	r.current = c
	r.log.Info("configuration read again", "changed", strings.Join(changed, " "))
	if len(restart) > 0 {
		r.log.Warn("some changes of the configuration need a restart", "keys", strings.Join(restart, " "))
	}
}

func (r *reloader) use(ctx context.Context, c *config.Config) error {
	Warn(c, r.log)
	o, err := directoryOptions(c, r.log)
	if err != nil {
		return err
	}
	if c.Standby.From == nil {
		if err := onlineschema.AddSuffixes(ctx, r.store.Partition, c.Suffix); err != nil {
			return err
		}
	}
	if err := r.directory.Reconfigure(o); err != nil {
		return err
	}
	r.server.Reconfigure(serverOptions(c, r.log))
	r.SetLevel(c)
	return nil
}
