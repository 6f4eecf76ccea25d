package partition_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/erase"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// eraseStores are the stores for tests of erasing: a store with cells of all revisions, a
// store with images, and a store that is atomic only per row.
var eraseStores = map[string]func(t testing.TB) table.Store{
	"batch": func(testing.TB) table.Store { return tabletest.NewBatchMem() },
	"lsm": func(t testing.TB) table.Store {
		s, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem(), NoSync: true})
		must(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	},
	"shared": func(testing.TB) table.Store { return tabletest.NewMem() },
}

// eachErase runs a test on a directory of people in each of eraseStores.
func eachErase(t *testing.T, test func(*testing.T, *life)) {
	eachEraseStore(t, func(t *testing.T, s table.Store) { test(t, newLife(t, s)) })
}

// eachEraseStore runs a test on each of eraseStores.
func eachEraseStore(t *testing.T, test func(*testing.T, table.Store)) {
	for _, kind := range slices.Sorted(maps.Keys(eraseStores)) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, eraseStores[kind](t))
		})
	}
}

// A life is a directory with a history. moments maps names to states of the history.
type life struct {
	t       *testing.T
	store   table.Store
	p       *partition.Partition
	moments map[string]table.Revision
}

func newLife(t *testing.T, s table.Store) *life {
	l := &life{t: t, store: s, moments: map[string]table.Revision{}}
	l.p = openErase(t, s)
	ctx := context.Background()
	must(t, onlineschema.SetSuffixes(ctx, l.p, []string{"dc=example,dc=com"}))
	must(t, onlineschema.SetUnique(ctx, l.p, []catalog.Unique{catalog.Unique{Attribute: "mail"}}, true))
	must(t, add(t, l.p, "dc=example,dc=com", "objectClass: domain"))
	must(t, add(t, l.p, "ou=people,dc=example,dc=com", "objectClass: organizationalUnit"))
	must(t, add(t, l.p, "uid=ann,ou=people,dc=example,dc=com", somebody("ann", "Ann Lee")...))
	return l
}

// openErase opens a directory with row indexes and column indexes.
func openErase(t testing.TB, s table.Store) *partition.Partition {
	t.Helper()
	p, err := partition.Open(context.Background(), s, partition.Options{Format: *storeFormat, Create: true, Schema: tagged, Txn: quick, Indexes: []catalog.Index{
		{Attribute: "uid", Layout: catalog.ColumnLayout}, {Attribute: "mail", Layout: catalog.ColumnLayout},
		{Attribute: "sn", Layout: catalog.RowLayout}, {Attribute: "member", Layout: catalog.ColumnLayout},
		{Attribute: "objectClass", Layout: catalog.RowLayout}}})
	must(t, err)
	t.Cleanup(func() { p.Close(context.Background()) })
	return p
}

