// Package snapshots makes backups of a store in HBase while servers write to it.
//
// A backup consists of a checkpoint and of an HBase snapshot of each table, except tables that
// servers can derive from the others. The snapshots are not taken at the same moment. No commit
// at or before the checkpoint's revision S can change any more, so all snapshots together
// contain each of these commits completely. Commits after S may be in some snapshots and
// missing in others. A restore clones the snapshots to tables with another prefix and removes
// all commits after S.
//
// The order of the tables matters. A commit writes its record in the journal before its cells.
// So the snapshot of the journal is taken after the snapshots of the tables with cells. The
// head is written in the table cluster after the record, so the snapshot of cluster is taken
// last. A backup is complete if it has the snapshot of cluster. While a store is cloned or cut,
// it has a table with the name incomplete, so that servers do not open what an interrupted
// command left behind.
package snapshots

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// parallel is the number of tables on which Take, Restore, Cut and Delete work at the same
// time.
const parallel = 4

// A Backup is a set of HBase snapshots, one of each table of a store except the tables that
// Take leaves out.
type Backup struct {
	Name     string
	Revision table.Revision // of the checkpoint
	Taken    time.Time
	Tables   []string
	Complete bool // Take has finished: there is a snapshot of the table cluster

	done map[string]time.Duration // time from the checkpoint to the table's snapshot, by table
}

// Late returns the time from the checkpoint until Take had taken the snapshot of a table.
func (b *Backup) Late(tableName string) time.Duration { return b.done[tableName] }

// nameForm is the form of names of backups: the form of names of checkpoints, but without
// dots.
var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// CheckName returns an error if the name is not valid for a backup.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%q is not a name for a backup: a letter followed by up to 63 letters, digits, '_' and '-'", name)
	}
	return nil
}

// snapshotName returns the name of a table's snapshot: backup, revision, full table name.
func snapshotName(b *Backup, s *hbase.Store, tableName string) string {
	return fmt.Sprintf("%s.%016x.%s", b.Name, uint64(b.Revision), s.FullName(tableName))
}

func parseName(s *hbase.Store, x *hbase.TableSnapshot) (b Backup, ok bool) {
	head, ok := strings.CutSuffix(x.Name, "."+s.FullName(x.Table))
	name, number, found := strings.Cut(head, ".")
	r, err := strconv.ParseUint(number, 16, 63)
	return Backup{Name: name, Revision: table.Revision(r), Taken: x.Taken, Tables: []string{x.Table}}, ok && found && err == nil && CheckName(name) == nil
}

