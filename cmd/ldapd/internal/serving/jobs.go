package serving

import (
	"context"
	"strings"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/handoff"
)

// doJobs does the jobs of tools that find the store's folder locked, until stop is
// called. It does nothing for a shared store, because tools can open a shared store
// themselves.
func (s *serving) doJobs(context.Context) (stop func() error, err error) {
	if strings.HasPrefix(s.config.Store, "hbase:") {
		return each(), nil
	}
	l, err := handoff.Listen(s.config.Store, s.log)
	if err != nil {
		s.log.Warn("tools cannot work on the store while it is served", "error", err)
		return each(), nil
	}
	return each(inBackground(func(ctx context.Context) {
		l.Serve(ctx, func(ctx context.Context, call *handoff.Call) error {
			return s.jobs.Do(ctx, s.store.Partition, s.archives, s.directory.Admin(), s.watch.metrics.Jobs, call)
		})
	})), nil
}