func somebody(uid, cn string) []string {
	_, sn, _ := strings.Cut(cn, " ")
	return []string{"objectClass: inetOrgPerson", "uid: " + uid, "cn: " + cn, "sn: " + sn, "mail: " + uid + "@example.com",
		"userPassword: {SSHA}of somebody", "preferredLanguage: " + uid}
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// keep records the newest state under a name.
func (l *life) keep(moment string) {
	s := state.Newest(l.p)
	defer s.Close()
	l.moments[moment] = s.Revision()
}

func (l *life) update(by partition.By, f func(tx *partition.Tx) error) {
	l.t.Helper()
	_, err := write.Update(context.Background(), l.p, by, f)
	must(l.t, err)
}

func (l *life) modify(dn string, kind op.ModKind, lines ...string) {
	l.t.Helper()
	l.update(partition.By{Name: "cn=admin"}, func(tx *partition.Tx) error {
		var ms []op.Modification
		for _, a := range attrs(lines...) {
			ms = append(ms, op.Modification{Kind: kind, PartialAttribute: a})
		}
		return tx.Modify(context.Background(), name(dn), ms)
	})
}

func (l *life) rename(dn, rdn string) {
	l.t.Helper()
	l.update(partition.By{Name: "cn=admin"}, func(tx *partition.Tx) error {
		return tx.Rename(context.Background(), name(dn), name(rdn)[0], true, nil)
	})
}

func (l *life) delete(dn string) {
	l.t.Helper()
	l.update(partition.By{Name: "cn=admin"}, func(tx *partition.Tx) error { return tx.Delete(context.Background(), name(dn)) })
}

// john is the name of an entry that is added, joins a group, changes another entry as
// a user, and is deleted.
const john = "uid=jdoe,ou=people,dc=example,dc=com"

func (l *life) john() {
	l.t.Helper()
	must(l.t, add(l.t, l.p, john, somebody("jdoe", "John Doe")...))
	must(l.t, add(l.t, l.p, "cn=staff,dc=example,dc=com", "objectClass: groupOfNames",
		"member: "+john, "member: uid=ann,ou=people,dc=example,dc=com"))
	l.keep("he is there")
	l.update(partition.By{Name: john, From: "192.0.2.7:5123", Session: "jdoe of example.net"}, func(tx *partition.Tx) error {
		return tx.Modify(context.Background(), name("uid=ann,ou=people,dc=example,dc=com"),
			[]op.Modification{{Kind: op.ModAdd, PartialAttribute: attrs("description: by a colleague")[0]}})
	})
	l.keep("he has written")
	must(l.t, add(l.t, l.p, "cn=thing,"+john, "objectClass: device", "description: of his"))
	l.modify(john, op.ModReplace, "mail: jdoe@example.net")
	l.keep("he has a thing")
	l.update(partition.By{Name: "cn=admin"}, func(tx *partition.Tx) error {
		to := name("dc=example,dc=com")
		return tx.Rename(context.Background(), name("cn=thing,"+john), name("cn=thing")[0], false, &to)
	})
	l.modify("cn=staff,dc=example,dc=com", op.ModDelete, "member: "+john)
	l.modify("uid=ann,ou=people,dc=example,dc=com", op.ModDelete, "description: by a colleague")
	l.delete(john)
	l.keep("he is gone")
}

var sealedText = regexp.MustCompile(`sealed [0-9a-f-]{36}:[\w-]+`)

// bytesOf returns the places in the store where any of the words occurs, in any revision.
// It ignores case.
func (l *life) bytesOf(words ...string) (found []string) {
	l.t.Helper()
	ctx := context.Background()
	tables, err := l.store.Names(ctx)
	must(l.t, err)
	ids := l.rows("master")
	withoutRandom := func(b []byte) []byte { // an id or a sealed text may happen to contain a word
		for _, id := range ids {
			b = bytes.ReplaceAll(b, id, nil)
		}
		return sealedText.ReplaceAll(b, nil)
	}
	look := func(b []byte, where ...any) {
		lower := bytes.ToLower(b)
		for _, w := range words {
			w := []byte(strings.ToLower(w))
			if bytes.Contains(lower, w) && bytes.Contains(bytes.ToLower(withoutRandom(b)), w) {
				found = append(found, fmt.Sprintf("%q of %s has %q: %q", where[1:], where[0], w, b))
			}
		}
	}
	for _, name := range tables {
		t := l.store.Table(name)
		history := false
		for p, err := range t.(table.Redactor).History(ctx, table.Range{}) {
			if history = err == nil; !history {
				break
			}
			look(p.Key, name, "key")
			for _, c := range p.Cells {
				look(c.Qualifier, name, "column", p.Key)
				look(c.Value, name, "value", p.Key)
			}
		}
		for row, err := range t.Scan(ctx, table.Range{}, table.Select{}) {
			must(l.t, err)
			for _, c := range row.Cells {
				look(c.Value, name, "row", row.Key)
			}
		}
	}
	return found
}

// rows returns the keys of the rows that a table has or had.
func (l *life) rows(name string) (keys [][]byte) {
	l.t.Helper()
	t := l.store.Table(name)
	for p, err := range t.(table.Redactor).History(context.Background(), table.Range{}) {
		if err != nil {
			break // the store keeps no history
		}
		keys = append(keys, bytes.Clone(p.Key))
	}
	for row, err := range t.Scan(context.Background(), table.Range{}, table.Select{}) {
		must(l.t, err)
		keys = append(keys, bytes.Clone(row.Key))
	}
	return keys
}

// The method "at" returns the state that keep recorded under a name, with one line of text for
// each entry.
func (l *life) at(moment string) (entries []string) {
	l.t.Helper()
	ctx := context.Background()
	s, err := state.At(ctx, l.p, l.moments[moment])
	must(l.t, err)
	defer s.Close()
	for r, err := range search.Search(ctx, s, partition.Query{Scope: op.WholeSubtree, Filter: filter.Const(filter.True)}) {
		must(l.t, err)
		at, err := s.Find(ctx, name(r.Name.String()))
		if err != nil || at.ID != r.ID {
			l.t.Errorf("%s: %q is not found by its name: %v", moment, r.Name, err)
		}
		var b strings.Builder
		b.WriteString(uuid.ReplaceAllString(r.Name.String(), "its id"))
		byName := func(a, b entry.Attribute) int { return strings.Compare(a.Description(), b.Description()) }
		for _, a := range slices.SortedFunc(slices.Values(r.Entry.Attributes), byName) {
			switch a.Type.Name() {
			case "entryUUID", "entryCSN", "createTimestamp", "modifyTimestamp", "structuralObjectClass", "objectClass", "creatorsName":
				continue
			}
			for _, v := range a.Values {
				fmt.Fprintf(&b, " | %s %s", a.Description(), v)
			}
		}
		entries = append(entries, b.String())
	}
	slices.Sort(entries)
	return entries
}

func (l *life) want(moment string, want ...string) {
	l.t.Helper()
	got := l.at(moment)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		l.t.Errorf("%s:\n got %s\nwant %s", moment, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func (l *life) erase(o erase.Options) *erase.Erased {
	l.t.Helper()
	o.By.Name = "cn=admin"
	done, err := erase.Erase(context.Background(), l.p, o)
	must(l.t, err)
	n := 0
	_, err = verify.Verify(context.Background(), l.p, verify.Options{Found: func(f *verify.Finding) error { n++; l.t.Errorf("verify: %v", f); return nil }})
	must(l.t, err)
	return done
}

const (
	annLine    = "uid=ann,ou=people,dc=example,dc=com | cn Ann Lee | mail ann@example.com | modifiersName cn=admin | preferredLanguage ann | sn Lee | uid ann"
	topLine    = "dc=example,dc=com | dc example | modifiersName cn=admin"
	peopleLine = "ou=people,dc=example,dc=com | modifiersName cn=admin | ou people"
	staffLine  = "cn=staff,dc=example,dc=com | cn staff | member uid=ann,ou=people,dc=example,dc=com | modifiersName cn=admin"
	nameless   = "entryUUID=its id,ou=people,dc=example,dc=com | modifiersName cn=admin"
)

// TestEraseName checks that nothing remains of an erased entry except the fact that it
// existed.
func TestEraseName(t *testing.T) {
	eachErase(t, func(t *testing.T, l *life) {
		l.john()
		words := []string{"jdoe", "John", "Doe", "192.0.2.7"}
		if found := l.bytesOf(words...); len(found) < 20 {
			t.Fatalf("it is stored in few places only: %q", found)
		}
		before := l.bytesOf(words...)
		o := erase.Options{Name: name(john), Dry: true}
		dry := l.erase(o)
		if !slices.Equal(l.bytesOf(words...), before) {
			t.Error("a dry run changes something")
		}
		o.Dry = false
		done := l.erase(o)
		if done.Revision == 0 || done.Gone != 1 || done.Entries != 3 {
			t.Errorf("erased is %+v", done)
		}
		if done.Revision = 0; *done != *dry {
			t.Errorf("erased is %+v, %+v was to be", done, dry)
		}
		for _, found := range l.bytesOf(words...) {
			t.Error(found)
		}
		l.want("he is there", topLine, peopleLine, annLine, staffLine, nameless)
		l.want("he has written", topLine, peopleLine, strings.Replace(strings.Replace(annLine,
			"modifiersName cn=admin | ", "", 1), " | mail", " | description by a colleague | mail", 1), staffLine, nameless)
		l.want("he has a thing", topLine, peopleLine, strings.Replace(strings.Replace(annLine,
			"modifiersName cn=admin | ", "", 1), " | mail", " | description by a colleague | mail", 1), staffLine, nameless,
			"cn=thing,entryUUID=its id,ou=people,dc=example,dc=com | cn thing | description of his | modifiersName cn=admin")
		l.want("he is gone", topLine, peopleLine, annLine, staffLine, "cn=thing,dc=example,dc=com | cn thing | description of his | modifiersName cn=admin")
		if again := l.erase(o); again.Revision != 0 || again.Entries != 0 {
			t.Errorf("once more erases %+v", again)
		}
	})
}

// TestEraseStanding checks that Erase refuses to erase data that the present state contains.
func TestEraseStanding(t *testing.T) {
	eachErase(t, func(t *testing.T, l *life) {
		l.john()
		l.modify("uid=ann,ou=people,dc=example,dc=com", op.ModAdd, "description: JDOE")
		for _, o := range []erase.Options{
			{Value: []byte("jdoe")},
			{Name: name("uid=ann,ou=people,dc=example,dc=com")},
			{Attribute: "cn", Value: []byte("ann  LEE")},
			{Attribute: "name", Value: []byte("Lee")},
			{Value: []byte("example")},
		} {
			before := l.bytesOf("jdoe", "lee")
			o.By.Name = "cn=admin"
			_, err := erase.Erase(context.Background(), l.p, o)
			var standing *erase.StandingError
			if !errors.As(err, &standing) || standing.Count == 0 || len(standing.Names) == 0 {
				t.Errorf("erasing %q %q: %v", o.Name, o.Value, err)
			}
			if !slices.Equal(l.bytesOf("jdoe", "lee"), before) {
				t.Errorf("erasing %q %q changes something", o.Name, o.Value)
			}
		}
	})
}

// TestEraseValue checks that a former value is erased wherever it was an RDN's value, an
// attribute's value, or part of a name in a value. The entry that had the value, and the
// entries below that entry, must remain.
func TestEraseValue(t *testing.T) {
	eachErase(t, func(t *testing.T, l *life) {
		former, latter := "uid=former,ou=people,dc=example,dc=com", "uid=latter,ou=people,dc=example,dc=com"
		must(t, add(t, l.p, former, somebody("former", "Kim Former")...))
		must(t, add(t, l.p, "cn=thing,"+former, "objectClass: device", "owner: "+former, "description: Former Kim"))
		l.keep("former")
		l.update(partition.By{Name: former, From: "192.0.2.7:5123"}, func(tx *partition.Tx) error {
			return tx.Modify(context.Background(), name(former), []op.Modification{{Kind: op.ModReplace,
				PartialAttribute: attrs("preferredLanguage: FORMER")[0]}, {Kind: op.ModDelete, PartialAttribute: attrs("mail: former@example.com")[0]}})
		})
		l.rename(former, "uid=latter")
		l.modify(latter, op.ModReplace, "cn: Kim Latter", "sn: Latter", "preferredLanguage: en", "uid: latter")
		l.modify("cn=thing,"+latter, op.ModReplace, "owner: "+latter, "description: of Kim's")
		l.keep("latter")
		must(t, add(t, l.p, former, somebody("former", "Another One")...))
		l.delete(former) // delete the new entry, so that its name is free again
		latest := l.at("latter")
		done := l.erase(erase.Options{Value: []byte("Former")})
		if done.Names != 2 || done.Gone != 0 || done.Commits == 0 {
			t.Errorf("erased is %+v", done)
		}
		// A value that contains the erased value and more text is a different value. It
		// remains.
		others := regexp.MustCompile(`(?i)former[ ]+kim|kim[ ]+former|former@example`)
		for _, found := range l.bytesOf("former") {
			if !others.MatchString(found) {
				t.Error(found)
			}
		}
		noName := "entryUUID=its id,ou=people,dc=example,dc=com"
		l.want("former", topLine, peopleLine, annLine, noName+" | cn Kim Former | mail former@example.com | modifiersName cn=admin",
			"cn=thing,"+noName+" | cn thing | description Former Kim | modifiersName cn=admin")
		if now := l.at("latter"); !slices.Equal(now, latest) {
			t.Errorf("the present is\n%s, was\n%s", strings.Join(now, "\n"), strings.Join(latest, "\n"))
		}
		for _, more := range []string{"Former Kim", "Kim Former", "former@example.com"} {
			l.erase(erase.Options{Value: []byte(more)})
		}
		for _, found := range l.bytesOf("former") {
			t.Error(found)
		}
	})
}

// TestEraseMemory checks that all servers drop erased data from their caches.
func TestEraseMemory(t *testing.T) {
	ctx := context.Background()
	l := newLife(t, tabletest.NewMem())
	other := openErase(t, l.store)
	must(t, add(t, l.p, john, somebody("jdoe", "John Doe")...))
	must(t, other.CatchUp(ctx))
	s := state.Newest(other)
	at, err := s.Find(ctx, name(john))
	must(t, err)
	_, err = s.Entry(ctx, at.ID, false)
	must(t, err)
	s.Close()
	l.delete(john)
	must(t, other.CatchUp(ctx))
	if !remembers(other, at.ID) {
		t.Fatal("the other server remembers nothing: the test shows nothing")
	}
	l.erase(erase.Options{Name: name(john)})
	must(t, other.CatchUp(ctx))
	if remembers(l.p, at.ID) || remembers(other, at.ID) {
		t.Error("it is still in memory")
	}
}

// TestEraseUsedName checks entries that had the same name at different times, or the same
// RDN below another parent. Each entry must be treated separately.
func TestEraseUsedName(t *testing.T) {
	eachErase(t, func(t *testing.T, l *life) {
		must(t, add(t, l.p, "ou=others,dc=example,dc=com", "objectClass: organizationalUnit"))
		elsewhere := "uid=jdoe,ou=others,dc=example,dc=com"
		must(t, add(t, l.p, elsewhere, "objectClass: account", "uid: jdoe"))
		must(t, add(t, l.p, john, somebody("jdoe", "John Doe")...))
		l.keep("the first")
		l.delete(john)
		must(t, add(t, l.p, john, somebody("jdoe", "Joan Dow")...))
		l.keep("the second")
		l.delete(john)
		done := l.erase(erase.Options{Name: name(john)})
		if done.Gone != 2 {
			t.Errorf("erased is %+v", done)
		}
		others := []string{topLine, peopleLine, annLine, "ou=others,dc=example,dc=com | modifiersName cn=admin | ou others",
			elsewhere + " | modifiersName cn=admin | uid jdoe", nameless}
		l.want("the first", others...)
		l.want("the second", others...)
		for _, found := range l.bytesOf("Doe", "Dow", "jdoe@") {
			if !strings.Contains(found, "jdoe") || strings.Contains(found, "jdoe@") {
				t.Error(found)
			}
		}
		if got := searched(t, l.p, "dc=example,dc=com", op.WholeSubtree, "(uid=jdoe)"); !slices.Equal(got, []string{elsewhere}) {
			t.Errorf("found is %q", got)
		}
	})
}

// TestEraseAttribute erases a value of one attribute and of its subtypes. It checks that an
// equal value of another attribute stays in the past.
func TestEraseAttribute(t *testing.T) {
	eachErase(t, func(t *testing.T, l *life) {
		l.modify("uid=ann,ou=people,dc=example,dc=com", op.ModAdd, "givenName: Mo", "description: Mo")
		l.keep("both")
		l.modify("uid=ann,ou=people,dc=example,dc=com", op.ModDelete, "givenName: Mo")
		l.modify("uid=ann,ou=people,dc=example,dc=com", op.ModDelete, "description: Mo")
		if done := l.erase(erase.Options{Attribute: "name", Value: []byte("mo")}); done.Values != 1 {
			t.Errorf("erased is %+v", done)
		}
		l.want("both", topLine, peopleLine, strings.Replace(annLine, " | mail", " | description Mo | mail", 1))
	})
}

// TestEraseCrash interrupts erasures, each at another of the first 60 calls of the store. It
// checks that a second erasure completes the interrupted one.
func TestEraseCrash(t *testing.T) {
	for at := 1; at <= 60; at += 1 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			mem := tabletest.NewBatchMem()
			l := newLife(t, mem)
			l.john()
			must(t, l.p.Close(context.Background()))
			faulty, faults := tabletest.WithFaults(mem, uint64(at))
			o := erase.Options{Name: name(john), By: partition.By{Name: "cn=admin"}}
			p := openErase(t, faulty)
			faults.CrashAt(at)
			_, _ = erase.Erase(context.Background(), p, o) // Erase fails when the crash occurs
			l.p = openErase(t, mem)
			l.erase(o)
			for _, found := range l.bytesOf("jdoe", "Doe", "192.0.2.7") {
				t.Error(found)
			}
			l.want("he is there", topLine, peopleLine, annLine, staffLine, nameless)
		})
	}
}

