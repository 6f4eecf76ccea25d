package auth

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
)

// ErrBusy reports that a client has too many passwords waiting for a slow hash.
var ErrBusy = errors.New("too many passwords of this client are being verified")

// maxWaiting bounds the waiting hashes of one client.
const maxWaiting = 256

// A pool bounds the number of concurrent slow hashes. Waiting clients take turns. A
// client with a thousand wrong passwords thus delays one of another client by at most the
// hashes that are running.
type pool struct {
	mu    sync.Mutex
	free  int
	turns []*line // of the waiting clients; the one whose last turn is longest ago comes first
}

// A line holds the waiting hashes of one client. Each is a channel that is closed when
// the hash may run.
type line struct {
	client  string
	waiting []chan struct{}
}

// clientOf returns what distinguishes clients: the address without the port.
func clientOf(c Channel) string {
	remote := c.Remote()
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// acquire waits for the client's turn. After it has succeeded, the caller must call
// release with the same client.
func (p *pool) acquire(ctx context.Context, client string) error {
	ready, err := p.enter(client)
	if ready == nil {
		return err
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		if !p.leave(client, ready) {
			p.release(client) // its turn has come meanwhile
		}
		return ctx.Err()
	}
}

// enter takes a free slot, or returns a channel to wait for.
func (p *pool) enter(client string) (ready chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free > 0 {
		p.free--
		return nil, nil
	}
	i := p.find(client)
	if i < 0 {
		i = len(p.turns)
		p.turns = append(p.turns, &line{client: client})
	}
	l := p.turns[i]
	if len(l.waiting) >= maxWaiting {
		return nil, ErrBusy
	}
	ready = make(chan struct{})
	l.waiting = append(l.waiting, ready)
	return ready, nil
}

// waiting returns the number of waiting hashes.
func (p *pool) waiting() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.turns {
		n += len(l.waiting)
	}
	return n
}

func (p *pool) find(client string) int {
	return slices.IndexFunc(p.turns, func(l *line) bool { return l.client == client })
}

// leave stops waiting. It returns false if the wait was already over.
func (p *pool) leave(client string, ready chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(client)
	if i < 0 {
		return false
	}
	l := p.turns[i]
	at := slices.Index(l.waiting, ready)
	if at < 0 {
		return false
	}
	if l.waiting = slices.Delete(l.waiting, at, at+1); len(l.waiting) == 0 {
		p.turns = slices.Delete(p.turns, i, i+1)
	}
	return true
}

// release passes the client's slot to the next client in turn. If the client wants
// another slot, it waits for its next turn behind the others.
func (p *pool) release(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.turns) == 0 {
		p.free++
		return
	}
	if i := p.find(client); i >= 0 {
		p.toEnd(i)
	}
	l := p.turns[0]
	close(l.waiting[0])
	if l.waiting = slices.Delete(l.waiting, 0, 1); len(l.waiting) == 0 {
		p.turns = slices.Delete(p.turns, 0, 1)
	} else {
		p.toEnd(0)
	}
}

func (p *pool) toEnd(i int) {
	l := p.turns[i]
	p.turns = append(slices.Delete(p.turns, i, i+1), l)
}
