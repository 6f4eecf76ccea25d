package lsm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/wal"
)

// Purge removes erased bytes from the disk. Compaction alone leaves erased bytes in four
// places. The first is obsolete tables and logs that are not deleted yet. The second is
// logs that are kept for ReadLog. The third is log files that Pebble keeps for reuse. The
// fourth is the manifest, which contains the first and last key of each table, including
// deleted tables. So after compacting, Purge makes Pebble replace logs and manifest until
// all files that existed before are gone.

// purgeKey is written so that there is something to flush or to find in the log. The key
// belongs to no table.
var purgeKey = []byte{0, 0, 'p'}

// purgeGrain is the time between two listings of the folder.
const purgeGrain = 10 * time.Millisecond

// purgePatience is how long Purge waits for files that readers still use.
const purgePatience = 5 * time.Minute

// Purge implements table.Reclaimer. Commits and reads continue during Purge. A read that
// takes minutes delays Purge.
func (s *Store) Purge(ctx context.Context) (err error) {
	if err := s.gate.beginWrite(ctx, true); err != nil {
		return err
	}
	s.gate.endWrite()
	if err := s.gate.begin(ctx); err != nil {
		return err
	}
	defer s.gate.end()
	defer s.caught(&err)
	s.disk.renewing.Add(1)
	defer s.disk.renewing.Add(-1)
	if err := s.db.Compact(ctx, []byte{0}, []byte{0xff, 0xff, 0xff}, true); err != nil {
		return s.wrap("purge", err)
	}
	if err := (&purge{s}).run(ctx); err != nil {
		return s.wrap("purge", err)
	}
	return s.wrap("remove logs", s.kept.remove(func(wal.NumWAL) bool { return true }))
}

// A purge replaces the files of a store.
type purge struct{ s *Store }

// run makes Pebble replace its logs and manifests, and waits until Pebble has
// deleted the old ones. It also waits until Pebble has deleted all tables that were
// obsolete at the time of the call.
func (p *purge) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, purgePatience, errors.New("somebody reads from files that were to go: try again"))
	defer cancel()
	old, err := p.replaceable(nil)
	for err == nil && len(old) > 0 {
		if err = p.s.db.Set(purgeKey, []byte{1}, pebble.NoSync); err == nil {
			err = p.s.db.Flush()
		}
		if err != nil {
			break
		}
		p.s.iters.refresh()
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: left are %s", context.Cause(ctx), strings.Join(old, " "))
		case <-time.After(purgeGrain):
		}
		old, err = p.replaceable(old)
	}
	return err
}

// replaceable lists all logs, all manifests, and obsolete tables. If old is not nil, it
// leaves out files that are not in old.
func (p *purge) replaceable(old []string) (names []string, err error) {
	all, err := p.s.o.FS.List(p.s.o.Path)
	if err != nil {
		return nil, err
	}
	inUse, err := p.tablesInUse() // read after the folder, because new tables may be added
	for _, name := range all {
		file := strings.HasSuffix(name, ".log") || strings.HasPrefix(name, "MANIFEST-") ||
			strings.HasSuffix(name, ".sst") && !inUse[name]
		if file && (old == nil || slices.Contains(old, name)) {
			names = append(names, name)
		}
	}
	return names, err
}

func (p *purge) tablesInUse() (map[string]bool, error) {
	levels, err := p.s.db.SSTables()
	names := map[string]bool{}
	for _, level := range levels {
		for i := range level {
			names[fmt.Sprintf("%s.sst", level[i].BackingSSTNum)] = true
		}
	}
	return names, err
}
