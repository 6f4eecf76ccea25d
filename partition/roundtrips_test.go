package partition_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// roundTrip is the virtual time of every call to a distant store. The virtual time of an
// operation, divided by roundTrip, is therefore the number of its sequential calls.
const roundTrip = time.Second

// distant is a store with one round trip for each call. It commits row by row, like HBase.
type distant struct {
	*tabletest.Mem
	paged bool // a scan has a round trip for each page, and the pages grow as those of HBase
}

type distantTable struct {
	table.Table
	table.Versioner
	paged bool
}

func (d distant) Table(name string) table.Table {
	t := d.Mem.Table(name)
	return distantTable{t, t.(table.Versioner), d.paged}
}

func (t distantTable) Get(ctx context.Context, row []byte, s table.Select) (table.Row, error) {
	time.Sleep(roundTrip)
	return t.Table.Get(ctx, row, s)
}

func (t distantTable) GetMany(ctx context.Context, rows [][]byte, s table.Select) ([]table.Row, error) {
	time.Sleep(roundTrip)
	return t.Table.GetMany(ctx, rows, s)
}

func (t distantTable) Versions(ctx context.Context, rows [][]byte, f table.Family, after table.Revision) ([]table.Row, error) {
	time.Sleep(roundTrip)
	return t.Versioner.Versions(ctx, rows, f, after)
}

func (t distantTable) Scan(ctx context.Context, r table.Range, s table.Select) iter.Seq2[table.Row, error] {
	return func(yield func(table.Row, error) bool) {
		time.Sleep(roundTrip)
		page := min(max(32, s.Expect), 2048)
		if s.MaxRows > 0 {
			page = s.MaxRows
		}
		left := page
		for row, err := range t.Table.Scan(ctx, r, s) {
			if !yield(row, err) {
				return
			}
			if left--; t.paged && left == 0 && s.MaxRows == 0 {
				time.Sleep(roundTrip)
				page = min(4*page, 2048)
				left = page
			}
		}
	}
}

func (t distantTable) Apply(ctx context.Context, r table.Revision, ms []table.Mutation) error {
	time.Sleep(roundTrip)
	return t.Table.Apply(ctx, r, ms)
}

