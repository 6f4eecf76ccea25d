package partition_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// quick are options for servers of one store that notice each other's commits quickly.
var quick = txn.Options{Lease: 10 * time.Second, Poll: 5 * time.Millisecond, InFlight: 50 * time.Millisecond}

// openShared opens a store that is atomic only per row, as one of several servers.
func openShared(t testing.TB, s table.Store, o txn.Options) *partition.Partition {
	t.Helper()
	p, err := partition.Open(context.Background(), s, partition.Options{Format: *storeFormat, Create: true, Schema: tagged, Cache: 1 << 20, Txn: o,
		Indexes: []catalog.Index{{Attribute: "objectClass", Layout: catalog.RowLayout}}})
	must(t, err)
	t.Cleanup(func() { p.Close(context.Background()) })
	return p
}

// servers opens a store n times, as n servers would. The first server creates the
// directory.
func servers(t testing.TB, s table.Store, n int) []*partition.Partition {
	t.Helper()
	return serversWith(t, s, n, quick)
}

func serversWith(t testing.TB, s table.Store, n int, o txn.Options) (ps []*partition.Partition) {
	t.Helper()
	first := openShared(t, s, o)
	must(t, onlineschema.SetSuffixes(context.Background(), first, []string{"dc=example,dc=com"}))
	must(t, add(t, first, "dc=example,dc=com", "objectClass: dcObject", "objectClass: organization", "o: Example", "dc: example"))
	must(t, changeSchema(t, first, "add objectClasses "+building, "add attributeTypes "+floors, "add attributeTypes "+drawing))
	for ps = append(ps, first); len(ps) < n; {
		ps = append(ps, openShared(t, s, o))
	}
	return ps
}

const (
	floorless   = "cn"
	withFloors  = "( cn $ floors )"
	houseDN     = "cn=%d,dc=example,dc=com"
	buildingOID = "2.25.1.2"
)

// require changes the MUST attributes of the class building.
func require(t testing.TB, p *partition.Partition, must string) error {
	t.Helper()
	return requireIn(context.Background(), p, must)
}

func requireIn(ctx context.Context, p *partition.Partition, must string) error {
	return changeSchemaIn(ctx, p, "delete objectClasses "+buildingOID,
		"add objectClasses ( "+buildingOID+" NAME 'building' SUP top STRUCTURAL MUST "+must+" MAY ( floors $ floorPlan ) )")
}

func isBusy(err error) bool {
	var e *partition.Error
	return errors.As(err, &e) && e.Problem == partition.Busy
}

// builders are goroutines, one for each server, that change the directory until their context
// ends. They add buildings with and without floors, delete buildings, and set and remove floors.
type builders struct {
	fine  atomic.Bool // pauses the additions of buildings without floors, and the removals of floors
	next  atomic.Int64
	done  atomic.Int64
	tries errgroup.Group
}

func (b *builders) start(ctx context.Context, ps []*partition.Partition) {
	for _, p := range ps {
		b.tries.Go(func() error {
			for ctx.Err() == nil {
				if err := b.step(p); !passing(err) {
					return err
				}
			}
			return nil
		})
	}
}

// passing reports whether err is nil or an error that a client of several servers may
// receive.
func passing(err error) bool {
	var e *partition.Error
	return err == nil || errors.As(err, &e) || errors.Is(err, txn.ErrConflict) || errors.Is(err, table.ErrUnavailable) || errors.Is(err, txn.ErrUnknown)
}

func (b *builders) step(p *partition.Partition) error {
	ctx := context.Background()
	i := b.next.Add(1)
	n := i * 7 % 31
	change := []func(*partition.Tx) error{
		adding(fmt.Sprintf(houseDN, n), "objectClass: building", "cn: x"),
		adding(fmt.Sprintf(houseDN, n), "objectClass: building", "floors: 1"),
		modifying(fmt.Sprintf(houseDN, n), op.ModDelete, "floors"),
		modifying(fmt.Sprintf(houseDN, n), op.ModReplace, "floors: 2"),
		func(tx *partition.Tx) error { return tx.Delete(ctx, name(fmt.Sprintf(houseDN, n))) },
	}
	kind := i % int64(len(change))
	if b.fine.Load() && (kind == 0 || kind == 2) {
		kind++
	}
	_, err := write.Update(ctx, p, partition.By{Name: "cn=admin"}, change[kind])
	if err == nil {
		b.done.Add(1)
	}
	return err
}

