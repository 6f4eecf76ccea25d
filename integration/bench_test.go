package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// BenchmarkHBase measures the latency and the CPU time of operations on a real HBase,
// and compares them with one raw Get and one raw Put of gohbase.
func BenchmarkHBase(b *testing.B) {
	ctx := context.Background()
	quorum := hbasetest.Start(b)
	prefix := hbasetest.Prefix(b)
	p := openPartition(b, openPrefix(b, quorum, prefix))
	people := benchPeople(b, p)
	cl := gohbase.NewClient(quorum, gohbase.RpcQueueSize(1), gohbase.Logger(slog.New(slog.DiscardHandler)))
	defer cl.Close()
	raw := prefix + "_master"
	past := state.Newest(p) // the open snapshot keeps its revision readable for At
	defer past.Close()
	at, err := state.At(ctx, p, past.Revision()) // reads without the caches
	if err != nil {
		b.Fatal(err)
	}
	defer at.Close()

	for _, c := range []struct {
		name string
		do   func(i int) error
	}{
		{"raw-get", func(i int) error {
			get, err := hrpc.NewGet(ctx, []byte(raw), people[i%len(people)][:])
			if err == nil {
				_, err = cl.Get(get)
			}
			return err
		}},
		{"raw-put", func(i int) error {
			put, err := hrpc.NewPut(ctx, []byte(raw), fmt.Appendf(nil, "raw%d", i%1000),
				map[string]map[string][]byte{"m": {"q": []byte("value")}}, hrpc.TimestampUint64(1))
			if err == nil {
				_, err = cl.Put(put)
			}
			return err
		}},
		{"base", func(i int) error {
			_, err := at.Entry(ctx, people[i%len(people)], false)
			return err
		}},
		{"base-cached", func(i int) error {
			s := state.Newest(p)
			defer s.Close()
			_, err := s.Entry(ctx, people[i%len(people)], false)
			return err
		}},
		{"modify", func(i int) error {
			return benchModify(p, fmt.Sprintf("cn=%d,%s", i%len(people), suffix), "description", i)
		}},
		{"add", func(i int) error { return benchAdd(p, fmt.Sprintf("cn=new%d-%d,%s", b.N, i, suffix)) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			before, i := processTime(), 0
			for b.Loop() {
				if err := c.do(i); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric((processTime()-before).Seconds()*1e6/float64(b.N), "cpu-us/op")
		})
	}
}

func benchPeople(b *testing.B, p *partition.Partition) (ids []entry.ID) {
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	ctx := context.Background()
	l, err := load.Load(ctx, p, load.Options{})
	must(err)
	must(l.Add(ctx, mustParse(suffix), benchAttributes("objectClass", "domain")))
	for i := range 100 {
		must(l.Add(ctx, mustParse(fmt.Sprintf("cn=%d,%s", i, suffix)), benchAttributes("objectClass", "person", "sn", "Person")))
	}
	_, err = l.Commit(ctx)
	must(err)
	s := state.Newest(p)
	defer s.Close()
	for i := range 100 {
		at, err := s.Find(ctx, mustParse(fmt.Sprintf("cn=%d,%s", i, suffix)))
		must(err)
		ids = append(ids, at.ID)
	}
	return ids
}

func benchAttributes(pairs ...string) (as []op.PartialAttribute) {
	for pair := range slices.Chunk(pairs, 2) {
		as = append(as, op.PartialAttribute{Description: pair[0], Values: [][]byte{[]byte(pair[1])}})
	}
	return as
}

func benchModify(p *partition.Partition, dn, attribute string, i int) error {
	ctx := context.Background()
	_, err := write.Update(ctx, p, partition.By{Name: "cn=bench"}, func(tx *partition.Tx) error {
		return tx.Modify(ctx, mustParse(dn), []op.Modification{{Kind: op.ModReplace, PartialAttribute: benchAttributes(attribute, fmt.Sprint(i))[0]}})
	})
	return err
}

func benchAdd(p *partition.Partition, dn string) error {
	ctx := context.Background()
	_, err := write.Update(ctx, p, partition.By{Name: "cn=bench"}, func(tx *partition.Tx) error {
		_, err := tx.Add(ctx, mustParse(dn), benchAttributes("objectClass", "person", "sn", "Person"), false)
		return err
	})
	return err
}

// BenchmarkContention makes the clients of three servers increment one number, in two ways: by an increment,
// and as programs do that read a number and replace it if it is still the same. One operation is one increment. The
// metric tries/op has the attempts to commit, busy/op the increments that were refused because all attempts failed.
func BenchmarkContention(b *testing.B) {
	quorum := hbasetest.Start(b)
	for _, c := range []struct {
		name      string
		increment func(context.Context, *partition.Partition) error
	}{{"increment", benchIncrement}, {"replace", benchReplace}} {
		for _, clients := range []int{1, 8} {
			b.Run(fmt.Sprint(c.name, "-", clients), func(b *testing.B) { benchContention(b, quorum, clients, c.increment) })
		}
	}
}

const counter = "cn=counter," + suffix

// benchIncrement increments the counter.
func benchIncrement(ctx context.Context, p *partition.Partition) error {
	return benchChange(ctx, p, op.Modification{Kind: op.ModIncrement, PartialAttribute: benchAttributes("uidNumber", "1")[0]})
}

func benchChange(ctx context.Context, p *partition.Partition, changes ...op.Modification) error {
	_, err := write.Update(ctx, p, partition.By{Name: "cn=bench"}, func(tx *partition.Tx) error {
		return tx.Modify(ctx, mustParse(counter), changes)
	})
	return err
}

// benchReplace reads the newest number and replaces it, and begins again if the number has changed.
func benchReplace(ctx context.Context, p *partition.Partition) error {
	for {
		if err := p.DB.CatchUp(ctx); err != nil {
			return err
		}
		n, err := benchNumber(ctx, p)
		if err != nil {
			return err
		}
		err = benchChange(ctx, p,
			op.Modification{Kind: op.ModDelete, PartialAttribute: benchAttributes("uidNumber", strconv.Itoa(n))[0]},
			op.Modification{Kind: op.ModAdd, PartialAttribute: benchAttributes("uidNumber", strconv.Itoa(n+1))[0]})
		if problem := (*catalog.Error)(nil); !errors.As(err, &problem) || problem.Problem != catalog.NoSuchAttribute {
			return err
		}
	}
}

// benchNumber returns the number in the state that the server shows.
func benchNumber(ctx context.Context, p *partition.Partition) (int, error) {
	s := state.Newest(p)
	defer s.Close()
	at, err := s.Find(ctx, mustParse(counter))
	if err != nil {
		return 0, err
	}
	e, err := s.Entry(ctx, at.ID, false)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(e.Values(s.Catalog.Schema.Attribute("uidNumber"))[0]))
}