func (t distantTable) Swap(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (bool, error) {
	time.Sleep(roundTrip)
	return t.Table.Swap(ctx, row, f, q, old, cells)
}

// ApplyVersions implements table.Pairer.
func (t distantTable) ApplyVersions(ctx context.Context, r table.Revision, ms []table.Mutation, rows [][]byte, f table.Family, after table.Revision) ([]table.Row, error) {
	time.Sleep(roundTrip)
	return table.ApplyVersions(ctx, t.Table, r, ms, rows, f, after)
}

// SwapGet implements table.Pairer.
func (t distantTable) SwapGet(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (bool, table.Row, error) {
	time.Sleep(roundTrip)
	return table.SwapGet(ctx, t.Table, row, f, q, old, cells)
}

// openDistant opens a partition on a distant store, in a bubble of package synctest.
func openDistant(t *testing.T) *partition.Partition {
	return openOn(t, distant{Mem: tabletest.NewMem()})
}

func openOn(t *testing.T, s distant) *partition.Partition {
	t.Helper()
	p, err := partition.Open(context.Background(), s, partition.Options{Format: *storeFormat, Create: true, Txn: txn.Options{
		Poll: time.Hour, Lease: 24 * time.Hour,
		Now: func() time.Time { return time.Now().AddDate(26, 0, 0) },
	}})
	must(t, err)
	return p
}

// TestRoundTrips counts the sequential round trips of operations on a store that several
// servers share, first without branches and then beside an open branch, which adds none. The
// names of ancestors are cached (docs/design/transactions.md, "Sequential round trips on HBase,
// DN cache warm").
func TestRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		p := openDistant(t)
		defer p.Close(ctx)
		must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
		must(t, add(t, p, domain, domainLines...))
		for _, u := range []string{"people", "others"} {
			must(t, add(t, p, "ou="+u+","+domain, "objectClass: organizationalUnit"))
		}
		must(t, addPerson(t, p, "cn=a,"+people))
		count := func(what string, want int, f func()) {
			t.Helper()
			began := time.Now()
			f()
			n := int(time.Since(began) / roundTrip)
			t.Logf("%s: %d round trips", what, n)
			if n != want {
				t.Errorf("%s: %d sequential round trips, want %d", what, n, want)
			}
		}
		read := func(dn string) func() {
			return func() { searched(t, p, dn, op.BaseObject, "(objectClass=*)") }
		}
		level := func() {
			s := state.Newest(p)
			defer s.Close()
			at, err := s.Find(ctx, name(people))
			must(t, err)
			for _, err := range search.Search(ctx, s, partition.Query{Base: at.ID, Scope: op.SingleLevel, Filter: filter.Resolve(filter.MustParse("(objectClass=*)"), p.Schema())}) {
				must(t, err)
			}
		}
		modifies := func(kind op.ModKind, description, value string) func() {
			return func() {
				must(t, modify(t, p, "cn=b,"+people, change(kind, description, []byte(value))))
			}
		}
		all := func(when string) {
			warm := read("cn=b," + people)
			read("cn=a," + people)()
			count(when+"base search from the cache", 0, read("cn=a,"+people))
			count(when+"add", 4, func() { must(t, addPerson(t, p, "cn=b,"+people)) })
			warm()
			count(when+"modify", 4, modifies(op.ModReplace, "sn", "New"))
			count(when+"modify of a changed entry", 4, modifies(op.ModReplace, "sn", "Newer"))
			count(when+"base search of a changed entry", 1, warm)
			count(when+"add of one value", 4, modifies(op.ModAdd, "description", "one more"))
			warm()
			count(when+"rename", 4, func() {
				must(t, update(t, p, func(tx *partition.Tx) error {
					return tx.Rename(ctx, name("cn=b,"+people), name("cn=c")[0], true, nil)
				}))
			})
			read("cn=c," + people)()
			count(when+"delete", 4, func() { must(t, remove(t, p, "cn=c,"+people)) })
			count(when+"one-level page", 1, level)
		}
		all("")
		all("again: ") // entries had the names before
		b, err := branch.Create(ctx, p, branch.Options{Name: "staging", By: partition.By{Name: "cn=admin"}})
		must(t, err)
		_, err = b.Update(ctx, partition.By{Name: "cn=admin"}, func(tx *partition.Tx) error {
			_, err := tx.Add(ctx, name("cn=d,"+people), attrs("objectClass: inetOrgPerson", "sn: Person", "cn: Person"), false)
			return errors.Join(err, tx.Modify(ctx, name("cn=a,"+people), []op.Modification{change(op.ModReplace, "sn", []byte("Staged"))}))
		})
		must(t, err)
		all("beside a branch: ")
	})
}

// TestVerifyRoundTrips counts the sequential round trips of a check of a store that several
// servers share. Twice as many entries may not need more round trips for each batch of entries.
func TestVerifyRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		p := openDistant(t)
		defer p.Close(ctx)
		must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
		must(t, onlineschema.SetIndexes(ctx, p, []catalog.Index{{Attribute: "objectClass", Layout: catalog.ColumnLayout}, {Attribute: "cn", Layout: catalog.ColumnLayout}, {Attribute: "sn", Layout: catalog.RowLayout}, {Attribute: "manager", Layout: catalog.ColumnLayout}}))
		must(t, onlineschema.SetUnique(ctx, p, []catalog.Unique{{Attribute: "cn"}}, true))
		must(t, onlineschema.SetReferences(ctx, p, []catalog.Reference{{Attribute: "manager", MustExist: true}}, true))
		must(t, add(t, p, domain, domainLines...))
		const units, persons = 40, 25
		for u := range units {
			unit := fmt.Sprintf("ou=u%d,%s", u, domain)
			must(t, update(t, p, func(tx *partition.Tx) error {
				_, err := tx.Add(ctx, name(unit), attrs("objectClass: organizationalUnit"), false)
				for i := 0; i < persons && err == nil; i++ {
					dn := fmt.Sprintf("cn=p%d-%d,%s", u, i, unit)
					_, err = tx.Add(ctx, name(dn), attrs("objectClass: inetOrgPerson", "sn: x", "manager: "+dn), false)
				}
				return err
			}))
		}
		began := time.Now()
		last := 0.0
		entries, err := verify.Verify(ctx, p, verify.Options{Found: func(f *verify.Finding) error { t.Error(f); return nil }, Progress: func(entries int, done float64) {
			if done < last || done > 1 {
				t.Errorf("after %v of the check, %v is done", last, done)
			}
			last = done
		}})
		must(t, err)
		if last < 0.9 {
			t.Errorf("at the end, %v is said to be done", last)
		}
		n := int(time.Since(began) / roundTrip)
		batches := entries/128 + 1
		// A batch needs at most a call for the parents and three for the names of managers. Each table
		// is scanned once, and the indexes of unique and reference attributes once more.
		if most := batches*(1+3) + 2; n > most {
			t.Errorf("%d sequential round trips for %d entries, want at most %d", n, entries, most)
		}
		t.Logf("%d round trips for %d entries", n, entries)
	})
}

