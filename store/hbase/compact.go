package hbase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Major compactions release space. HBase itself runs them once a week. This file requests
// them from the AdminService of the region servers, for which gohbase has no calls.

var _ table.Reclaimer = (*Store)(nil)

// garbage records the tables in which something was collected, and when the last
// compaction of each table was requested.
type garbage struct {
	mu   sync.Mutex
	in   map[string]bool
	last map[string]time.Time
}

func (g *garbage) add(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in == nil {
		g.in, g.last = map[string]bool{}, map[string]time.Time{}
	}
	if g.in[name] = true; g.last[name].IsZero() {
		// Another server may have requested a compaction shortly before this server was
		// started. So the time until the next compaction is counted from now.
		g.last[name] = time.Now()
	}
}

// take returns the tables that are due for a compaction, and removes them from g.
func (g *garbage) take(often time.Duration) (names []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name := range g.in {
		if time.Since(g.last[name]) >= often {
			g.last[name] = time.Now()
			delete(g.in, name)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Reclaim implements table.Reclaimer. It requests major compactions of the tables in
// which something was collected. Each table is compacted at most as often as
// Options.Compact allows, or at once if now is set. Reclaim does not wait for the
// compactions.
func (s *Store) Reclaim(ctx context.Context, now bool) error {
	often := s.compact
	if now {
		often = 0
	} else if often <= 0 {
		return nil
	}
	names := s.garbage.take(often)
	if len(names) == 0 {
		return nil
	}
	return s.eachRegion(ctx, names, func(ctx context.Context, a admin, r hrpc.RegionInfo) error {
		if err := a.flush(ctx, r); err != nil {
			return err
		}
		return a.compact(ctx, r)
	})
}

// Purge implements table.Reclaimer. It flushes and compacts all tables completely, and
// makes the region servers begin new logs. HBase itself removes the replaced files. HBase
// removes the files of tables some minutes later (hbase.master.hfilecleaner.ttl). HBase
// removes a log under two conditions: the next log has begun, and all tables with entries
// in the old log have been flushed. It removes the log when the time
// hbase.master.logcleaner.ttl has passed since then. Some of these tables may belong to
// other users of the cluster. If the users do not flush these tables, HBase flushes them
// after hbase.regionserver.optionalcacheflushinterval.
func (s *Store) Purge(ctx context.Context) error {
	names, err := s.Names(ctx)
	if err != nil {
		return err
	}
	err = s.eachRegion(ctx, names, func(ctx context.Context, a admin, r hrpc.RegionInfo) error { return a.flush(ctx, r) })
	if err != nil {
		return err
	}
	if err := s.eachServer(ctx, names, func(ctx context.Context, a admin) error { return a.rollLog(ctx) }); err != nil {
		return err
	}
	err = s.eachRegion(ctx, names, func(ctx context.Context, a admin, r hrpc.RegionInfo) error { return a.compact(ctx, r) })
	if err != nil {
		return err
	}
	return s.eachRegion(ctx, names, func(ctx context.Context, a admin, r hrpc.RegionInfo) error { return a.compacted(ctx, r) })
}

// A place is a region and the server that serves it.
type place struct {
	region hrpc.RegionInfo
	server string
}

var metaTable = []byte("hbase:meta")

// places lists the regions of a table.
func (s *Store) places(ctx context.Context, name string) ([]place, error) {
	full := s.target.table(name)
	// The row keys of hbase:meta are table,first key,id, sorted by these parts. A table's
	// name alone sorts before the row keys of all its regions.
	all, err := s.placesIn(ctx, full, full+".")
	return slices.DeleteFunc(all, func(p place) bool { return string(p.region.Table()) != full }), err
}

// placesIn lists the regions in a range of rows of hbase:meta.
func (s *Store) placesIn(ctx context.Context, from, to string) (all []place, err error) {
	err = s.conn.do(ctx, "look up regions in", metaTable, func(ctx context.Context, cl *client) error {
		all = nil
		scan, err := hrpc.NewScanRange(ctx, metaTable, []byte(from), []byte(to), allTime, hrpc.Families(map[string][]string{"info": nil}))
		if err != nil {
			return err
		}
		for rows := cl.Scan(scan); ; {
			row, err := rows.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			r, server, err := region.ParseRegionInfo(row)
			var split region.OfflineRegionError
			if errors.As(err, &split) {
				continue
			}
			if err != nil {
				return err
			}
			all = append(all, place{r, server})
		}
	})
	return all, err
}

// moveTries is the number of times that regions are looked up again after an error,
// because they may have moved.
const moveTries = 5

// regionsAtOnce is the number of regions of a server that eachRegion works on at the same
// time.
const regionsAtOnce = 8

// eachRegion calls the function do for each region of the named tables, for several regions at
// a time. After an error, it looks up the regions again and calls the function for those
// regions for which the function has not succeeded yet. It returns the error after moveTries
// further attempts, or if ctx has ended.
func (s *Store) eachRegion(ctx context.Context, names []string, do func(context.Context, admin, hrpc.RegionInfo) error) error {
	var done sync.Map // the keys are names of regions
	for try := 0; ; try++ {
		err := s.eachServerPlaces(ctx, names, func(ctx context.Context, a admin, ps []place) error {
			g, ctx := errgroup.WithContext(ctx)
			g.SetLimit(regionsAtOnce)
			for _, p := range ps {
				name := string(p.region.Name())
				if _, ok := done.Load(name); ok {
					continue
				}
				g.Go(func() error {
					err := do(ctx, a, p.region)
					if err == nil {
						done.Store(name, true)
					}
					return err
				})
			}
			return g.Wait()
		})
		if err == nil || try == moveTries || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second << try / 4):
		}
	}
}

// eachServer calls the function do for each server that serves regions of the named tables.
func (s *Store) eachServer(ctx context.Context, names []string, do func(context.Context, admin) error) error {
	return s.eachServerPlaces(ctx, names, func(ctx context.Context, a admin, _ []place) error { return do(ctx, a) })
}

func (s *Store) eachServerPlaces(ctx context.Context, names []string, do func(context.Context, admin, []place) error) error {
	servers := map[string][]place{}
	for _, name := range names {
		all, err := s.places(ctx, name)
		if err != nil {
			return err
		}
		for _, p := range all {
			servers[p.server] = append(servers[p.server], p)
		}
	}
	for server, ps := range servers {
		a, err := s.admin(ctx, server)
		if err == nil {
			err = do(ctx, a, ps)
			a.line.Close()
		}
		if err != nil {
			return fmt.Errorf("hbase: region server %s: %w", server, err)
		}
	}
	return nil
}

// An admin is a connection to a region server's AdminService.
type admin struct{ *service }

// The time limit for calls of the AdminService is flushPatience times the limit for other
// calls, because calls of the AdminService flush memory.
const flushPatience = 12

func (s *Store) admin(ctx context.Context, server string) (admin, error) {
	v, err := s.conn.service(ctx, server, "AdminService", flushPatience*s.conn.timeout)
	if err != nil {
		err = fmt.Errorf("%w: %w", table.ErrUnavailable, err)
	}
	return admin{v}, err
}

func named(r hrpc.RegionInfo) *pb.RegionSpecifier {
	return &pb.RegionSpecifier{Type: pb.RegionSpecifier_REGION_NAME.Enum(), Value: bytes.Clone(r.Name())}
}

// flush flushes a region's memory. gohbase does not have the messages for this call. A
// CompactRegionRequest that contains only the region is encoded like a
// FlushRegionRequest, and the answer is not needed.
func (a admin) flush(ctx context.Context, r hrpc.RegionInfo) error {
	_, err := a.call(ctx, "FlushRegion", &pb.CompactRegionRequest{Region: named(r)}, &pb.CompactRegionResponse{})
	return err
}

// rollLog makes the server begin a new log. The request is an empty message.
func (a admin) rollLog(ctx context.Context) error {
	_, err := a.call(ctx, "RollWALWriter", &pb.CompactRegionResponse{}, &pb.CompactRegionResponse{})
	return err
}

// compact requests a major compaction of a region.
func (a admin) compact(ctx context.Context, r hrpc.RegionInfo) error {
	_, err := a.call(ctx, "CompactRegion", &pb.CompactRegionRequest{Region: named(r), Major: proto.Bool(true)}, &pb.CompactRegionResponse{})
	return err
}

const (
	compactionLook  = 100 * time.Millisecond
	compactionQuiet = 5 // number of consecutive checks that must find no compaction
)

// compacted waits until no compaction of a region is running.
func (a admin) compacted(ctx context.Context, r hrpc.RegionInfo) error {
	for quiet := 0; quiet < compactionQuiet; {
		m, err := a.call(ctx, "GetRegionInfo", &pb.GetRegionInfoRequest{Region: named(r), CompactionState: proto.Bool(true)}, &pb.GetRegionInfoResponse{})
		if err != nil {
			return err
		}
		info, ok := m.(*pb.GetRegionInfoResponse)
		if !ok {
			return fmt.Errorf("GetRegionInfo: the answer is a %T", m)
		}
		if quiet++; info.GetCompactionState() != pb.GetRegionInfoResponse_NONE {
			quiet = 0
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(compactionLook):
		}
	}
	return nil
}