func benchContention(b *testing.B, quorum string, clients int, increment func(context.Context, *partition.Partition) error) {
	ctx := context.Background()
	prefix := hbasetest.Prefix(b)
	var tries, busy atomic.Int64
	observe := func(txn.Attempt) { tries.Add(1) }
	ps := []*partition.Partition{openPartition(b, openPrefix(b, quorum, prefix))}
	for range servers {
		p, err := partition.Open(ctx, openPrefix(b, quorum, prefix), partition.Options{Cache: 64 << 20, Txn: txn.Options{Observe: observe}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { p.Close(ctx) })
		ps = append(ps, p)
	}
	_, err := write.Update(ctx, ps[0], partition.By{Name: "cn=bench"}, func(tx *partition.Tx) error {
		if _, err := tx.Add(ctx, mustParse(suffix), benchAttributes("objectClass", "domain"), false); err != nil {
			return err
		}
		as := benchAttributes("objectClass", "device", "uidNumber", "0")
		as[0].Values = append(as[0].Values, []byte("extensibleObject"))
		_, err := tx.Add(ctx, mustParse(counter), as, false)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range ps {
		if err := p.DB.CatchUp(ctx); err != nil {
			b.Fatal(err)
		}
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	took := make([][]time.Duration, servers*clients)
	var all sync.WaitGroup
	before := processTime()
	b.ResetTimer()
	for i := range took {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				began := time.Now()
				err := increment(ctx, ps[1+i%servers])
				for ; errors.Is(err, txn.ErrConflict); err = increment(ctx, ps[1+i%servers]) {
					busy.Add(1)
				}
				if err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	all.Wait()
	b.StopTimer()
	if err := ps[0].DB.CatchUp(ctx); err != nil {
		b.Fatal(err)
	}
	if n, err := benchNumber(ctx, ps[0]); n != b.N || err != nil {
		b.Errorf("counted to %d, want %d: %v", n, b.N, err)
	}
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "increments/s")
	b.ReportMetric((processTime()-before).Seconds()*1e6/n, "cpu-us/op")
	b.ReportMetric(float64(tries.Load())/n, "tries/op")
	b.ReportMetric(float64(busy.Load())/n, "busy/op")
	b.ReportMetric(percentile99(slices.Concat(took...)).Seconds()*1e3, "p99-ms")
}

// processTime returns the CPU time that this process has used.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHeads runs synthetic servers and one reader. Each server publishes its head
// ten times a second in one row of heads, and the reader polls the row. The benchmark
// measures the number of publications per second, the 99th percentile of their latency, and
// the size of all heads that one poll reads.
func BenchmarkHeads(b *testing.B) {
	quorum := hbasetest.Start(b)
	for _, n := range []int{16, 64, 256} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchHeads(b, openHBase(b, quorum), n) })
	}
}

const publishEvery = 100 * time.Millisecond

func benchHeads(b *testing.B, s table.Store, n int) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if err := s.Create(ctx, journal.Specs()...); err != nil {
		b.Fatal(err)
	}
	log := journal.New(s)
	took := make([][]time.Duration, n)
	var published atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			c := revision.Cell{State: revision.Open, Incarnation: 1, Token: uint64(i), Owner: fmt.Sprintf("server-%d:1234", i)}
			var old []byte
			for ctx.Err() == nil {
				c.Sequence++
				c.Head = revision.At(time.Now())
				began := time.Now()
				done, now, err := log.SwapHead(ctx, revision.Slot(i+1), old, c.Append(nil))
				if ctx.Err() != nil {
					return
				}
				if err != nil || !done {
					b.Errorf("publishing: %v, %v", done, err)
					return
				}
				old = now
				took[i] = append(took[i], time.Since(began))
				published.Add(1)
				time.Sleep(time.Until(began.Add(publishEvery)))
			}
		})
	}
	bytes, began := 0, time.Now()
	for b.Loop() {
		h, err := log.Heads(ctx)
		if err != nil {
			b.Fatal(err)
		}
		bytes = 0
		for _, slot := range h.Slots() {
			bytes += len(h.Raw(slot))
		}
	}
	rate := float64(published.Load()) / time.Since(began).Seconds()
	stop()
	all.Wait()
	b.ReportMetric(rate, "publishes/s")
	b.ReportMetric(percentile99(slices.Concat(took...)).Seconds()*1e3, "p99-ms")
	b.ReportMetric(float64(bytes), "bytes/poll")
}

func mustParse(s string) dn.DN {
	d, err := dn.Parse(s)
	if err != nil {
		panic(err)
	}
	return d
}
