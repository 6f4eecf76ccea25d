package hbase_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// TestOpenUnreachable opens a store at an address where no server listens. It checks that Open
// soon returns an error that contains the address. It needs no HBase.
func TestOpenUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	begin := time.Now()
	_, err = hbase.Open(t.Context(), hbase.Scheme+addr+"/dir", hbase.Options{Timeout: 300 * time.Millisecond})
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
	if !errors.Is(err, table.ErrUnavailable) || !strings.Contains(err.Error(), addr) {
		t.Errorf("the error does not name the quorum: %v", err)
	}
}

// operations returns one operation of each kind. The row r must exist.
func operations(ctx context.Context, s table.Store) map[string]func() error {
	d, h := s.Table("data"), s.Table("heads")
	return map[string]func() error{
		"Get": func() error {
			row, err := d.Get(ctx, []byte("r"), table.Select{})
			if err == nil && len(row.Cells) == 0 {
				return errors.New("an acknowledged write is lost")
			}
			return err
		},
		"GetMany": func() error {
			_, err := d.GetMany(ctx, [][]byte{[]byte("r"), []byte("s")}, table.Select{})
			return err
		},
		"Scan": func() error {
			for _, err := range d.Scan(ctx, table.Range{}, table.Select{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"Apply": func() error { return d.Apply(ctx, 7, []table.Mutation{put("r", cell('a', "q", "v"))}) },
		"ApplyMany": func() error {
			return d.Apply(ctx, 7, []table.Mutation{put("r", cell('a', "q", "v")), put("s", cell('a', "q", "v"))})
		},
		"Erase": func() error { return d.Erase(ctx, 6, [][]byte{[]byte("r")}) },
		"Swap": func() error {
			_, err := h.Swap(ctx, []byte("r"), 'h', []byte("q"), []byte("never"), []table.Cell{cell('h', "q", "v")})
			return err
		},
	}
}

// TestOutage pauses and kills the HBase server of open stores, one of which finds it by the RPC connection registry, and starts
// it again. During the outage, operations must fail in time. Afterwards they must succeed again.
func TestOutage(t *testing.T) {
	if os.Getenv(hbasetest.QuorumEnv) != "" {
		t.Skip("the HBase that was given is not ours to kill")
	}
	i := hbasetest.Shared(t)
	const timeout = 2 * time.Second
	s, err := hbase.Open(t.Context(), hbase.Scheme+i.Quorum()+"/"+hbasetest.Prefix(t), hbase.Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	create(t, s, data, heads)
	ops := operations(t.Context(), s)
	mustAll(t, ops)
	byRPC, err := hbase.Open(t.Context(), strings.Replace(s.String(), hbase.Scheme+i.Quorum(), hbase.RPCScheme+i.Servers(), 1), hbase.Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer byRPC.Close()
	rpcOps := operations(t.Context(), byRPC)
	mustAll(t, rpcOps)

	t.Run("paused", func(t *testing.T) {
		if err := i.Pause(); err != nil {
			t.Fatal(err)
		}
		mustFail(t, ops, timeout)
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := operations(short, s)["Get"](); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, table.ErrUnavailable) {
			t.Errorf("the caller's own deadline is reported as %v", err)
		}
		if err := i.Resume(); err != nil {
			t.Fatal(err)
		}
		mustRecover(t, ops, 10*time.Second)
	})
	t.Run("killed", func(t *testing.T) {
		i.Kill()
		if err := i.Probe(t.Context()); err == nil {
			t.Error("a killed HBase answers")
		}
		mustFail(t, ops, timeout)
		mustFail(t, rpcOps, timeout)
		time.Sleep(2 * timeout) // the client's pauses grow in this time
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := i.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		mustRecover(t, ops, 10*time.Second)
		mustRecover(t, rpcOps, 10*time.Second)
	})
	s.Close()
	for name, op := range ops {
		if err := op(); !errors.Is(err, table.ErrClosed) {
			t.Errorf("%s on a closed store: %v", name, err)
		}
	}
}

func mustAll(t *testing.T, ops map[string]func() error) {
	t.Helper()
	for _, name := range []string{"Apply", "Get", "GetMany", "Scan", "ApplyMany", "Erase", "Swap"} {
		if err := ops[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func mustFail(t *testing.T, ops map[string]func() error, timeout time.Duration) {
	t.Helper()
	var wg sync.WaitGroup
	for name, op := range ops {
		wg.Go(func() {
			begin := time.Now()
			err := op()
			if !errors.Is(err, table.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(begin); took > timeout+20*time.Second {
				t.Errorf("%s took %v", name, took)
			}
		})
	}
	wg.Wait()
}

// mustRecover waits until each operation has succeeded. An HBase that was just started may still be
// too slow for some of them.
func mustRecover(t *testing.T, ops map[string]func() error, patience time.Duration) {
	t.Helper()
	begin := time.Now()
	for name, op := range ops {
		for err := op(); err != nil; err = op() {
			if time.Since(begin) > patience {
				t.Fatalf("no recovery within %v: %s: %v", patience, name, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	t.Logf("recovered after %v", time.Since(begin).Round(time.Millisecond))
}
