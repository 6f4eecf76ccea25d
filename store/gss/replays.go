package gss

import (
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

// replays remembers tokens for as long as their time would be accepted (RFC 4120, section 3.2.3). Only a client with a
// ticket can add one.
type replays struct {
	mu       sync.Mutex
	now, old map[[sha256.Size]byte]struct{} // of this span of time, and of the one before
	until    time.Time                      // the end of this span
}

// add remembers a token that was not seen before.
func (r *replays) add(token []byte, now time.Time) error {
	sum := sha256.Sum256(token)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !now.Before(r.until) { // a token is kept for one to two spans
		r.old, r.now = r.now, map[[sha256.Size]byte]struct{}{}
		if now.Sub(r.until) > 2*maxSkew {
			r.old = nil
		}
		r.until = now.Add(2 * maxSkew)
	}
	_, seen := r.now[sum]
	_, before := r.old[sum]
	if seen || before {
		return errors.New("the token was used before")
	}
	r.now[sum] = struct{}{}
	return nil
}
