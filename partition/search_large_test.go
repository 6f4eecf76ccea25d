package partition_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// TestLargeValues checks that a search leaves large values that it does not need out of the entries that it
// reads and caches, and that everything else finds these values nevertheless.
func TestLargeValues(t *testing.T) {
	for what, s := range map[string]table.Store{"one server": tabletest.NewBatchMem(), "shared": tabletest.NewMem()} {
		t.Run(what, func(t *testing.T) {
			l := newPhotographed(t, server(t, s))
			for use, x := range map[string]struct {
				run  func(s *state.Snapshot) (any, error)
				want string
			}{
				"Entry": {func(s *state.Snapshot) (any, error) { return l.begins(s, "jpegPhoto", "userPassword"), nil }, "[photo of 0 secret]"},
				"Some": {func(s *state.Snapshot) (any, error) {
					e, err := s.Some(l.ctx, l.first, l.types("street"))
					return len(e.Values(l.types("street")[0])), err
				}, "1"},
				"Compare": {func(s *state.Snapshot) (any, error) {
					return s.Compare(l.ctx, l.first, "street", []byte(largeText("STREET", 0)))
				}, "true"},
				"Compare false": {func(s *state.Snapshot) (any, error) {
					return s.Compare(l.ctx, l.first, "street", []byte(largeText("street", 1)))
				}, "false"},
				"ValueRange": {func(s *state.Snapshot) (any, error) {
					vs, _, err := s.ValueRange(l.ctx, l.first, l.types("jpegPhoto")[0], "", 0, 1)
					return len(vs), err
				}, "1"},
			} {
				l.each(func(s *state.Snapshot) {
					got, err := x.run(s)
					must(t, err)
					if fmt.Sprint(got) != x.want {
						t.Errorf("%s: %v, want %s", use, got, x.want)
					}
				})
			}
			for _, x := range []struct {
				filter, asked string
				found, has    int
			}{
				{"(mail=*)", "mail", photographed + 1, photographed + 1},
				{"(mail=*)", "jpegPhoto", photographed + 1, photographed},
				{"(mail=*)", "street", photographed + 1, photographed},
				{"(jpegPhoto=*)", "mail", photographed, photographed},
				{"(&(mail=*)(!(jpegPhoto=*)))", "mail", 1, 1},
				{"(street=street of 7:*)", "mail", 1, 1},
				{"(&(mail=*)(street=*7: large*))", "jpegPhoto", 4, 4},
				{"(street=" + largeText("street", 7) + ")", "street", 1, 1},
			} {
				for _, q := range []partition.Query{{}, {Lend: true}, {Secrets: true}} {
					l.each(func(s *state.Snapshot) {
						if found, has := l.find(s, q, x.filter, x.asked); found != x.found || has != x.has {
							t.Errorf("%.40s: found %d, %d with %s, want %d, %d", x.filter, found, has, x.asked, x.found, x.has)
						}
					})
				}
			}
			var got []string
			for _, change := range []func(tx *partition.Tx) error{
				modifying("cn=0,"+domain, op.ModReplace, "mail: y@example.com"),
				modifying("cn=0,"+domain, op.ModAdd, "street: second"),
				modifying("cn=0,"+domain, op.ModDelete, "street: "+largeText("street", 0)),
				func(tx *partition.Tx) error {
					return tx.Rename(l.ctx, name("cn=0,"+domain), name("cn=renamed")[0], true, nil)
				},
			} {
				l.forget()
				must(t, update(t, l.p, change))
				s := state.Newest(l.p)
				got = l.begins(s, "jpegPhoto", "street", "mail")
				s.Close()
				l.each(func(s *state.Snapshot) { l.begins(s, "jpegPhoto") })
			}
			if got := fmt.Sprint(got); got != "[photo of 0 second y@example.com]" {
				t.Errorf("after the changes: %s", got)
			}
		})
	}
}

// photographed is the number of people with large values.
const photographed = 40

func largeText(a string, i int) string {
	return fmt.Sprintf("%s of %d: %s", a, i, strings.Repeat("large ", 2000))
}

// photos is a directory of people with large values, and one without.
type photos struct {
	t     *testing.T
	ctx   context.Context
	p     *partition.Partition
	first entry.ID // of the first of the people
	then  table.Revision
}

