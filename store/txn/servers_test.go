package txn

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

func TestPrint(t *testing.T) {
	at := func(s revision.Slot, ms int64) table.Revision { return revision.Make(ms, s, 0) }
	head := func(s revision.Slot, ms int64, state revision.State) revision.Cell {
		return revision.Cell{
			State: state, Incarnation: 2, Lease: 7, First: at(s, 1), Head: at(s, ms), Limit: at(s, 90_000),
			Oldest: at(s, 500), Config: at(1, 400), Owner: "host/" + state.String(),
		}
	}
	lags := head(2, 60_000, revision.Open)
	lags.Config, lags.Owner = at(1, 300), "host/lags"
	silent := head(3, 1_000, revision.Open)
	silent.Owner = "host/silent"
	embedded := head(4, 1_000, revision.Open)
	embedded.Limit, embedded.Owner = 0, "host/embedded" // a single process has no leases
	recovering := head(5, 1_000, revision.Recovering)
	recovering.Config = at(1, 9_000) // this configuration is not in force on any server
	closed := head(6, 1_000, revision.Closed)
	closed.Late, closed.Void, closed.Undecided = []table.Revision{at(6, 1_100)}, []table.Revision{at(6, 700), at(6, 800)}, []table.Revision{at(6, 900)}
	h := &journal.Heads{Horizon: at(0, 200), Vector: revision.NewVector(map[revision.Slot]revision.Cell{
		1: head(1, 60_500, revision.Open), 2: lags, 3: silent, 4: embedded, 5: recovering, 6: closed,
		7: {State: revision.Free, Incarnation: 1},
	}, nil)}
	var b strings.Builder
	if err := describeHeads(h, table.Epoch.Add(61*time.Second), 10*time.Second).Print(&b); err != nil {
		t.Fatal(err)
	}
	want := `newest rec54-0-1, settled up to r2bc-ff-5; the past can be read from 2013-01-01T00:00:00Z on
SLOT  STATE       INCARNATION  OWNER            HEAD       AGE    LEASES  UNDECIDED  VOID  LATE  OLDEST READ  CONFIG     NOTE
1     open        2            host/open        rec54-0-1  500ms  7       0          0     0     r1f4-0-1     r190-0-1   -
2     open        2            host/lags        rea60-0-2  1s     7       0          0     0     r1f4-0-2     r12c-0-1   has not taken up the newest configuration
3     open        2            host/silent      r3e8-0-3   1m0s   7       0          0     0     r1f4-0-3     r190-0-1   silent: to be recovered
4     open        2            host/embedded    r3e8-0-4   1m0s   7       0          0     0     r1f4-0-4     r190-0-1   -
5     recovering  2            host/recovering  r3e8-0-5   1m0s   7       0          0     0     r1f4-0-5     r2328-0-1  silent: another server decides what it left
6     closed      2            host/closed      r3e8-0-6   1m0s   7       1          2     1     r1f4-0-6     r190-0-1   over: another server cleans up what it left
7     free        1            -                -          -      0       0          0     0     -            -          -
`
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
}

// TestRead checks that what servers publish can be read while they run and after they
// have ended.
func TestRead(t *testing.T) {
	ctx := context.Background()
	s := tabletest.NewMem()
	var dbs []*DB
	for _, owner := range []string{"one", "two"} {
		db, err := Open(ctx, s, Options{Owner: owner})
		if err != nil {
			t.Fatal(err)
		}
		dbs = append(dbs, db)
	}
	states := func() (owners, states []string) {
		c, err := dbs[0].ReadCluster(ctx, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range c.Slots {
			owners, states = append(owners, x.Owner), append(states, x.State)
			if x.Note != "" {
				t.Errorf("slot %d: %s", x.Number, x.Note)
			}
		}
		return owners, states
	}
	owners, now := states()
	if strings.Join(owners, " ") != "one two" || strings.Join(now, " ") != "open open" {
		t.Errorf("%s are %s", owners, now)
	}
	for _, db := range dbs {
		if err := db.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	db, err := Open(ctx, s, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(ctx)
	dbs = []*DB{db}
	if _, now := states(); strings.Join(now, " ") != "free free" {
		t.Errorf("closed ones are %s", now)
	}
}

// TestReadEmbedded checks that the head of an embedded store's server is its last commit,
// and that the head of a branch is not.
func TestReadEmbedded(t *testing.T) {
	ctx := context.Background()
	db, err := Open(ctx, tabletest.NewBatchMem(), Options{Owner: "me"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(ctx)
	commit := func() (newest string, c *Cluster) {
		t.Helper()
		r, err := db.Update(ctx, func(tx *Tx) error {
			tx.SetMessage([]byte("x"))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if c, err = db.ReadCluster(ctx, time.Now()); err != nil {
			t.Fatal(err)
		}
		return r.String(), c
	}
	for range 2 {
		want, c := commit()
		if c.Newest != want || c.Low != want || len(c.Slots) != 1 || c.Slots[0].Head != want || c.Slots[0].Owner != "me" {
			t.Errorf("after %s: %+v", want, c)
		}
	}
	if _, err := db.CreateBranch(ctx, "staging"); err != nil {
		t.Fatal(err)
	}
	newest, c := commit()
	if len(c.Slots) != 2 || c.Slots[0].Head != newest || c.Slots[1].Head == newest {
		t.Errorf("beside a branch, after %s: %+v", newest, c.Slots)
	}
}
