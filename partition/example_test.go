package partition_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
)

// This example uses a directory as a library. It opens a store, changes the directory in
// a transaction, searches it, and reads an earlier state.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "directory")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	store, err := lsm.Open(lsm.Options{Path: folder})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	p, err := partition.Open(ctx, store, partition.Options{Create: true})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)
	if err := onlineschema.SetSuffixes(ctx, p, []string{"o=Royal Navy"}); err != nil {
		log.Fatal(err)
	}

	navy, _ := dn.Parse("o=Royal Navy")
	hornblower, _ := dn.Parse("uid=hhornblo,o=Royal Navy")
	values := func(description string, vs ...string) op.PartialAttribute {
		a := op.PartialAttribute{Description: description}
		for _, v := range vs {
			a.Values = append(a.Values, []byte(v))
		}
		return a
	}

	// Both entries become visible at one revision, or neither does.
	before, err := write.Update(ctx, p, partition.By{Name: "cn=example"}, func(tx *partition.Tx) error {
		if _, err := tx.Add(ctx, navy, []op.PartialAttribute{values("objectClass", "organization")}, false); err != nil {
			return err
		}
		_, err := tx.Add(ctx, hornblower, []op.PartialAttribute{values("objectClass", "inetOrgPerson"), values("cn", "Horatio Hornblower"), values("sn", "Hornblower"), values("title", "Lieutenant")}, false)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = write.Update(ctx, p, partition.By{Name: "cn=example"}, func(tx *partition.Tx) error {
		return tx.Modify(ctx, hornblower, []op.Modification{{Kind: op.ModReplace, PartialAttribute: values("title", "Captain")}})
	})
	if err != nil {
		log.Fatal(err)
	}

	find := func(s *partition.Snapshot) {
		defer s.Close()
		at, err := s.Find(ctx, navy)
		if err != nil {
			log.Fatal(err)
		}
		q := partition.Query{Base: at.ID, Scope: op.WholeSubtree,
			Filter: filter.Resolve(filter.MustParse("(cn=horatio*)"), p.Schema())}
		for r, err := range search.Search(ctx, s, q) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s: %s\n", r.Name, r.Entry.Values(p.Schema().Attribute("title"))[0])
		}
	}
	find(state.Newest(p))
	past, err := state.At(ctx, p, before)
	if err != nil {
		log.Fatal(err)
	}
	find(past)

	// Output:
	// uid=hhornblo,o=Royal Navy: Captain
	// uid=hhornblo,o=Royal Navy: Lieutenant
}
