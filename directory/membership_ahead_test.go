package directory_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// readCounter is a store in memory that counts the calls of GetMany.
type readCounter struct {
	*tabletest.Mem
	reads atomic.Int64
}

type countedTable struct {
	table.Table
	table.Versioner
	of *readCounter
}

func (s *readCounter) Table(name string) table.Table {
	t := s.Mem.Table(name)
	return countedTable{t, t.(table.Versioner), s}
}

func (t countedTable) GetMany(ctx context.Context, rows [][]byte, s table.Select) ([]table.Row, error) {
	t.of.reads.Add(1)
	return t.Table.GetMany(ctx, rows, s)
}

// TestGroupsAreReadTogether checks that a search that returns the memberships of many entries
// reads the groups of a batch of entries together. Reading them entry by entry takes two reads for each.
func TestGroupsAreReadTogether(t *testing.T) {
	ctx := context.Background()
	store := &readCounter{Mem: tabletest.NewMem()}
	p, err := partition.Open(ctx, store, partition.Options{Create: true, Schema: schema.Core()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(ctx)
	if err := onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}); err != nil {
		t.Fatal(err)
	}
	s := newDirectory(t, p, directory.Options{}).NewSession(nil)
	do := doing(t, s)
	do(&op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	do(&op.Add{Name: "dc=example,dc=com", Attributes: attributes(lines("objectClass: domain\ndc: example"))})
	const people = 100
	in := op.PartialAttribute{Description: "member"}
	for i := range people {
		name := fmt.Sprintf("uid=u%d,dc=example,dc=com", i)
		do(&op.Add{Name: name, Attributes: attributes(lines(fmt.Sprintf("objectClass: account\nuid: u%d", i)))})
		in.Values = append(in.Values, []byte(name))
	}
	do(&op.Add{Name: "cn=all,dc=example,dc=com", Attributes: append(attributes(lines("objectClass: groupOfNames\ncn: all")), in)})
	reads := func(attribute string) int64 {
		before := store.reads.Load()
		var sink nowhere
		s.Serve(ctx, &op.Message{ID: 1, Request: &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree,
			Filter: filter.MustParse("(objectClass=account)"), Attributes: []string{attribute}}}, &sink)
		if sink.entries != people {
			t.Fatalf("%d entries, want %d", sink.entries, people)
		}
		return store.reads.Load() - before
	}
	plain := reads("uid")
	if n := reads("memberOf") - plain; n > 10 {
		t.Errorf("memberOf of %d entries takes %d reads more than a search without it", people, n)
	}
}