// Take takes snapshots of the tables of a store that has the checkpoint c. The backup gets the
// name and the revision of c. It leaves out the tables for which derived returns true, because
// servers make these tables again. Take begins with the tables in the list first. If a step
// fails, Take deletes the snapshots that it has taken, and the checkpoint.
func Take(ctx context.Context, s *hbase.Store, c journal.Checkpoint, derived func(string) bool, first ...string) (_ *Backup, err error) {
	b := &Backup{Name: c.Name, Revision: c.Revision, Taken: time.Now(), Complete: true}
	if err := CheckName(b.Name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("backup %s: %w", b.Name, err), Delete(context.WithoutCancel(ctx), s, b))
		}
	}()
	if b.Tables, err = s.Names(ctx); err != nil {
		return nil, err
	}
	b.Tables = slices.DeleteFunc(b.Tables, derived)
	if err := journal.Settle(ctx, journal.New(s), c.Revision); err != nil {
		return nil, err
	}
	b.done = map[string]time.Duration{}
	var mu sync.Mutex
	for _, group := range inOrder(b.Tables, first) {
		if err := each(ctx, group, func(ctx context.Context, t string) error {
			err := s.TakeSnapshot(ctx, t, snapshotName(b, s, t))
			mu.Lock()
			defer mu.Unlock()
			b.done[t] = time.Since(c.Made)
			return err
		}); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// inOrder divides tables into groups. Each group is finished before the next group is
// begun.
func inOrder(tables, first []string) [][]string {
	groups := make([][]string, 4)
	for _, t := range tables {
		switch {
		case t == journal.Cluster:
			groups[3] = append(groups[3], t)
		case t == journal.Table:
			groups[2] = append(groups[2], t)
		case slices.Contains(first, t):
			groups[0] = append(groups[0], t)
		default:
			groups[1] = append(groups[1], t)
		}
	}
	return groups
}

func each(ctx context.Context, tables []string, do func(context.Context, string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, t := range tables {
		g.Go(func() error { return do(ctx, t) })
	}
	return g.Wait()
}

// List lists the backups of a store, oldest first.
func List(ctx context.Context, s *hbase.Store) ([]Backup, error) {
	all, err := s.Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	var found []Backup
	for i := range all {
		b, ok := parseName(s, &all[i])
		if !ok {
			continue
		}
		k := slices.IndexFunc(found, func(x Backup) bool { return x.Name == b.Name && x.Revision == b.Revision })
		if k < 0 {
			found, k = append(found, Backup{Name: b.Name, Revision: b.Revision, Taken: b.Taken}), len(found)
		}
		found[k].Tables = append(found[k].Tables, b.Tables...)
		found[k].Complete = found[k].Complete || b.Tables[0] == journal.Cluster
		if b.Taken.Before(found[k].Taken) {
			found[k].Taken = b.Taken
		}
	}
	slices.SortFunc(found, func(a, b Backup) int { return a.Revision.Compare(b.Revision) })
	return found, nil
}

// Find returns the backup with the given name.
func Find(ctx context.Context, s *hbase.Store, name string) (*Backup, error) {
	all, err := List(ctx, s)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("%s has no backup %q", s, name)
}

// Delete deletes the snapshots of a backup and, if the store still exists, its checkpoint.
func Delete(ctx context.Context, s *hbase.Store, b *Backup) error {
	groups := inOrder(b.Tables, nil)
	slices.Reverse(groups) // the snapshot of cluster is deleted first: without it the backup is incomplete
	for _, group := range groups {
		if err := each(ctx, group, func(ctx context.Context, t string) error {
			return s.DeleteSnapshot(ctx, snapshotName(b, s, t))
		}); err != nil {
			return fmt.Errorf("backup %s: %w", b.Name, err)
		}
	}
	return deleteCheckpoint(ctx, s, b)
}

func deleteCheckpoint(ctx context.Context, s *hbase.Store, b *Backup) error {
	names, err := s.Names(ctx)
	if err != nil || !slices.Contains(names, journal.Cluster) {
		return err
	}
	log := journal.New(s)
	c, err := log.FindCheckpoint(ctx, b.Name)
	if err == nil && c != nil && c.Revision == b.Revision {
		_, err = log.DropCheckpoint(ctx, *c, time.Now())
	}
	return err
}

// Restore makes a new store from the backup b. The parameter from is the store that was backed
// up. The parameter to is the new store, which must not exist yet, except for tables that an
// interrupted Restore of b has left. The new store ends at the backup's checkpoint.
func Restore(ctx context.Context, from, to *hbase.Store, b *Backup) error {
	if !b.Complete {
		return fmt.Errorf("backup %s is not complete: its tables are %s, without %s", b.Name, strings.Join(b.Tables, ", "), journal.Cluster)
	}
	if err := makeRoom(ctx, to, b); err != nil {
		return err
	}
	if err := to.Create(ctx, journal.IncompleteSpec); err != nil {
		return err
	}
	for _, group := range inOrder(b.Tables, nil) {
		err := each(ctx, group, func(ctx context.Context, t string) error {
			if err := to.Clone(ctx, snapshotName(b, from, t), t); err != nil {
				return err
			}
			return cutTable(ctx, to, t, b.Revision)
		})
		if err != nil {
			return fmt.Errorf("cloning backup %s: %w", b.Name, err)
		}
	}
	if err := journal.New(to).Cut(ctx, b.Revision, true); err != nil {
		return err
	}
	return to.Drop(ctx, journal.Incomplete)
}

// makeRoom removes the tables that an interrupted Restore of b has left. It returns an error if
// the store has any other tables.
func makeRoom(ctx context.Context, to *hbase.Store, b *Backup) error {
	have, err := to.Names(ctx)
	if err != nil || len(have) == 0 {
		return err
	}
	if !slices.Contains(have, journal.Incomplete) {
		return fmt.Errorf("there are tables of this prefix already, %s and others: clone to another prefix", to.FullName(have[0]))
	}
	for _, t := range have {
		if t != journal.Incomplete && !slices.Contains(b.Tables, t) {
			return fmt.Errorf("there is a table %s, which the backup does not have: clone to another prefix", to.FullName(t))
		}
	}
	return journal.DropIncomplete(ctx, to, have)
}

func cutTable(ctx context.Context, s *hbase.Store, t string, r table.Revision) error {
	if t == journal.Cluster || t == journal.Table {
		return nil // journal.Log.Cut cuts these tables
	}
	_, err := s.CutAfter(ctx, t, r)
	return err
}

// Cut removes from a store all commits after one of its checkpoints. The removed commits cannot
// be restored. Cut is for stores that were cloned by hand. It returns an error if a server
// writes to the store during a wait of the length lease. Cut discards the branches, because it
// cannot know whether their commits are in the copies of all tables. Cut drops the tables for
// which derived returns true, because servers make these tables again.
func Cut(ctx context.Context, s *hbase.Store, name string, lease time.Duration, derived func(string) bool) (*journal.Checkpoint, error) {
	names, err := s.Names(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, journal.Cluster) || !slices.Contains(names, journal.Table) {
		return nil, fmt.Errorf("there is no store %s", s)
	}
	log := journal.New(s)
	c, err := log.FindCheckpoint(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return nil, fmt.Errorf("the store has no checkpoint %q", name)
	}
	if err := silent(ctx, log, lease); err != nil {
		return nil, err
	}
	if err := s.Create(ctx, journal.IncompleteSpec); err != nil {
		return nil, err
	}
	cut := func(ctx context.Context, t string) error {
		if derived(t) {
			return s.Drop(ctx, t)
		}
		return cutTable(ctx, s, t, c.Revision)
	}
	for _, group := range inOrder(names, nil) {
		if err := each(ctx, group, cut); err != nil {
			return nil, fmt.Errorf("cutting %s: %w", s, err)
		}
	}
	if err := log.Cut(ctx, c.Revision, false); err != nil {
		return nil, err
	}
	return c, s.Drop(ctx, journal.Incomplete)
}

// silent waits for the duration lease. It returns an error if any server changes its cell of
// the heads during that time.
func silent(ctx context.Context, log *journal.Log, lease time.Duration) error {
	before, err := log.Heads(ctx)
	if err != nil {
		return err
	}
	if err := pause.For(ctx, lease); err != nil {
		return err
	}
	now, err := log.Heads(ctx)
	if err == nil && !now.Same(before) {
		err = errors.New("servers write to this store: cut only a copy that nobody uses")
	}
	return err
}
