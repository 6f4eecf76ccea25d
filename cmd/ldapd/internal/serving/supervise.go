package serving

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/status"
)

// A supervisor reports to the service manager that started the process: systemd, through
// sd_notify(3). If no service manager started the process, the supervisor sends nothing.
type supervisor struct {
	health *status.Health
	log    *slog.Logger
	said   string // the last status that was sent
}

// ready reports that clients can connect. If the service manager has a watchdog, ready
// then reports periodically that the process is live, until ctx ends. The watchdog
// restarts a process that sends no report for too long.
func (s *supervisor) ready(ctx context.Context, urls []string) {
	s.said = "serving " + strings.Join(urls, " ")
	s.tell(daemon.SdNotifyReady, "STATUS="+s.said)
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn("the watchdog's time is not understood", "error", err)
	}
	if err != nil || every == 0 {
		return
	}
	t := time.NewTicker(every / 3)
	defer t.Stop()
	for serving := s.said; ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.look(serving)
		}
	}
}

// look sends the status if it has changed. If the process is live, look also reports this
// to the watchdog.
func (s *supervisor) look(serving string) {
	text := serving
	if why := s.health.Ready(true); len(why) > 0 {
		text = fmt.Sprintf("%s: %s", why[0].What, why[0].Text)
	}
	if text != s.said {
		s.said = text
		s.tell("STATUS=" + text)
	}
	if s.health.IsLive() {
		s.tell(daemon.SdNotifyWatchdog)
	}
}

// stopping reports that the process is stopping.
func (s *supervisor) stopping() { s.tell(daemon.SdNotifyStopping, "STATUS=stopping") }

func (s *supervisor) tell(lines ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		s.log.Warn("the service manager does not hear", "error", err)
	}
}
