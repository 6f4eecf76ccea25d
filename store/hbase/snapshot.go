package hbase

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A TableSnapshot is an HBase snapshot of one table of a store.
type TableSnapshot struct {
	Name  string // unique in the cluster
	Table string // name of the table in the store
	Taken time.Time
}

// TakeSnapshot takes an HBase snapshot of a table. Other goroutines and servers may write
// to the table during the call. The snapshot contains everything that was written before
// the call.
func (s *Store) TakeSnapshot(ctx context.Context, tableName, name string) error {
	return s.onSnapshot(ctx, "take snapshot", name, tableName, gohbase.AdminClient.CreateSnapshot)
}

// DeleteSnapshot deletes an HBase snapshot. It returns nil if the snapshot does not
// exist.
func (s *Store) DeleteSnapshot(ctx context.Context, name string) error {
	err := s.onSnapshot(ctx, "delete snapshot", name, "", gohbase.AdminClient.DeleteSnapshot)
	if err != nil && isException(err, "SnapshotDoesNotExistException") {
		return nil
	}
	return err
}

func (s *Store) onSnapshot(ctx context.Context, op, name, tableName string, do func(gohbase.AdminClient, *hrpc.Snapshot) error) error {
	return s.master(ctx, op, name, func(ctx context.Context, adm gohbase.AdminClient) error {
		sn, err := hrpc.NewSnapshot(ctx, name, s.target.table(tableName))
		if err != nil {
			return err
		}
		return do(adm, sn)
	})
}

// Snapshots lists the HBase snapshots of the store's tables.
func (s *Store) Snapshots(ctx context.Context) (all []TableSnapshot, err error) {
	err = s.master(ctx, "list snapshots", "", func(ctx context.Context, adm gohbase.AdminClient) error {
		found, err := adm.ListSnapshots(hrpc.NewListSnapshots(ctx))
		for _, d := range found {
			if name, ok := strings.CutPrefix(d.GetTable(), s.target.table("")); ok {
				all = append(all, TableSnapshot{d.GetName(), name, time.UnixMilli(d.GetCreationTime())})
			}
		}
		return err
	})
	slices.SortFunc(all, func(a, b TableSnapshot) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// Clone makes a new table from an HBase snapshot. The table shares the snapshot's files.
func (s *Store) Clone(ctx context.Context, snapshot, tableName string) error {
	return s.master(ctx, "clone snapshot", snapshot, func(ctx context.Context, adm gohbase.AdminClient) error {
		raw, ok := adm.(gohbase.RPCClient)
		if !ok {
			return errors.New("this gohbase has no raw calls")
		}
		sn, err := hrpc.NewSnapshot(ctx, snapshot, s.target.table(tableName))
		if err != nil {
			return err
		}
		// This call restores a snapshot if the table exists, and clones it if the table
		// does not exist.
		m, err := raw.SendRPC(hrpc.NewRestoreSnapshot(sn))
		if err != nil {
			return err
		}
		return awaitProcedure(ctx, raw, procedureOf(m))
	})
}

// procedureOf returns the id of the procedure that executes a RestoreSnapshot. It returns
// 0 if the answer contains no id. The id is field 1 of the answer. gohbase's message
// lacks this field.
func procedureOf(answer proto.Message) uint64 {
	b := answer.ProtoReflect().GetUnknown()
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0
		}
		b = b[n:]
		if field == 1 && kind == protowire.VarintType {
			id, _ := protowire.ConsumeVarint(b)
			return id
		}
		if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
			return 0
		}
		b = b[n:]
	}
	return 0
}

func awaitProcedure(ctx context.Context, raw gohbase.RPCClient, id uint64) error {
	for {
		m, err := raw.SendRPC(hrpc.NewGetProcedureState(ctx, id))
		if err != nil {
			return err
		}
		r, ok := m.(*pb.GetProcedureResultResponse)
		if !ok {
			return fmt.Errorf("answer to a GetProcedureState is a %T", m)
		}
		if r.GetState() != pb.GetProcedureResultResponse_RUNNING {
			if e := r.GetException(); e != nil {
				return fmt.Errorf("%s: %s", e.GetGenericException().GetClassName(), e.GetGenericException().GetMessage())
			}
			return nil
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// CutAfter permanently removes everything that revisions after r have written to a
// versioned table, and returns the number of changed rows. Nobody may use the table
// during the call. It does nothing to an unversioned table, whose cells have no
// revisions. The scan is limited to the timestamps after r, so HBase reads only files
// with cells of these timestamps.
func (s *Store) CutAfter(ctx context.Context, tableName string, r table.Revision) (rows int, err error) {
	t := s.table(tableName)
	h, err := t.shape(ctx)
	if err != nil || h.unversioned {
		return 0, err
	}
	for {
		n, err := t.cutPass(ctx, h, r)
		rows += n
		if err != nil || n == 0 {
			return rows, err
		}
	}
}

// cutPass does one scan and removes the cells that the scan finds. A row that is too wide
// for an answer is read by its key.
func (t *Table) cutPass(ctx context.Context, h *shape, r table.Revision) (rows int, err error) {
	sel := &selection{families: map[string][]string{}, after: r, versioned: true}
	for _, f := range h.families {
		sel.families[familyName(f)] = nil
	}
	sc := &scanner{t: t, get: sel, first: sel, plain: sel, depth: allVersions, size: firstPage, left: -1}
	sc.begin(table.Range{})
	for !sc.done {
		page, err := sc.next(ctx)
		if err != nil {
			return rows, err
		}
		var cut []erased
		for _, row := range page {
			if row.partial {
				calls, err := t.read(ctx, []*table.Row{{Key: row.key}}, sel, allVersions, 0)
				if err != nil {
					return rows, err
				}
				row.versions = calls[0].versions
			}
			rs := revisionsOf(row.versions)
			for _, x := range rs {
				if x > math.MaxInt64-1 {
					return rows, fmt.Errorf("hbase: table %s: %w: a cell of revision %d", t.full, table.ErrCorrupt, x)
				}
				cut = append(cut, erased{row.key, x})
			}
			rows += min(len(rs), 1)
		}
		if err := t.erase(ctx, "cut", h, cut); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

func revisionsOf(vs []version) []table.Revision {
	rs := make([]table.Revision, len(vs))
	for i := range vs {
		rs[i] = vs[i].revision
	}
	slices.Sort(rs)
	return slices.Compact(rs)
}
