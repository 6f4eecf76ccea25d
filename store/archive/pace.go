package archive

import (
	"context"
	"io"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/pause"
)

// A pacer bounds the rate at which files are read. Without a pacer, a base that is taken
// while a server runs would occupy a whole processor until the base is complete, and
// clients would wait.
type pacer struct {
	rate  int64 // bytes a second; 0: no bound
	begun time.Time
	n     int64
}

// reader returns a reader of r whose reads count towards the rate.
func (p *pacer) reader(ctx context.Context, r io.Reader) io.Reader {
	if p.rate == 0 {
		return r
	}
	return &paced{ctx, p, r}
}

type paced struct {
	ctx context.Context
	p   *pacer
	r   io.Reader
}

// Read implements io.Reader.
func (r *paced) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if e := r.p.wait(r.ctx, n); e != nil {
		return n, e
	}
	return n, err
}

// wait notes that n more bytes were read. It returns when the rate allows all bytes that were
// read before these n bytes. If reading was slower than the rate, it may not be faster than the
// rate later.
func (p *pacer) wait(ctx context.Context, n int) error {
	now := time.Now()
	due := p.begun.Add(time.Duration(float64(p.n) / float64(p.rate) * float64(time.Second)))
	if now.Sub(due) > 10*time.Millisecond {
		p.begun, p.n, due = now, 0, now
	}
	p.n += int64(n)
	if ahead := due.Sub(now); ahead > time.Millisecond {
		return pause.For(ctx, ahead)
	}
	return ctx.Err()
}
