package partition_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

// stageMany makes 100,000 changes in a branch: half of them are new entries, and the other
// half modify the first 5,000 people, each ten times.
func stageMany(b *testing.B, p *partition.Partition) *branch.Branch {
	ctx := context.Background()
	branch, err := branch.Create(ctx, p, branch.Options{Name: "staging", By: partition.By{Name: "cn=admin"}})
	must(b, err)
	stage := func(fn func(i int, tx *partition.Tx) error, from int) {
		_, err := branch.Update(ctx, partition.By{Name: "cn=admin"}, func(tx *partition.Tx) error {
			for i := range 1000 {
				if err := fn(from+i, tx); err != nil {
					return err
				}
			}
			return nil
		})
		must(b, err)
	}
	for n := range 50 {
		stage(func(i int, tx *partition.Tx) error {
			_, err := tx.Add(ctx, name(benchDN(benchPeople+i)), benchPerson(benchPeople+i), false)
			return err
		}, n*1000)
		stage(func(i int, tx *partition.Tx) error {
			return tx.Modify(ctx, name(benchDN(i%5000)), []op.Modification{{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{
				Description: "description", Values: [][]byte{fmt.Appendf(nil, "staged %d", i)}}}})
		}, n*1000)
	}
	return branch
}

// BenchmarkBesideBranch measures reads and writes of the trunk of three stores: one without a
// branch, one with an open branch of 100,000 changes, and one into which a branch of 100,000
// changes was merged. The three stores take turns of a thousand operations, so that other
// programs disturb all three alike. For each store, it reports the processor time of one
// operation in the fastest turn.
func BenchmarkBesideBranch(b *testing.B) {
	ctx := context.Background()
	none, open, merged := benchPartition(b), benchPartition(b), benchPartition(b)
	stageMany(b, open)
	_, err := stageMany(b, merged).Merge(ctx, partition.By{Name: "cn=admin"})
	must(b, err)
	for _, c := range []struct {
		name string
		do   func(p *partition.Partition, i int)
	}{
		{"base", func(p *partition.Partition, i int) {
			s := state.Newest(p)
			defer s.Close()
			at, err := s.Find(ctx, name(benchDN(i%benchPeople)))
			must(b, err)
			_, err = s.Entry(ctx, at.ID, false)
			must(b, err)
		}},
		{"eq", func(p *partition.Partition, i int) {
			s := state.Newest(p)
			defer s.Close()
			base, err := s.Find(ctx, name("dc=example,dc=com"))
			must(b, err)
			for _, err := range search.Search(ctx, s, partition.Query{Base: base.ID, Scope: op.WholeSubtree, Filter: resolved(p, "(uid=u%07d)", i%benchPeople)}) {
				must(b, err)
			}
		}},
		{"modify", func(p *partition.Partition, i int) {
			must(b, update(b, p, func(tx *partition.Tx) error {
				return tx.Modify(ctx, name(benchDN(i%benchPeople)), []op.Modification{{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{
					Description: "description", Values: [][]byte{fmt.Appendf(nil, "rev %08d", i)}}}})
			}))
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			least := [3]time.Duration{1 << 62, 1 << 62, 1 << 62}
			i := 0
			for b.Loop() {
				for k, p := range []*partition.Partition{none, open, merged} {
					began := cpu()
					for n := range 1000 {
						c.do(p, (i*1000+n)*7919)
					}
					least[k] = min(least[k], cpu()-began)
				}
				i++
			}
			b.ReportMetric(float64(least[0])/1000, "none-ns/op")
			b.ReportMetric(float64(least[1])/1000, "open-ns/op")
			b.ReportMetric(float64(least[2])/1000, "merged-ns/op")
			b.ReportMetric(0, "ns/op")
		})
	}
}
