package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestTurns makes attempts on two names concurrently. It checks that attempts on one name
// are admitted one at a time, and that no turns are left at the end.
func TestTurns(t *testing.T) {
	var turns Turns
	var inside [2]atomic.Int32
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			name := i % 2
			leave, err := turns.Enter(t.Context(), remote{address: fmt.Sprintf("10.0.0.%d:9", i%5)}, fmt.Sprint(name))
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside[name].Add(1); n != 1 {
				t.Errorf("%d attempts on a name at a time", n)
			}
			inside[name].Add(-1)
			leave()
		})
	}
	all.Wait()
	if len(turns.names) != 0 {
		t.Errorf("%d turns are left", len(turns.names))
	}
}

// TestTurnsWait checks that an attempt waits until the previous attempt ends, and that an
// attempt that stops waiting does not block later attempts.
func TestTurnsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		leave, err := turns.Enter(t.Context(), remote{address: "10.0.0.1:9"}, "name")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped, admitted := make(chan error, 1), make(chan func(), 1)
		go func() {
			_, err := turns.Enter(ctx, remote{address: "10.0.0.2:9"}, "name")
			stopped <- err
		}()
		synctest.Wait()
		go func() {
			next, err := turns.Enter(t.Context(), remote{address: "10.0.0.3:9"}, "name")
			if err != nil {
				t.Error(err)
			}
			admitted <- next
		}()
		synctest.Wait()
		if len(stopped)+len(admitted) > 0 {
			t.Fatal("an attempt did not wait for the one before it")
		}
		cancel()
		if err := <-stopped; !errors.Is(err, context.Canceled) {
			t.Errorf("an attempt that stopped waiting: %v", err)
		}
		leave()
		(<-admitted)()
		if len(turns.names) != 0 {
			t.Errorf("%d turns are left", len(turns.names))
		}
	})
}
