package server_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
)

// TestRandomMixture sends short and long operations in random order and in random pieces.
// Long operations make another goroutine the connection's reader. An abandoned
// request must be answered at most once, and every other request exactly once.
func TestRandomMixture(t *testing.T) {
	r := start(t, func(ctx context.Context, m *op.Message, sink op.Sink) {
		switch m.Request.(type) {
		case *op.Search:
			if m.ID%5 == 0 { // the search lasts longer than two ticks
				select {
				case <-time.After(30 * time.Millisecond):
				case <-ctx.Done():
				}
			}
			sink.Entry(person("cn=1", make([]byte, 50*(m.ID%100))))
		case *op.Modify:
			time.Sleep(time.Duration(m.ID%3) * time.Millisecond)
		}
		sink.Done(&op.Response{})
	}, server.Options{MaxOutstanding: 8})
	var all sync.WaitGroup
	for i := range 8 {
		c := r.dial()
		random := rand.New(rand.NewPCG(uint64(i), 1))
		all.Go(func() { converse(c, random) })
	}
	all.Wait()
}

const lastID = 200

// converse sends lastID requests, several of them in each write, and counts the answers.
func converse(c *client, random *rand.Rand) {
	abandoned := map[int32]bool{}
	var rs []op.Request
	for id := int32(1); id <= lastID; id++ {
		switch random.IntN(8) {
		case 0, 1:
			rs = append(rs, search)
		case 2, 3:
			rs = append(rs, modify)
		case 4:
			target := 1 + random.Int32N(id)
			abandoned[target], abandoned[id] = true, true
			rs = append(rs, &op.Abandon{MessageID: target})
		default:
			rs = append(rs, compare)
		}
	}
	sent := make(chan bool)
	go func() {
		defer close(sent)
		for at := 0; at < len(rs); {
			n := min(1+random.IntN(12), len(rs)-at)
			c.send(int32(at+1), rs[at:at+n]...)
			at += n
		}
	}()
	answered := map[int32]bool{}
	for missing := lastID - len(abandoned); missing > 0; {
		a := c.read()
		if a.Tag == 0x64 {
			continue
		}
		if answered[a.ID] {
			c.t.Errorf("%d is answered twice", a.ID)
		}
		if answered[a.ID] = true; !abandoned[a.ID] {
			missing--
		}
	}
	<-sent
}