// TestSchemaSteps makes the schema of a directory stricter and less strict while three
// servers write. At no revision may an entry violate the schema in force.
func TestSchemaSteps(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ps := servers(t, tabletest.NewMem(), 3)
	var b builders
	b.start(ctx, ps)
	tightened := 0
	for i := 0; i < 30 && tightened < 2; i++ {
		before := b.done.Load()
		if i%2 == 0 {
			b.fine.Store(false)
		}
		err := require(t, ps[i%len(ps)], withFloors)
		switch {
		case err == nil:
			tightened++
			b.fine.Store(false)
			eventually(t, "the servers go on", func() bool { return b.done.Load() > before+10 })
			must(t, require(t, ps[(i+1)%len(ps)], floorless))
		case isBusy(err):
		case !strings.Contains(err.Error(), "requires attribute floors"):
			t.Fatal(err)
		default:
			b.fine.Store(true)
			mend(t, ps[0])
		}
	}
	cancel()
	must(t, b.tries.Wait())
	if tightened == 0 {
		t.Error("it was never tightened")
	}
	checkHistory(t, ps[0])
	verifyClean(t, ps[0])
}

// mend deletes the buildings without floors.
func mend(t *testing.T, p *partition.Partition) {
	t.Helper()
	for _, dn := range searched(t, p, "dc=example,dc=com", op.WholeSubtree, "(&(objectClass=building)(!(floors=*)))") {
		err := update(t, p, func(tx *partition.Tx) error { return tx.Delete(context.Background(), name(dn)) })
		if !passing(err) {
			t.Fatal(err)
		}
	}
}

// checkHistory checks for every commit that no entry that the commit touched violates the
// schema in force at that commit.
func checkHistory(t *testing.T, p *partition.Partition) {
	t.Helper()
	ctx := context.Background()
	now := state.Newest(p)
	defer now.Close()
	commits, strict := 0, 0
	for c, err := range changestream.Shown(ctx, now, nil) {
		must(t, err)
		var s *partition.Snapshot
		eventually(t, "what is below a commit is decided", func() bool {
			s, err = state.At(ctx, p, c.Revision)
			return err == nil
		})
		k := s.Schema()
		floors := k.Attribute("floors")
		class := k.Class("building")
		if class == nil || !slices.Contains(class.Must, floors) {
			s.Close()
			continue
		}
		strict++
		for _, id := range c.IDs {
			commits++
			e, err := s.Entry(ctx, id, false)
			must(t, err)
			if e == nil || e.ID == catalog.SubschemaID {
				continue
			}
			of := func(v []byte) bool { return string(v) == "building" }
			if slices.ContainsFunc(e.Values(k.Attribute("objectClass")), of) && len(e.Values(floors)) == 0 {
				dn, _ := s.Name(ctx, id)
				t.Errorf("%s has no floors at a revision that requires them", dn)
			}
		}
		s.Close()
	}
	if strict == 0 {
		t.Error("no commit was under the strict schema")
	}
	t.Logf("%d commits under the strict schema", strict)
}

