package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/lsm/lsmtest"
)

// TestPowerLoss simulates a power loss at every moment at which the store makes
// something durable. The test first changes people concurrently, and then imports other
// people. After a kill -9 the kernel still writes the data of the process to the disk.
// After a power loss, data that was not synced may be lost. What was acknowledged must
// exist completely. Every other change, and the import as a whole, must exist completely
// or not at all. A check must find no fault.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	seeds := 3
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		h := &history{t: t}
		disks := 0
		lsmtest.PowerLoss(t, uint64(seed), h.make, func(d lsmtest.Disk) {
			disks++
			h.check(d)
		})
		t.Logf("seed %d: %d power losses, %d acknowledgements", seed, disks, len(h.acks))
	}
}

const (
	powerWriters = 4
	powerPeople  = 5  // number of people for each writer
	powerImport  = 40 // number of people that are imported
)

// A history records what a test did to a store.
type history struct {
	t  *testing.T
	mu sync.Mutex
	// acks lists the acknowledgements in order. The n-th occurrence of a person in acks
	// acknowledges that person's n-th step. The first nil acknowledges the skeleton, and
	// the last nil acknowledges the import.
	acks             []*person
	people, imported []*person
}

// ack records an acknowledgement, and calls acked with the number of acknowledgements. A disk
// that is captured after n acknowledgements must contain the n acknowledged changes.
func (h *history) ack(p *person, acked func(int)) {
	h.mu.Lock()
	h.acks = append(h.acks, p)
	n := len(h.acks)
	h.mu.Unlock()
	acked(n)
}

// make makes the skeleton, changes people, and runs the import, on the file system fs.
func (h *history) make(fs vfs.FS, acked func(int)) {
	s, p := openOn(h.t, fs)
	h.must(skeleton(p))
	h.ack(nil, acked)
	var wg sync.WaitGroup
	for i := range powerWriters {
		wg.Go(func() {
			n := 0
			err := live(partitionChanger{p}, func() *person {
				if n++; n > powerPeople {
					return nil
				}
				return h.person(fmt.Sprintf("w%d-%d", i, n))
			}, func(x *person) { h.ack(x, acked) })
			if err != nil {
				h.t.Error(err)
			}
		})
	}
	wg.Wait()
	h.load(p)
	h.ack(nil, acked)
	h.must(p.Close(context.Background()))
	h.must(s.Close())
}

func (h *history) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) person(uid string) *person {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &person{uid: uid}
	h.people = append(h.people, p)
	return p
}

// load imports people who are members of no group.
func (h *history) load(p *partition.Partition) {
	ctx := context.Background()
	l, err := load.Load(ctx, p, load.Options{By: partition.By{Name: adminDN}, Folder: h.t.TempDir(), Memory: 64 << 10})
	h.must(err)
	for i := range powerImport {
		x := &person{uid: fmt.Sprintf("import-%d", i)}
		h.imported = append(h.imported, x)
		name, err := dn.Parse(x.dn(1))
		h.must(err)
		h.must(l.Add(ctx, name, attributesOf(x.attributes(1))))
	}
	_, err = l.Commit(ctx)
	h.must(err)
}

// check checks the directory on a disk that a power loss left.
func (h *history) check(d lsmtest.Disk) {
	s, p := openOn(h.t, d.FS)
	defer s.Close()
	defer p.Close(context.Background())
	sound(h.t, p)
	seen := lookAt(h.t, p)
	if seen == nil {
		if d.Acked > 0 {
			h.t.Error("the naming context is lost")
		}
		return
	}
	steps := map[*person]int{}
	for _, x := range h.acks[:d.Acked] {
		steps[x]++
	}
	for _, x := range h.people {
		if _, ok := seen.see(x, steps[x], len(life)); !ok {
			h.t.Errorf("%s: step %d was acknowledged, and found %s", x.uid, steps[x], seen.describe(x))
		}
	}
	h.checkImport(seen, steps[nil] == 2)
	for _, name := range seen.strangers(append(h.people, h.imported...)) {
		h.t.Errorf("%s: nobody added it", name)
	}
}

func (h *history) checkImport(seen *sight, acked bool) {
	here := 0
	for _, x := range h.imported {
		step, ok := seen.see(x, 0, 1)
		if !ok {
			h.t.Errorf("%s: found %s", x.uid, seen.describe(x))
		}
		here += step
	}
	if here != 0 && here != powerImport || acked && here == 0 {
		h.t.Errorf("%d of %d entries imported, acknowledged: %t", here, powerImport, acked)
	}
}