// TestEraseBeside erases entries while other goroutines write, read the past and collect
// garbage. Afterwards the store must not contain the names of the erased entries.
func TestEraseBeside(t *testing.T) {
	eachErase(t, func(t *testing.T, l *life) {
		ctx := context.Background()
		stop := time.Now().Add(time.Second)
		gone := make(chan string, 1000)
		var wg sync.WaitGroup
		for w := range 2 {
			wg.Go(func() {
				for n := 0; time.Now().Before(stop) && !t.Failed(); n++ {
					dn := l.comeAndGo(fmt.Sprintf("q%dx%dq", w, n))
					if dn == "" {
						continue
					}
					select {
					case gone <- dn:
					default: // the channel is full: this entry is not erased
					}
				}
			})
		}
		for seed := range 2 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(1, uint64(seed)))
				for time.Now().Before(stop) && !t.Failed() {
					l.readPast(time.Duration(rnd.IntN(300)) * time.Millisecond)
				}
			})
		}
		keep := 200 * time.Millisecond
		if l.p.DB.Shared() {
			keep = time.Hour // every server must keep history longer than marks
		}
		wg.Go(func() {
			for time.Now().Before(stop) && !t.Failed() {
				if _, err := l.p.DB.Collect(ctx, txn.CollectOptions{Retention: keep}); err != nil {
					t.Errorf("collecting: %v", err)
				}
			}
		})
		var erased []string
		for time.Now().Before(stop) && !t.Failed() {
			select {
			case dn := <-gone:
				erased = append(erased, dn)
				if _, err := erase.Erase(ctx, l.p, erase.Options{Name: name(dn), By: partition.By{Name: "cn=admin"}}); err != nil {
					t.Errorf("erasing %s: %v", dn, err)
				}
			default:
				runtime.Gosched()
			}
		}
		wg.Wait()
		if len(erased) == 0 {
			t.Skip("nothing was erased in time: the machine is busy")
		}
		l.erase(erase.Options{Name: name(erased[0])})
		var words []string
		for _, dn := range erased {
			words = append(words, string(name(dn)[0][0].Value))
		}
		for _, found := range l.bytesOf(words...) {
			t.Error(found)
		}
	})
}