// TestWalkRoundTrips counts the sequential round trips of searches without an index below an entry
// that is no naming context, on a store that several servers share.
func TestWalkRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		p := openDistant(t)
		defer p.Close(ctx)
		must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
		must(t, add(t, p, domain, domainLines...))
		crowd := func(above string, units, persons int) {
			must(t, update(t, p, func(tx *partition.Tx) error {
				for u := range units {
					unit := fmt.Sprintf("ou=u%d,%s", u, above)
					if _, err := tx.Add(ctx, name(unit), attrs("objectClass: organizationalUnit"), false); err != nil {
						return err
					}
					for i := range persons {
						if _, err := tx.Add(ctx, name(fmt.Sprintf("cn=p%d,%s", i, unit)), attrs("objectClass: inetOrgPerson", "sn: x", fmt.Sprint("title: p", i)), false); err != nil {
							return err
						}
					}
				}
				return nil
			}))
		}
		for _, ou := range []string{"ou=people", "ou=few", "ou=leaves"} {
			must(t, add(t, p, ou+","+domain, "objectClass: organizationalUnit"))
		}
		crowd("ou=people,"+domain, 100, 40)
		crowd("ou=few,"+domain, 4, 10)
		crowd("ou=leaves,"+domain, 300, 0)
		search := func(base, filter string, want, most int) {
			t.Helper()
			began := time.Now()
			if n := len(searched(t, p, base+","+domain, op.WholeSubtree, filter)); n != want {
				t.Errorf("%s below %s: %d entries, want %d", filter, base, n, want)
			}
			n := int(time.Since(began) / roundTrip)
			t.Logf("%s below %s: %d round trips", filter, base, n)
			if n > most {
				t.Errorf("%s below %s: %d sequential round trips, want at most %d", filter, base, n, most)
			}
		}
		// Nobody keeps the numbers of subordinates yet, so there is a call for each of 45 entries. What
		// the server does in the background may add a call or two.
		search("ou=few", "(title=p3)", 4, 52)
		m := materialized.NewManager(p)
		must(t, m.Step(ctx))
		search("ou=people", "(description=none)", 0, 5) // a scan of all entries
		search("ou=people", "(title=p3)", 100, 11)
		search("ou=few", "(title=p3)", 4, 17)            // a walk that knows the leaves
		search("ou=leaves", "(description=none)", 0, 10) // a scan of the children
	})
}

