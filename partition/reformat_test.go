package partition_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/big"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/reformat"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

func memStore(t testing.TB) *lsm.Store {
	t.Helper()
	s, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem(), NoSync: true})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// certificate returns a certificate whose issuer's name has types with codes.
func certificate(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	x := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "Example CA", Organization: []string{"Example"}}}
	der, err := x509.CreateCertificate(rand.Reader, x, x, key.Public(), key)
	must(t, err)
	return der
}

// TestReformatEverything copies a directory in the first format that has all that has another form in the newest: names of all
// lengths and with several AVAs, names as values, OIDs, certificates, many values of an attribute, types without codes,
// naming contexts, and all of that in the past.
func TestReformatEverything(t *testing.T) {
	ctx := t.Context()
	from := memStore(t)
	o := partition.Options{Schema: tagged, Indexes: []catalog.Index{
		{Attribute: "objectClass", Layout: catalog.RowLayout}, {Attribute: "member", Layout: catalog.ColumnLayout},
		{Attribute: "uniqueMember", Layout: catalog.RowLayout}, {Attribute: "userCertificate", Layout: catalog.ColumnLayout},
		{Attribute: "createTimestamp", Layout: catalog.ColumnLayout}, {Attribute: "uid", Layout: catalog.ColumnLayout},
		{Attribute: "seeAlso", Layout: catalog.ColumnLayout},
	}}
	made := o
	made.Format, made.Create = catalog.FormatNames, true
	p, err := partition.Open(ctx, from, made)
	must(t, err)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{domain, "o=other,c=DE"}))
	must(t, changeSchema(t, p, "add attributeTypes ( 2.25.9.1 NAME 'floorKeeper' SUP distinguishedName SINGLE-VALUE )",
		"add attributeTypes ( 2.25.9.2 NAME 'roomNo' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )",
		"add objectClasses ( 2.25.9.3 NAME 'floor' SUP top STRUCTURAL MUST roomNo MAY ( floorKeeper $ cn ) )"))
	loadSample(t, p, 40)
	people := "ou=people," + domain
	keeper := "uid=u1," + people
	must(t, add(t, p, "o=other,c=DE", "objectClass: organization"))
	must(t, add(t, p, "ou=units,o=other,c=DE", "objectClass: organizationalUnit"))
	must(t, add(t, p, "roomNo=1+cn=a,"+domain, "objectClass: floor", "floorKeeper: "+keeper, "cn;lang-de: Erdgeschoss", "cn: ground"))
	must(t, add(t, p, "cn="+long+long+"x,"+domain, "objectClass: person", "sn: long", "seeAlso: cn="+long+","+keeper))
	lines := []string{"objectClass: groupOfNames"}
	for i := range 150 {
		lines = append(lines, fmt.Sprintf("member: uid=u%d,%s", i, people))
	}
	must(t, add(t, p, "cn=all,"+domain, lines...))
	must(t, add(t, p, "cn=few,"+domain, "objectClass: groupOfUniqueNames", "uniqueMember: "+keeper+"#'0101'B", "uniqueMember: uid=u2,"+people,
		"uniqueMember: cn="+long+","+keeper+"#'1'B"))
	der := certificate(t)
	must(t, modify(t, p, keeper, change(op.ModAdd, "userCertificate;binary", der)))
	must(t, onlineschema.SetUnique(ctx, p, []catalog.Unique{{Attribute: "uid"}}, true))
	_, err = p.DB.Checkpoint(ctx, "full")
	must(t, err)
	must(t, modify(t, p, "cn=all,"+domain, change(op.ModDelete, "member", []byte("uid=u3,"+people), []byte("uid=u4,"+people))))
	must(t, modify(t, p, "cn=few,"+domain, change(op.ModDelete, "uniqueMember", []byte("uid=u2,"+people))))
	must(t, modify(t, p, keeper, change(op.ModDelete, "userCertificate;binary")))
	must(t, remove(t, p, "cn="+long+long+"x,"+domain))
	must(t, update(t, p, func(tx *partition.Tx) error {
		return tx.Rename(ctx, name("roomNo=1+cn=a,"+domain), name("roomNo=2")[0], true, nil)
	}))
	must(t, remove(t, p, "ou=units,o=other,c=DE"))
	must(t, remove(t, p, "uid=u5,"+people))

	filters := []string{"(objectClass=inetOrgPerson)", "(objectClass=2.5.6.6)", "(member=uid=U3," + people + ")", "(member=" + keeper + ")",
		"(uniqueMember=" + keeper + "#'0101'B)", "(uniqueMember=uid=u2," + people + ")", "(seeAlso=cn=" + long + "," + keeper + ")",
		"(userCertificate={ serialNumber 7, issuer rdnSequence:\"cn=Example CA,o=Example\" })", "(createTimestamp>=20000101000000Z)", "(roomNo=1)",
		"(floorKeeper=" + keeper + ")", "(uniqueMember=cn=" + long + "," + keeper + "#'1'B)"}
	look := func(p *partition.Partition) (lines []string) {
		full, err := p.DB.FindCheckpoint(ctx, "full")
		must(t, err)
		then, err := state.At(ctx, p, full.Revision)
		must(t, err)
		defer then.Close()
		now := state.Newest(p)
		defer now.Close()
		for i, s := range []*partition.Snapshot{then, now} {
			for _, f := range append(filters, "(objectClass=*)") {
				for r, err := range search.Search(ctx, s, partition.Query{Scope: op.WholeSubtree, Filter: filter.Resolve(filter.MustParse(f), s.Catalog.Schema)}) {
					must(t, err)
					e, err := s.Entry(ctx, r.ID, true)
					must(t, err)
					var order []string
					for _, a := range e.Attributes {
						order = append(order, a.Description())
					}
					lines = append(lines, fmt.Sprint(i, f, " ", r.Name, order, printEntry(e)))
				}
			}
		}
		slices.Sort(lines)
		return lines
	}
	was := look(p)
	for _, f := range filters {
		if !slices.ContainsFunc(was, func(line string) bool { return strings.Contains(line, f+" ") }) {
			t.Errorf("%s finds nothing", f)
		}
	}
	must(t, p.Close(ctx))

	to := memStore(t)
	_, err = reformat.Copy(ctx, from, to, reformat.Options{Options: o})
	must(t, err)
	p, err = partition.Open(ctx, to, o)
	must(t, err)
	defer p.Close(ctx)
	if now, newest := p.RowFormats(); now != newest || p.Schema().Codes() != schema.Codes() {
		t.Errorf("format %d of %d, %d codes", now, newest, p.Schema().Codes())
	}
	if diff := cmp.Diff(was, look(p)); diff != "" {
		t.Errorf("the store, and the copy:\n%s", diff)
	}
	wantSound(t, p)

	// The copy is a directory like any other: what was deleted comes back with its password, and garbage goes.
	full, err := p.DB.FindCheckpoint(ctx, "full")
	must(t, err)
	then, err := state.At(ctx, p, full.Revision)
	must(t, err)
	done, err := history.Restore(ctx, p, then, history.RestoreOptions{Name: name("uid=u5," + people), By: partition.By{Name: "cn=admin"}})
	must(t, err)
	then.Close()
	if len(done.Records) == 0 {
		t.Error("nothing was restored")
	}
	if err := add(t, p, "uid=u6,ou=more,"+domain, "objectClass: inetOrgPerson", "cn: x", "sn: x"); err == nil {
		t.Error("a value of a unique attribute was added twice")
	}
	// The journal lists the rows of the copy: what it leaves is no garbage.
	must(t, p.DB.DeleteCheckpoint(ctx, "full"))
	_, err = p.DB.Collect(ctx, txn.CollectOptions{})
	must(t, err)
	if c, err := p.DB.Collect(ctx, txn.CollectOptions{All: true, Dry: true}); err != nil || c.Removed.Cells > 0 {
		t.Errorf("a collection leaves %d versions, %v", c.Removed.Cells, err)
	}
	wantSound(t, p)
	for row, err := range to.Table("config").Scan(ctx, table.Range{}, table.Select{}) {
		must(t, err)
		if c := row.Find('h', []byte("header")); c != nil && !strings.Contains(string(c.Value), `"of format 2"`) {
			t.Errorf("earlier programs do not refuse %s", c.Value)
		}
	}
}