// openOn opens the directory on a file system. The store's memtable is small, so that the store
// flushes it several times.
func openOn(t *testing.T, fs vfs.FS) (*lsm.Store, *partition.Partition) {
	t.Helper()
	s, err := lsm.Open(lsm.Options{Path: "store", FS: fs, MemTable: 128 << 10, Cache: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p, err := partition.Open(context.Background(), s, partition.Options{Create: true, References: catalog.DefaultReferences(), Cache: 1 << 20})
	if err != nil {
		s.Close()
		t.Fatal(err)
	}
	return s, p
}

// skeleton sets the naming context. Then it adds, in one transaction, the entries above the
// people and the group staffDN.
func skeleton(p *partition.Partition) error {
	ctx := context.Background()
	if err := onlineschema.SetSuffixes(ctx, p, []string{suffix}); err != nil {
		return err
	}
	_, err := write.Update(ctx, p, partition.By{Name: adminDN}, func(tx *partition.Tx) error {
		for _, e := range []struct {
			name string
			as   map[string][]string
		}{{suffix, map[string][]string{"objectClass": {"organization", "dcObject"}, "o": {"Example"}}}, {peopleDN, map[string][]string{"objectClass": {"organizationalUnit"}}}, {alumniDN, map[string][]string{"objectClass": {"organizationalUnit"}}}, {"ou=groups," + suffix, map[string][]string{"objectClass": {"organizationalUnit"}}}, {staffDN, map[string][]string{"objectClass": {"groupOfNames"}, "member": {adminDN}}}} {
			name, err := dn.Parse(e.name)
			if err != nil {
				return err
			}
			if _, err := tx.Add(ctx, name, attributesOf(e.as), false); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// sound checks that a partition has no faults.
func sound(t *testing.T, p *partition.Partition) {
	t.Helper()
	_, err := verify.Verify(context.Background(), p, verify.Options{Found: func(f *verify.Finding) error { t.Error(f); return nil }})
	if err != nil {
		t.Error(err)
	}
}

// lookAt reads all people, and the members of staffDN. If the entry of the naming context does
// not exist, it returns nil.
func lookAt(t *testing.T, p *partition.Partition) *sight {
	t.Helper()
	ctx := context.Background()
	s := state.Newest(p)
	defer s.Close()
	root, err := dn.Parse(suffix)
	if err != nil {
		t.Fatal(err)
	}
	at, err := s.Find(ctx, root)
	if err != nil {
		return nil
	}
	seen := &sight{map[string]map[string][]string{}, map[string]bool{}}
	everybody := filter.Resolve(filter.MustParse("(|(uid=*)(member=*))"), p.Schema())
	for r, err := range search.Search(ctx, s, partition.Query{Base: at.ID, Scope: op.WholeSubtree, Filter: everybody}) {
		if err != nil {
			t.Fatal(err)
		}
		attributes := map[string][]string{}
		for i := range r.Entry.Attributes {
			a := &r.Entry.Attributes[i]
			for _, v := range a.Values {
				attributes[a.Description()] = append(attributes[a.Description()], string(v))
			}
		}
		attributes["entryUUID"] = []string{r.Entry.ID.String()}
		if r.Name.String() != staffDN {
			seen.entries[r.Name.String()] = attributes
			continue
		}
		for _, m := range attributes["member"] {
			seen.members[m] = true
		}
	}
	return seen
}

// partitionChanger is a changer that changes a partition without a server.
type partitionChanger struct{ p *partition.Partition }

func (c partitionChanger) update(name string, f func(tx *partition.Tx, name dn.DN) error) error {
	parsed, err := dn.Parse(name)
	if err != nil {
		return err
	}
	_, err = write.Update(context.Background(), c.p, partition.By{Name: adminDN}, func(tx *partition.Tx) error { return f(tx, parsed) })
	return err
}

func attributesOf(m map[string][]string) (as []op.PartialAttribute) {
	for name, values := range m {
		a := op.PartialAttribute{Description: name}
		for _, v := range values {
			a.Values = append(a.Values, []byte(v))
		}
		as = append(as, a)
	}
	return as
}

func (c partitionChanger) add(name string, attributes map[string][]string) error {
	return c.update(name, func(tx *partition.Tx, name dn.DN) error {
		_, err := tx.Add(context.Background(), name, attributesOf(attributes), false)
		return err
	})
}

func (c partitionChanger) modify(name string, kind op.ModKind, attributes map[string][]string) error {
	var changes []op.Modification
	for _, a := range attributesOf(attributes) {
		changes = append(changes, op.Modification{Kind: kind, PartialAttribute: a})
	}
	return c.update(name, func(tx *partition.Tx, name dn.DN) error {
		return tx.Modify(context.Background(), name, changes)
	})
}

func (c partitionChanger) insert(name, attribute, value string) error {
	return c.modify(name, op.ModAdd, map[string][]string{attribute: {value}})
}

func (c partitionChanger) replace(name string, attributes map[string][]string) error {
	return c.modify(name, op.ModReplace, attributes)
}

func (c partitionChanger) rename(name, rdn, parent string) error {
	to, err := dn.ParseRDN(rdn)
	if err != nil {
		return err
	}
	under, err := dn.Parse(parent)
	if err != nil {
		return err
	}
	return c.update(name, func(tx *partition.Tx, name dn.DN) error {
		return tx.Rename(context.Background(), name, to, true, &under)
	})
}

func (c partitionChanger) remove(name string) error {
	return c.update(name, func(tx *partition.Tx, name dn.DN) error { return tx.Delete(context.Background(), name) })
}