func newPhotographed(t *testing.T, p *partition.Partition) *photos {
	l := &photos{t: t, ctx: context.Background(), p: p}
	must(t, onlineschema.SetSuffixes(l.ctx, p, []string{domain}))
	must(t, add(t, p, domain, domainLines...))
	for i := range photographed {
		must(t, addPerson(t, p, fmt.Sprintf("cn=%d,%s", i, domain), "mail: x@example.com", "userPassword: secret",
			"jpegPhoto: "+largeText("photo", i), "street: "+largeText("street", i)))
	}
	must(t, addPerson(t, p, "cn=plain,"+domain, "mail: x@example.com"))
	l.then = p.DB.Snapshot().Max()
	s := state.Newest(p)
	defer s.Close()
	at, err := s.Find(l.ctx, name("cn=0,"+domain))
	must(t, err)
	l.first = at.ID
	l.find(s, partition.Query{}, "(mail=*)", "mail") // reads large values, and so learns which they are
	return l
}

func (l *photos) types(names ...string) (ts []*schema.AttributeType) {
	for _, n := range names {
		ts = append(ts, l.p.Schema().Attribute(n))
	}
	return ts
}

// find searches with a filter. It returns the number of results, and how many of them have a value of the
// attribute that is asked for.
func (l *photos) find(s *state.Snapshot, q partition.Query, f, asked string) (found, has int) {
	l.t.Helper()
	q.Base, q.Scope, q.Filter, q.Only = entry.Root, op.WholeSubtree, resolved(l.p, "%s", f), l.types(asked)
	for r, err := range search.Search(l.ctx, s, q) {
		must(l.t, err)
		if found++; len(r.Entry.Values(q.Only[0])) > 0 {
			has++
		}
	}
	return found, has
}

// forget makes the cache contain the people without large values.
func (l *photos) forget() {
	l.t.Helper()
	s := state.Newest(l.p)
	defer s.Close()
	for r, err := range search.Search(l.ctx, s, partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: resolved(l.p, "(mail=*)"), Only: l.types("mail")}) {
		must(l.t, err)
		l.p.Catalog.Load().Cache.Entries.Delete(r.ID)
	}
	l.find(s, partition.Query{}, "(mail=*)", "mail")
	if i := s.Current(l.first); i == nil || i.Omits() == nil {
		l.t.Fatalf("the cached entry is %v", i)
	}
}

// each calls f with the newest state, whose entries the cache contains without large values, and with a
// state of the past, whose entries are read from the store.
func (l *photos) each(f func(s *state.Snapshot)) {
	l.t.Helper()
	l.forget()
	newest := state.Newest(l.p)
	defer newest.Close()
	f(newest)
	past, err := state.At(l.ctx, l.p, l.then)
	must(l.t, err)
	defer past.Close()
	f(past)
}

// begins returns the beginnings of the values of some attributes of the first of the people.
func (l *photos) begins(s *state.Snapshot, attributes ...string) (all []string) {
	l.t.Helper()
	e, err := s.Entry(l.ctx, l.first, true)
	must(l.t, err)
	for _, typ := range l.types(attributes...) {
		for _, v := range e.Values(typ) {
			begin, _, _ := strings.Cut(string(v), ":")
			all = append(all, begin)
		}
	}
	if !slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, "photo") }) {
		l.t.Errorf("%s has no photo", l.first)
	}
	return all
}

// TestManyLargeValues is like TestLargeValues, for an entry that has very many values only if its large values are counted: the
// cache contains it as an entry with few values.
func TestManyLargeValues(t *testing.T) {
	for what, s := range map[string]table.Store{"one server": tabletest.NewBatchMem(), "shared": tabletest.NewMem()} {
		t.Run(what, func(t *testing.T) {
			l := newPhotographed(t, server(t, s))
			lines := []string{"mail: x@example.com", "userPassword: secret"}
			for i := range state.MaxColumnsWithSecrets {
				lines = append(lines, fmt.Sprintf("street: %d%s", i, largeText("street", i)[:1100]))
			}
			must(t, addPerson(t, l.p, "cn=many,"+domain, lines...))
			for _, q := range []partition.Query{{}, {Lend: true}, {Secrets: true}, {Secrets: true, Lend: true}} {
				for _, asked := range []string{"street", "mail"} {
					for _, f := range []string{"(cn=many)", "(&(cn=many)(street=*))", "(&(cn=many)(street=7street*))"} {
						l.forget()
						s := state.Newest(l.p)
						if found, has := l.find(s, q, f, asked); found != 1 || has != 1 {
							t.Errorf("%v, %v: found %d with %s, %d with %s, want 1 and 1", q.Secrets, q.Lend, found, f, has, asked)
						}
						s.Close()
					}
				}
			}
		})
	}
}
