package scim_test

import (
	"fmt"
	"sync"
	"testing"
)

// TestLockDuringReplacements checks that a PUT that does not speak of active, and is tried again because others change the
// entry, does not unlock an account that was locked meanwhile.
func TestLockDuringReplacements(t *testing.T) {
	s := newServer(t)
	path := "/Users/" + s.addUser("ann")
	active := func(to bool) {
		body := fmt.Sprintf(`{"schemas":[%q],"Operations":[{"op":"replace","path":"active","value":%t}]}`, patchURN, to)
		if status, o, _ := s.ask("PATCH", path, body); status != 200 {
			t.Errorf("%d %v", status, o)
		}
	}
	for round := range 10 {
		active(true)
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				title := fmt.Sprintf("%d of round %d", i, round)
				if status, o, _ := s.ask("PUT", path, fmt.Sprintf(`{"schemas":[%q],"userName":"ann","title":%q}`, userURN, title)); status != 200 {
					t.Errorf("%d %v", status, o)
				}
			})
		}
		all.Go(func() { active(false) })
		all.Wait()
		if _, o, _ := s.ask("GET", path, ""); o["active"] != false {
			t.Fatalf("in round %d the account was unlocked", round)
		}
	}
}
