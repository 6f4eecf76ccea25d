package auth

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
)

// ErrBusy reports that too many passwords of a client wait for a slow hash.
var ErrBusy = errors.New("too many passwords of this client are being verified")

// maxWaiting is the maximum number of waiting hashes of one client.
const maxWaiting = 256

// A pool limits the number of concurrent slow hashes. Waiting clients take turns, so a client
// with a thousand waiting hashes gets slots no more often than a client with few.
type pool struct {
	mu    sync.Mutex
	free  int
	turns []*line // the waiting clients; the client whose last turn was longest ago comes first
}

// A line contains the waiting hashes of one client. Each hash is represented by a channel
// that is closed when the hash may be computed.
type line struct {
	client  string
	waiting []chan struct{}
}

// clientOf returns a text that identifies the client of a channel: the address without
// the port.
func clientOf(c Channel) string {
	remote := c.Remote()
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// acquire waits until the client may use a slot of the pool. If acquire returns nil, the
// caller must call release with the same client.
func (p *pool) acquire(ctx context.Context, client string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ready, err := p.enter(client)
	if ready == nil {
		return err
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		if !p.leave(client, ready) {
			p.release(client) // the client got the slot in the meantime
		}
		return context.Cause(ctx)
	}
}

// enter takes a free slot. If no slot is free, it returns a channel that is closed when
// the client may use a slot, or ErrBusy if the client already has maxWaiting waiting
// hashes.
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

// waiting returns the number of hashes that wait for a slot.
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

// leave removes a hash from the waiting hashes. The parameter ready is the channel of the
// hash. leave returns false if this hash was no longer waiting.
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

// release ends the client's use of a slot, and passes the slot to the first client in
// p.turns, if there is one. Before that, if the client has waiting hashes, release moves the
// client to the end of p.turns.
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