// TestReformatRefuses checks what Copy does not copy, and that an interrupted copy is made again.
func TestReformatRefuses(t *testing.T) {
	ctx := t.Context()
	o := partition.Options{Schema: tagged}
	open := func(format int) (table.Store, *partition.Partition) {
		s := memStore(t)
		with := o
		with.Format, with.Create = format, true
		p, err := partition.Open(ctx, s, with)
		must(t, err)
		loadSample(t, p, 5)
		return s, p
	}
	s, p := open(catalog.FormatCodes)
	must(t, p.Close(ctx))
	copied := func(from, to table.Store) error {
		_, err := reformat.Copy(ctx, from, to, reformat.Options{Options: o})
		return err
	}
	if err := copied(s, memStore(t)); !errors.Is(err, reformat.ErrNewest) {
		t.Errorf("a store in the newest format: %v", err)
	}
	if err := copied(memStore(t), memStore(t)); !errors.Is(err, partition.ErrNoDirectory) {
		t.Errorf("an empty store: %v", err)
	}
	old, p := open(catalog.FormatNames)
	_, err := branch.Create(ctx, p, branch.Options{Name: "tests", By: partition.By{Name: "cn=admin"}})
	must(t, err)
	must(t, p.Close(ctx))
	if err := copied(old, memStore(t)); !errors.Is(err, reformat.ErrBranches) || !strings.Contains(err.Error(), "tests") {
		t.Errorf("a store with a branch: %v", err)
	}
	old, p = open(catalog.FormatNames)
	must(t, p.Close(ctx))
	if err := copied(old, s); !errors.Is(err, reformat.ErrOccupied) {
		t.Errorf("to a store that exists: %v", err)
	}
	to := memStore(t)
	if err := copied(ending{old}, to); !errors.Is(err, errEnding) {
		t.Fatalf("interrupted: %v", err)
	}
	if _, err := partition.Open(ctx, to, o); !errors.Is(err, txn.ErrIncomplete) && !errors.Is(err, partition.ErrNoDirectory) {
		t.Errorf("half a copy was opened: %v", err)
	}
	p, err = partition.Open(ctx, old, o) // takes updates again
	must(t, err)
	must(t, add(t, p, "ou=later,"+domain, "objectClass: organizationalUnit"))
	must(t, p.Close(ctx))
	must(t, copied(old, to))
	p, err = partition.Open(ctx, to, o)
	must(t, err)
	wantSound(t, p)
	must(t, add(t, p, "ou=latest,"+domain, "objectClass: organizationalUnit"))
	must(t, p.Close(ctx))

	// The old store takes no updates.
	if _, err := partition.Open(ctx, old, o); !errors.Is(err, partition.ErrMoved) || !strings.Contains(err.Error(), to.String()) {
		t.Errorf("a store that was copied was opened for writing: %v", err)
	}
	reader := o
	reader.Txn.ReadOnly = true
	p, err = partition.Open(ctx, old, reader)
	must(t, err)
	if got := searched(t, p, domain, op.WholeSubtree, "(ou=later)"); len(got) != 1 {
		t.Errorf("read %q", got)
	}
	must(t, p.Close(ctx))
	must(t, copied(old, to)) // is done
	if err := copied(old, tabletest.NewMem()); !errors.Is(err, partition.ErrMoved) {
		t.Errorf("copied to a second place: %v", err)
	}
	back := o
	back.Moved = true
	p, err = partition.Open(ctx, old, back)
	must(t, err)
	if err := add(t, p, "ou=no,"+domain, "objectClass: organizationalUnit"); !errors.Is(err, partition.ErrMoved) {
		t.Errorf("an update: %v", err)
	}
	if _, err := load.Load(ctx, p, load.Options{}); !errors.Is(err, partition.ErrMoved) {
		t.Errorf("a load: %v", err)
	}
	must(t, write.SetMoved(ctx, p, partition.By{}, ""))
	must(t, add(t, p, "ou=yes,"+domain, "objectClass: organizationalUnit"))
	must(t, p.Close(ctx))
}

