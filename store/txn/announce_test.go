package txn

import (
	"context"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// TestServers checks that a server is listed while it holds a slot, and that its
// information is removed if it holds no slot and started long ago.
func TestServers(t *testing.T) {
	embedded, err := lsm.Open(lsm.Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer embedded.Close()
	for name, s := range map[string]table.Store{"shared": tabletest.NewMem(), "embedded": embedded} {
		t.Run(name, func(t *testing.T) { testServers(t, s) })
	}
}

func testServers(t *testing.T, s table.Store) {
	ctx, now := context.Background(), time.Now().UTC()
	open := func(owner string) *DB {
		db, err := Open(ctx, s, Options{Owner: owner})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	want := func(db *DB, url string) {
		t.Helper()
		all, err := db.Servers(ctx)
		if err != nil || len(all) != 1 || all[db.Owner()].Status != url {
			t.Errorf("%v, %v", all, err)
		}
	}
	gone := open("gone")
	if err := gone.Announce(ctx, Server{Status: "http://gone:1", Since: now.Add(-48 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	want(gone, "http://gone:1")
	if err := gone.Close(ctx); err != nil {
		t.Fatal(err)
	}
	db := open("here")
	defer db.Close(ctx)
	if err := db.Announce(ctx, Server{Status: "http://here:1", Since: now}); err != nil {
		t.Fatal(err)
	}
	want(db, "http://here:1")
	if all, _, err := publishedBy(ctx, journal.New(db.Store())); err != nil || len(all) != 1 {
		t.Errorf("%v is written down, %v", all, err)
	}
	if err := db.Withdraw(ctx); err != nil {
		t.Fatal(err)
	}
	if all, err := db.Servers(ctx); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}