// fillLists adds 700 people, of whom 150 are in a department and 159 in a town, which are the lists of indexes of a layout.
func fillLists(t *testing.T, s distant, layout catalog.Layout) {
	ctx := context.Background()
	p := openOn(t, s)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
	must(t, onlineschema.SetIndexes(ctx, p, []catalog.Index{{Attribute: "objectClass", Layout: layout}, {Attribute: "departmentNumber", Layout: layout}, {Attribute: "l", Layout: layout}, {Attribute: "sn", Layout: layout}}))
	must(t, add(t, p, domain, domainLines...))
	must(t, add(t, p, people, "objectClass: organizationalUnit"))
	must(t, update(t, p, func(tx *partition.Tx) error {
		for i := range 700 {
			lines := []string{"objectClass: inetOrgPerson", "sn: x", "userPassword: secret"}
			if i < 150 {
				lines = append(lines, "departmentNumber: a")
			}
			if 32 <= i && i < 191 {
				lines = append(lines, "l: b")
			}
			if _, err := tx.Add(ctx, name(fmt.Sprintf("cn=%d,%s", i, people)), attrs(lines...), false); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, p.Close(ctx))
}

// TestListRoundTrips counts the sequential round trips of searches by the indexes of a store that
// several servers share, the first time after the store was opened.
func TestListRoundTrips(t *testing.T) {
	for _, layout := range []catalog.Layout{catalog.RowLayout, catalog.ColumnLayout} {
		s := distant{tabletest.NewMem(), true}
		synctest.Test(t, func(t *testing.T) { fillLists(t, s, layout) })
		for _, c := range []struct {
			what, base, filter string
			secrets, warm      bool // the search asks for secrets; it was made before without secrets
			found, most        int
		}{
			{"two lists", domain, "(&(departmentNumber=a)(l=b))", false, false, 118, 2},
			{"two lists and secrets", domain, "(&(departmentNumber=a)(l=b))", true, false, 118, 2},
			{"secrets of entries in memory", domain, "(&(departmentNumber=a)(l=b))", true, true, 118, 1},
			{"a short list and a long one", domain, "(&(departmentNumber=a)(objectClass=inetOrgPerson))", false, false, 150, 2},
			{"either of two lists", domain, "(|(departmentNumber=a)(l=b))", false, false, 191, 2},
			{"a list below a unit", people, "(departmentNumber=a)", false, false, 150, 2},
			{"a long list below a unit", people, "(objectClass=inetOrgPerson)", false, false, 700, 5},
			{"two long lists", domain, "(&(objectClass=inetOrgPerson)(sn=x))", false, false, 700, 5},
			{"a presence", domain, "(departmentNumber=*)", false, false, 150, 2},
			{"a range", domain, "(departmentNumber=a*)", false, false, 150, 2},
			{"a long range", domain, "(sn=x*)", false, false, 700, 5},
			{"two ranges", domain, "(&(sn=x*)(departmentNumber=a*))", false, false, 150, 2},
			{"either of two ranges", domain, "(|(departmentNumber=a*)(l=b*))", false, false, 191, 2},
			{"a long list and a range", domain, "(&(objectClass=inetOrgPerson)(departmentNumber=a*))", false, false, 150, 3},
			{"a range with a middle", domain, "(&(sn=x)(departmentNumber=*a*))", false, false, 150, 3},
			{"all children", people, "(objectClass=*)", false, false, 700, 5},
			{"sorted", domain, "(sn=x)", false, false, 700, map[catalog.Layout]int{catalog.RowLayout: 10, catalog.ColumnLayout: 9}[layout]},
			{"a test of secrets", domain, "(&(departmentNumber=a)(userPassword=*))", false, false, 150, 2},
		} {
			t.Run(string(layout)+": "+c.what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := context.Background()
					time.Sleep(time.Hour) // the store was filled in another bubble, whose time began like this one's
					p := openOn(t, s)
					defer p.Close(ctx)
					n := state.Newest(p)
					defer n.Close()
					_, err := n.Find(ctx, name(people))
					must(t, err)
					base, err := n.Find(ctx, name(c.base))
					must(t, err)
					scope := op.WholeSubtree
					if c.filter == "(objectClass=*)" {
						scope = op.SingleLevel
					}
					q := partition.Query{Base: base.ID, Scope: scope, Filter: filter.ResolveSecrets(filter.MustParse(c.filter), p.Schema())}
					if c.what == "sorted" {
						sn := p.Schema().Attribute("sn")
						q.Order = &partition.SortKey{Type: sn, Rule: p.Schema().OrderingOf(sn)}
						if !search.Ordered(n, q.Order) {
							t.Fatal("no index has the order")
						}
					}
					if c.warm {
						for _, err := range search.Search(ctx, n, q) {
							must(t, err)
						}
					}
					began, found := time.Now(), 0
					q.Secrets = c.secrets
					for r, err := range search.Search(ctx, n, q) {
						must(t, err)
						found++
						if got := r.Entry.Find(p.Schema().Attribute("userPassword"), "") != nil; got != c.secrets {
							t.Fatalf("%s has a password: %v", r.Name, got)
						}
					}
					if found != c.found {
						t.Errorf("%d found, want %d", found, c.found)
					}
					trips := int(time.Since(began) / roundTrip)
					t.Logf("%s, %s, layout %s: %d round trips", c.filter, c.what, layout, trips)
					if trips > c.most {
						t.Errorf("%d sequential round trips, want at most %d", trips, c.most)
					}
				})
			})
		}
	}
}
