package auth

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestClientsTakeTurns checks that a flood of hashes from one client delays a hash of
// another client by only one turn.
func TestClientsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{}
		got := make(chan string, 10)
		for _, client := range []string{"a", "a", "a", "b", "c", "a"} {
			go func() {
				if err := p.acquire(t.Context(), client); err != nil {
					t.Error(err)
				}
				got <- client
			}()
			synctest.Wait() // so that the hashes wait in this order
		}
		order := ""
		for range 6 {
			p.release("")
			order += <-got
		}
		if order != "abcaaa" {
			t.Errorf("order %s", order)
		}
		p.release("")
		if p.free != 1 || len(p.turns) != 0 {
			t.Errorf("at the end: %+v", p)
		}
	})
}

// TestTheOtherIsNext checks that a client whose hash was just computed comes after
// clients that arrived in the meantime.
func TestTheOtherIsNext(t *testing.T) {
	p := &pool{free: 1}
	if ready, err := p.enter("a"); ready != nil || err != nil {
		t.Fatal(ready, err)
	}
	again, _ := p.enter("a")
	other, _ := p.enter("b")
	p.release("a")
	select {
	case <-other:
	case <-again:
		t.Error("the same one again")
	}
	p.release("b")
	<-again
}

// TestWaitingEndsWithItsContext checks that a client that stops waiting leaves no gap. If a
// slot becomes free for such a client, the slot must pass to the next client.
func TestWaitingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.acquire(ctx, "a") }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if len(p.turns) != 0 {
			t.Errorf("still waiting: %+v", p.turns[0])
		}
		p.release("")
		if err := p.acquire(t.Context(), "b"); err != nil {
			t.Error(err)
		}
	})
}

func TestTooManyWaiting(t *testing.T) {
	p := &pool{}
	for range maxWaiting {
		if _, err := p.enter("a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.acquire(t.Context(), "a"); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	if _, err := p.enter("b"); err != nil {
		t.Error("another client:", err)
	}
}

type remote struct {
	NoChannel
	address string
}

func (r remote) Remote() string { return r.address }

func TestClientOf(t *testing.T) {
	for _, c := range []struct{ address, want string }{
		{"192.0.2.1:389", "192.0.2.1"}, {"[2001:db8::1]:50000", "2001:db8::1"}, {"@", "@"}, {"", ""},
	} {
		if got := clientOf(remote{address: c.address}); got != c.want {
			t.Errorf("%s: %s", c.address, got)
		}
	}
}