var errEnding = errors.New("the end")

// ending is a store whose tree cannot be copied.
type ending struct{ table.Store }

func (s ending) Table(name string) table.Table {
	if t := s.Store.Table(name); name != tree.Name {
		return t
	} else {
		return endingTable{t}
	}
}

type endingTable struct{ table.Table }

func (endingTable) CopyTo(context.Context, table.Table, table.Rewriter, table.RevisionSpan) error {
	return errEnding
}

var copies = flag.Int("copies", 12, "copies that TestReformatBesideServers makes")

// TestReformatBesideServers copies a directory while three servers change it. Some of the servers' calls of the store fail. The
// copying process is killed at random calls, and in most runs one of the servers too. The copy has what was acknowledged, and of
// the updates without an answer those that the servers show.
func TestReformatBesideServers(t *testing.T) {
	for seed := range uint64(*copies) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { reformatBesideServers(t, seed) })
		})
	}
}

func reformatBesideServers(t *testing.T, seed uint64) {
	ctx, rnd := t.Context(), mathrand.New(mathrand.NewPCG(seed, 1))
	old, to := tabletest.NewMem(), tabletest.NewMem()
	o := partition.Options{Schema: tagged, Cache: 1 << 20, Format: catalog.FormatNames, Create: true, Txn: txn.Options{
		Lease: time.Second, InFlight: time.Second, Poll: 10 * time.Millisecond,
		Now: func() time.Time { return time.Now().AddDate(26, 0, 0) }, // the clock of synctest starts before the first revision
	}}
	distant := func(s table.Store) (table.Store, *tabletest.Faults) {
		s, f := tabletest.WithFaults(s, seed)
		f.SetDelay(time.Millisecond)
		return s, f
	}
	var ps []*partition.Partition
	var faults []*tabletest.Faults
	for range 3 {
		s, f := distant(old)
		faults = append(faults, f)
		p, err := partition.Open(ctx, s, o)
		must(t, err)
		defer p.Close(ctx)
		ps = append(ps, p)
	}
	must(t, onlineschema.SetSuffixes(ctx, ps[0], []string{domain}))
	must(t, add(t, ps[0], domain, domainLines...))
	must(t, add(t, ps[0], "cn=all,"+domain, "objectClass: groupOfNames", "member: cn=nobody"))
	for _, p := range ps {
		must(t, p.DB.CatchUp(ctx))
	}

	var mu sync.Mutex
	added, unanswered, refused := map[string]bool{}, map[string]bool{}, 0
	ended := make(chan struct{})
	if dying := rnd.IntN(4); dying < len(ps) {
		faults[dying].CrashAt(1 + rnd.IntN(1000))
	}
	for _, f := range faults {
		f.SetRate(0.02)
	}
	var writers sync.WaitGroup
	for i, p := range ps {
		writers.Go(func() {
			for n := 0; ; n++ {
				dn := fmt.Sprintf("cn=%d-%d,%s", i, n, domain)
				err := update(t, p, func(tx *partition.Tx) error {
					if _, err := tx.Add(ctx, name(dn), attrs("objectClass: person", "sn: x"), false); err != nil {
						return err
					}
					// The second modification makes servers abort each other's commits.
					return tx.Modify(ctx, name("cn=all,"+domain), []op.Modification{
						change(op.ModAdd, "member", []byte(dn)), change(op.ModReplace, "description", []byte(dn))})
				})
				mu.Lock()
				switch {
				case err == nil:
					added[dn] = true
				case errors.Is(err, partition.ErrMoved):
					refused++
				case errors.Is(err, table.ErrUnavailable), faults[i].Crashed():
					unanswered[dn] = true
				case !errors.Is(err, partition.ErrConflict):
					t.Errorf("%s: %v", dn, err)
				}
				mu.Unlock()
				select {
				case <-ended:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	stop := sync.OnceFunc(func() { close(ended); writers.Wait() })
	defer stop()
	copied := func(crashAt int) error {
		s, f := distant(old)
		f.CrashAt(crashAt)
		o := o
		o.Create = false
		_, err := reformat.Copy(ctx, s, to, reformat.Options{Options: o, Ahead: rnd.IntN(4) == 0 && crashAt > 0})
		f.Land()
		return err
	}
	for range rnd.IntN(4) {
		time.Sleep(time.Duration(rnd.IntN(500)) * time.Millisecond)
		_ = copied(1 + rnd.IntN(300)) // may be complete nevertheless
	}
	time.Sleep(100 * time.Millisecond)
	must(t, copied(0))
	time.Sleep(100 * time.Millisecond)
	stop()
	for i, p := range ps {
		faults[i].SetRate(0)
		if faults[i].Crashed() {
			continue
		}
		must(t, p.DB.CatchUp(ctx))
		for _, dn := range searched(t, p, domain, op.WholeSubtree, "(objectClass=person)") {
			if unanswered[dn] {
				added[dn] = true
			}
		}
		if err := add(t, p, "cn=late,"+domain, "objectClass: person", "sn: x"); !errors.Is(err, partition.ErrMoved) {
			t.Errorf("an update after the copy: %v", err)
		}
		if err := p.DB.Refusal(); !errors.Is(err, partition.ErrMoved) {
			t.Errorf("the status says %v", err)
		}
	}
	if len(added) == 0 || refused == 0 {
		t.Errorf("%d entries were added, %d refused", len(added), refused)
	}
	o.Create = false
	p, err := partition.Open(ctx, to, o)
	must(t, err)
	defer p.Close(ctx)
	wantSound(t, p)
	got := searched(t, p, domain, op.WholeSubtree, "(objectClass=person)")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(added)), got); diff != "" {
		t.Errorf("acknowledged, and in the copy:\n%s", diff)
	}
	if members := searched(t, p, domain, op.WholeSubtree, "(&(cn=all)(member=*))"); len(members) != 1 {
		t.Errorf("the group: %q", members)
	}
	for dn := range added {
		if groups := searched(t, p, domain, op.WholeSubtree, "(member="+dn+")"); len(groups) != 1 {
			t.Errorf("%s is a member of %q", dn, groups)
		}
	}
	must(t, add(t, p, "cn=new,"+domain, "objectClass: person", "sn: x"))
}