// TestSchemaStepsWait checks that the steps wait for an earlier transaction of another server,
// and that the change then fails because of the entry that this transaction adds.
func TestSchemaStepsWait(t *testing.T) {
	ctx := context.Background()
	ps := servers(t, tabletest.NewMem(), 2)
	began, goOn := make(chan struct{}), make(chan struct{})
	var g errgroup.Group
	g.Go(func() error {
		first := true
		_, err := write.Update(ctx, ps[1], partition.By{}, func(tx *partition.Tx) error {
			if first {
				first = false
				close(began)
				<-goOn
			}
			return adding("cn=late,dc=example,dc=com", "objectClass: building")(tx)
		})
		return err
	})
	<-began
	changed := make(chan error, 1)
	go func() { changed <- require(t, ps[0], withFloors) }()
	// New transactions on every server conform to both schemas.
	for _, p := range ps {
		eventually(t, "the schema to come is kept to", func() bool {
			err := update(t, p, func(tx *partition.Tx) error {
				if err := adding("cn=probe,dc=example,dc=com", "objectClass: building")(tx); err != nil {
					return err
				}
				return keepToBoth(ctx, tx)
			})
			if err == nil {
				must(t, update(t, p, func(tx *partition.Tx) error { return tx.Delete(ctx, name("cn=probe,dc=example,dc=com")) }))
			}
			return isBusy(err) && strings.Contains(err.Error(), "requires attribute floors")
		})
	}
	select {
	case err := <-changed:
		t.Fatalf("it was not waited for: %v", err)
	default:
	}
	must(t, add(t, ps[1], "cn=fine,dc=example,dc=com", "objectClass: building", "floors: 1"))
	close(goOn)
	must(t, g.Wait())
	err := <-changed
	if err == nil || !strings.Contains(err.Error(), "Entry in the way: cn=late,dc=example,dc=com") {
		t.Fatalf("the late entry was not found: %v", err)
	}
	// The change was withdrawn, so buildings without floors are allowed again.
	must(t, add(t, ps[0], "cn=more,dc=example,dc=com", "objectClass: building"))
	must(t, ps[1].CatchUp(ctx))
	must(t, add(t, ps[1], "cn=still,dc=example,dc=com", "objectClass: building"))
}

// TestSchemaStepsBroken changes the schema on a server and ends the server after the first of
// the two commits of the change. Another server must withdraw the announcement by itself.
func TestSchemaStepsBroken(t *testing.T) {
	ctx := context.Background()
	store := tabletest.NewMem()
	ps := servers(t, store, 2)
	dying := openShared(t, store, quick)
	must(t, announce(ctx, dying,
		schemaChange("delete objectClasses "+buildingOID, "add objectClasses ( "+buildingOID+" NAME 'building' SUP top STRUCTURAL MUST ( cn $ floors ) )")))
	must(t, ps[0].CatchUp(ctx))
	if err := add(t, ps[0], "cn=a,dc=example,dc=com", "objectClass: building"); !isBusy(err) {
		t.Errorf("what was announced is not kept to: %v", err)
	}
	if err := require(t, ps[0], withFloors); !isBusy(err) || !strings.Contains(err.Error(), "another change") {
		t.Errorf("beside it: %v", err)
	}
	s := state.Newest(ps[0])
	e, err := state.Subschema(ctx, s)
	must(t, err)
	for _, a := range e.Attributes {
		if a.Type.Name() == "pendingDefinitions" {
			t.Error("what is to come is shown")
		}
	}
	s.Close()
	must(t, dying.Close(ctx))
	eventually(t, "the announcement goes", func() bool {
		return add(t, ps[0], "cn=a,dc=example,dc=com", "objectClass: building") == nil
	})
}

// TestSchemaStepsKilled makes the same change of the schema on many stores, and ends the server
// at the first, third, fifth, ... call of the store. The change must then either be in force or
// have no effect. Another server must not wait forever for the ended server, and the next
// change must succeed.
func TestSchemaStepsKilled(t *testing.T) {
	t.Parallel()
	whole := newKilled(t, 0)
	must(t, whole.err)
	if whole.calls < 20 {
		t.Fatalf("a change makes %d calls", whole.calls)
	}
	var all []*killed // the leases of all ended servers run out at the same time
	for n := 1; n <= whole.calls; n += 2 {
		all = append(all, newKilled(t, n))
	}
	inForce := 0
	for _, k := range all {
		if k.decided(t) {
			inForce++
		}
		k.goesOn(t)
	}
	t.Logf("of %d changes %d were in force", len(all), inForce)
}

// killed is a schema change whose server ended at a call of the store.
type killed struct {
	n     int
	other *partition.Partition // the surviving server
	calls int                  // number of calls made
	err   error                // the result of the change
}

