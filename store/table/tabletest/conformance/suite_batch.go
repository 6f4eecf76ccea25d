package conformance

import (
	"fmt"
	"sync"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

type suiteTest = struct {
	name string
	test func(*fixture)
}

var batchTests = []suiteTest{
	{"Commit", testCommit},
	{"CommitWaits", testCommitWaits},
	{"CommitRejects", testCommitRejects},
}

func testCommit(f *fixture) {
	b := f.s.(table.Batcher)
	other := f.create(table.Spec{Families: []table.FamilySpec{{Name: 'x'}}})
	un := f.create(table.Spec{Unversioned: true, Families: []table.FamilySpec{{Name: 'h'}}})
	for r := table.Revision(1); r <= 20; r++ {
		wait, err := b.Commit(f.ctx, table.Batch{Revision: r, Writes: []table.Write{
			{Table: f.tn, Mutations: []table.Mutation{mutation("one", fmt.Sprintf("a:n=%d c:r%02d=1", r, r)), mutation("one", "b:x=1")}},
			{Table: other, Mutations: []table.Mutation{mutation(fmt.Sprintf("r%02d", r), "x:n=1")}},
			{Table: un, Mutations: []table.Mutation{mutation("head", fmt.Sprintf("h:n=%d", r))}},
		}})
		if err != nil {
			f.Fatal(err)
		}
		// The batch is readable before wait is called.
		f.wantRow("one", table.Select{Families: []table.Family{'a'}}, fmt.Sprintf("a:n=%d@%d", r, r))
		if err := wait(); err != nil {
			f.Fatal(err)
		}
	}
	head, err := f.s.Table(un).Get(f.ctx, []byte("head"), table.Select{})
	if err != nil || len(head.Cells) != 1 || string(head.Cells[0].Value) != "20" {
		f.Errorf("the unversioned row is %s, %v", showCells(head.Cells), err)
	}
	rows, err := collect(f.ctx, f.s.Table(other), table.Range{}, table.Select{View: at(7)})
	if err != nil || len(rows) != 7 {
		f.Errorf("%d rows at 7, %v", len(rows), err)
	}
	f.wantRow("one", table.Select{View: at(2)}, "a:n=2@2 b:x=1@2 c:r01=1@1 c:r02=1@2")
	wait, err := b.Commit(f.ctx, table.Batch{Revision: 21, Writes: []table.Write{
		{Table: un, Mutations: []table.Mutation{mutation("head", "h:n- h:m=1")}}}})
	if err != nil {
		f.Fatal(err)
	}
	if err := wait(); err != nil {
		f.Fatal(err)
	}
	head, err = f.s.Table(un).Get(f.ctx, []byte("head"), table.Select{})
	if err != nil || len(head.Cells) != 1 || string(head.Cells[0].Qualifier) != "m" {
		f.Errorf("after a delete the unversioned row is %s, %v", showCells(head.Cells), err)
	}
}

// testCommitWaits calls many waits concurrently while commits continue.
func testCommitWaits(f *fixture) {
	b := f.s.(table.Batcher)
	var one sync.Mutex
	var last table.Revision
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for range 20 {
				one.Lock()
				last++
				r := last
				wait, err := b.Commit(f.ctx, table.Batch{Revision: r, Writes: []table.Write{
					{Table: f.tn, Mutations: []table.Mutation{mutation("row", fmt.Sprintf("c:w%d=%d", w, r))}}}})
				one.Unlock()
				if err == nil {
					err = wait()
				}
				if err != nil {
					f.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if row := f.get("row", table.Select{}); len(row.Cells) != 8 || row.Newest() != 160 {
		f.Errorf("after 160 commits the row is %s", showCells(row.Cells))
	}
}

// testCommitRejects checks that a batch that cannot be written completely writes nothing.
func testCommitRejects(f *fixture) {
	b := f.s.(table.Batcher)
	good := table.Write{Table: f.tn, Mutations: []table.Mutation{mutation("row", "a:x=1")}}
	for name, bad := range map[string]table.Write{
		"no such table":  {Table: "conf_no_such_table", Mutations: good.Mutations},
		"no such family": {Table: f.tn, Mutations: []table.Mutation{mutation("row", "z:x=1")}},
		"too large": {Table: f.tn, Mutations: []table.Mutation{{Row: []byte("row"), Cells: []table.Cell{
			{Family: 'a', Qualifier: []byte("q"), Value: make([]byte, table.MaxValue+1)}}}}},
	} {
		if _, err := b.Commit(f.ctx, table.Batch{Revision: 1, Writes: []table.Write{good, bad}}); err == nil {
			f.Errorf("%s: no error", name)
		}
		f.wantRow("row", table.Select{}, "")
	}
}
