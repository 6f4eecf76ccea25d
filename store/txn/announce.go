package txn

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
)

// A Server is what a server of a store publishes about itself when it starts.
type Server struct {
	Version string    `json:"version"`
	Status  string    `json:"status"` // URL of the server's status listener; "": none
	Since   time.Time `json:"since"`
}

// forgotten is the age from which the information about a server without a slot is
// removed. The age is the time since that server started.
const forgotten = 24 * time.Hour

// Announce publishes the information about this server. It also removes the information
// about each server that holds no slot and started more than a day before this server.
func (db *DB) Announce(ctx context.Context, s Server) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	log := journal.New(db.Store())
	all, alive, err := publishedBy(ctx, log)
	if err != nil {
		return err
	}
	for owner, other := range all {
		if !alive[owner] && s.Since.Sub(other.Since) > forgotten {
			if err := log.SetServer(ctx, owner, nil); err != nil {
				return err
			}
		}
	}
	return log.SetServer(ctx, db.Owner(), text)
}

// Withdraw removes the information about this server.
func (db *DB) Withdraw(ctx context.Context) error {
	return journal.New(db.Store()).SetServer(ctx, db.Owner(), nil)
}

// Servers returns what the servers that hold a slot of the store have published. The key
// is the server's name, which its slot contains as the owner.
func (db *DB) Servers(ctx context.Context) (map[string]Server, error) {
	all, alive, err := publishedBy(ctx, journal.New(db.Store()))
	for owner := range all {
		if !alive[owner] {
			delete(all, owner)
		}
	}
	return all, err
}

// publishedBy returns what all servers have published, by server name, and the names of the
// servers that hold a slot.
func publishedBy(ctx context.Context, log *journal.Log) (all map[string]Server, alive map[string]bool, err error) {
	texts, err := log.Servers(ctx)
	if err != nil {
		return nil, nil, err
	}
	h, err := log.Heads(ctx)
	if err != nil {
		return nil, nil, err
	}
	alive = map[string]bool{}
	for _, number := range h.Slots() {
		alive[h.Cell(number).Owner] = true
	}
	all = map[string]Server{}
	for owner, text := range texts {
		var s Server
		_ = json.Unmarshal(text, &s) // fields that only a newer version has are ignored
		all[owner] = s
	}
	return all, alive, nil
}