func newKilled(t *testing.T, n int) *killed {
	t.Helper()
	store := tabletest.NewMem()
	o := txn.Options{Lease: 3 * time.Second, Poll: 20 * time.Millisecond, InFlight: 50 * time.Millisecond}
	k := &killed{n: n, other: serversWith(t, store, 1, o)[0]}
	faulty, faults := tabletest.WithFaults(store, uint64(n))
	dying := openShared(t, faulty, o)
	before := faults.Calls()
	faults.CrashAt(n)
	ctx, die := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- requireIn(ctx, dying, withFloors) }()
	eventually(t, "the crash, or the end", func() bool { return faults.Crashed() || len(ended) > 0 })
	die() // otherwise the change could wait for other servers
	k.err, k.calls = <-ended, faults.Calls()-before
	return k
}

// decided waits until the store has decided whether buildings without floors are allowed.
// It reports whether the change is in force.
func (k *killed) decided(t *testing.T) (inForce bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("the change that ended at call %d is decided", k.n), func() bool {
		pending := false
		_, err := write.Update(context.Background(), k.other, partition.By{}, func(tx *partition.Tx) error {
			pending = tx.Catalog.Subschema.Pending != nil
			return adding("cn=probe,dc=example,dc=com", "objectClass: building")(tx)
		})
		var problem *partition.Error
		inForce = errors.As(err, &problem) && problem.Problem == partition.ClassViolation
		if !passing(err) {
			t.Fatal(err)
		}
		return !pending && (err == nil || inForce || errors.As(err, &problem) && problem.Problem == partition.EntryExists)
	})
	if k.err == nil && !inForce {
		t.Errorf("call %d: an acknowledged change is not in force", k.n)
	}
	return inForce
}

// goesOn checks that the next change of the schema succeeds, and that an entry that conforms to
// the new schema can then be added.
func (k *killed) goesOn(t *testing.T) {
	t.Helper()
	eventually(t, fmt.Sprintf("the next change after call %d", k.n), func() bool {
		err := require(t, k.other, floorless)
		if !passing(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	eventually(t, "an entry by it", func() bool {
		return add(t, k.other, "cn=after,dc=example,dc=com", "objectClass: building") == nil
	})
	verifyClean(t, k.other)
}

// TestSchemaTrial checks that a trial judges a change but announces nothing.
func TestSchemaTrial(t *testing.T) {
	ctx := context.Background()
	ps := servers(t, tabletest.NewMem(), 2)
	must(t, add(t, ps[0], "cn=a,dc=example,dc=com", "objectClass: building"))
	before := state.Newest(ps[0])
	defer before.Close()
	stop := errors.New("only tried")
	try := func(lines ...string) error {
		_, err := onlineschema.UpdateSchema(ctx, ps[0], partition.By{}, func(tx *partition.Tx) error {
			tx.Rules.Trial = true
			if err := onlineschema.Modify(ctx, tx, name(catalog.SubschemaName), schemaChange(lines...)); err != nil {
				return err
			}
			return stop
		})
		return err
	}
	if err := try("delete objectClasses " + buildingOID); err == nil || !strings.Contains(err.Error(), "cn=a,dc=example,dc=com") {
		t.Errorf("a class in use: %v", err)
	}
	if err := try("delete objectClasses 2.5.6.18"); err != stop {
		t.Errorf("one that is not: %v", err)
	}
	after := state.Newest(ps[0])
	defer after.Close()
	frontier, err := changestream.Frontier(ctx, before)
	must(t, err)
	for range changestream.Shown(ctx, after, frontier) {
		t.Error("something was committed")
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// keepToBoth runs the check that a transaction runs at its end while a schema is announced.
func keepToBoth(ctx context.Context, tx *partition.Tx) error {
	if tx.Catalog.ToCome == nil {
		return nil
	}
	return tx.Partition.KeepToBoth(ctx, tx.Txn, tx.At, tx.Catalog, tx.Changed)
}

// announce makes only the first step of a schema change.
func announce(ctx context.Context, p *partition.Partition, changes []op.Modification) error {
	st := &write.SchemaSteps{Partition: p}
	_, err := onlineschema.Attempt(ctx, st, func(tx *partition.Tx) error {
		return onlineschema.Modify(ctx, tx, name(catalog.SubschemaName), changes)
	})
	if st.Wanted == nil {
		return err
	}
	_, err = onlineschema.Announce(ctx, st, st.Wanted)
	return err
}
