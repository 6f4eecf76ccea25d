package people

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/remote"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// twoServers returns the partitions of two servers of one store, and a function that does a task at
// one of them.
func twoServers(t *testing.T) func(server int, task *task) (string, error) {
	t.Helper()
	s := tabletest.NewMem()
	var ps [2]*partition.Partition
	for i := range ps {
		p, err := partition.Open(t.Context(), s, partition.Options{Create: true, Schema: schema.Core(),
			Txn: txn.Options{Lease: 10 * time.Second, Poll: 5 * time.Millisecond, InFlight: 50 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close(context.Background()) })
		if err := onlineschema.SetSuffixes(t.Context(), p, []string{"dc=example,dc=com"}); err != nil {
			t.Fatal(err)
		}
		ps[i] = p
	}
	c, _ := config.Check(config.Sources{})
	do := func(server int, task *task) (string, error) {
		conn, stop, err := remote.Connect(t.Context(), ps[server], "cn=admin", nil)
		if err != nil {
			return "", err
		}
		defer stop()
		if task.Verb == "" { // the entry of the naming context
			r := ldap.NewAddRequest("dc=example,dc=com", nil)
			r.Attribute("objectClass", []string{"domain"})
			return "", conn.Add(r)
		}
		task.People = c.People
		var out strings.Builder
		err = task.do(t.Context(), conn, &out, io.Discard)
		return out.String(), err
	}
	if _, err := do(0, &task{}); err != nil {
		t.Fatal(err)
	}
	if err := ps[1].CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return do
}

// TestNumbersAtOnce checks that no number is given out twice by two servers, to users who are added
// and deleted at the same time, nor the number of an entry that another client has added.
func TestNumbersAtOnce(t *testing.T) {
	do := twoServers(t)
	if _, err := do(0, &task{Verb: "user add", Names: []string{"own"}, Posix: true, Set: []string{"uidNumber=10003"}}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	owner := map[string]string{"10003": "own"}
	var g errgroup.Group
	for worker := range 6 {
		g.Go(func() error {
			for round := range 5 {
				name := []string{fmt.Sprintf("u%d-%d", worker, round)}
				for _, verb := range []string{"user add", "user show", "user delete"} {
					out, err := do(worker%2, &task{Verb: verb, Names: name, Posix: true, Format: "csv"})
					if err != nil {
						return fmt.Errorf("%s %s: %w", verb, name, err)
					}
					for line := range strings.Lines(out) {
						number, ok := strings.CutPrefix(strings.TrimSpace(line), "uidNumber,")
						if !ok {
							continue
						}
						mu.Lock()
						if owner[number] != "" {
							t.Errorf("%s was given to %s and to %s", number, owner[number], name)
						}
						owner[number] = name[0]
						mu.Unlock()
					}
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(owner) != 31 {
		t.Errorf("%d numbers", len(owner))
	}
}

// TestOneOfTwoWins checks what happens if two servers add a user with one name at the same time. In
// the first round they also add the source of numbers and ou=people.
func TestOneOfTwoWins(t *testing.T) {
	do := twoServers(t)
	for round := range 5 {
		name := fmt.Sprintf("ann%d", round)
		var errs [2]error
		var g errgroup.Group
		for i := range errs {
			g.Go(func() error {
				_, errs[i] = do(i, &task{Verb: "user add", Names: []string{name}, Posix: true})
				return nil
			})
		}
		_ = g.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("%v, %v", errs[0], errs[1])
		}
		for _, err := range errs {
			if err != nil && !strings.Contains(err.Error(), "exists already") {
				t.Error(err)
			}
		}
	}
}