// comeAndGo adds an entry, deletes it again and returns its name, or "" if it fails.
func (l *life) comeAndGo(uid string) (dn string) {
	dn = "uid=" + uid + ",ou=people,dc=example,dc=com"
	err := add(l.t, l.p, dn, somebody(uid, uid+" "+uid)...)
	if err == nil {
		err = update(l.t, l.p, func(tx *partition.Tx) error { return tx.Delete(context.Background(), name(dn)) })
	}
	switch {
	case errors.Is(err, txn.ErrConflict):
		return ""
	case err != nil:
		l.t.Errorf("%s comes and goes: %v", dn, err)
		return ""
	}
	return dn
}

// readPast reads all entries as they were at a time in the past.
func (l *life) readPast(ago time.Duration) {
	ctx := context.Background()
	now := state.Newest(l.p)
	r := now.Revision()
	now.Close()
	s, err := state.At(ctx, l.p, revision.At(r.Time().Add(-ago)))
	if errors.Is(err, txn.ErrRevision) {
		return
	}
	if err != nil {
		l.t.Errorf("the past: %v", err)
		return
	}
	defer s.Close()
	for r, err := range search.Search(ctx, s, partition.Query{Scope: op.WholeSubtree, Filter: filter.Const(filter.True)}) {
		if err != nil && !errors.Is(err, txn.ErrRevision) {
			l.t.Errorf("reading the past: %v", err)
		}
		if err == nil && r.Name == nil {
			l.t.Error("an entry of the past has no name")
		}
	}
}

// remembers reports whether the cache of entries contains the entry, or whether the cache of
// names or the cache of children contains anything at all.
func remembers(p *partition.Partition, id entry.ID) bool {
	s := state.Newest(p)
	defer s.Close()
	c := s.Catalog.Cache
	_, ok := c.Entries.Get(id)
	return ok || c.Names.EstimatedSize()+c.Children.EstimatedSize() > 0
}
