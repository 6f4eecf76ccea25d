package bulk

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Progress shows the progress of a long import or export: a bar on a terminal,
// otherwise a line every ten seconds. The zero Progress counts entries but shows
// nothing.
type Progress struct {
	w        io.Writer
	terminal bool
	verb     string
	every    time.Duration
	begun    time.Time

	total   atomic.Int64 // bytes to read, or per mille of other work; 0: unknown
	bytes   atomic.Int64 // of total
	entries atomic.Int64
	finish  atomic.Int64 // progress, in per mille, of the last stage, which begins after reading

	begins atomic.Bool // Begin has been called
	stop   chan struct{}
	wg     sync.WaitGroup
}

// NewProgress returns a Progress that writes to w. Its lines begin with verb.
func NewProgress(w io.Writer, terminal bool, verb string) *Progress {
	return &Progress{w: w, terminal: terminal, verb: verb, every: 10 * time.Second}
}

// Begin starts showing progress, until End is called.
func (p *Progress) Begin() {
	p.begun = time.Now()
	p.stop = make(chan struct{})
	p.begins.Store(true)
	if p.w == nil {
		return
	}
	if p.terminal {
		p.wg.Go(p.bar)
	} else {
		p.wg.Go(p.lines)
	}
}

// End stops showing progress.
func (p *Progress) End() {
	close(p.stop)
	p.wg.Wait()
}

// Rate returns a text with a number of entries, the time since Begin, and the entries per
// second.
func (p *Progress) Rate(entries int) string {
	d := time.Since(p.begun)
	return fmt.Sprintf("%d entries in %s (%.0f/s)", entries, short(d), float64(entries)/max(d.Seconds(), 1e-9))
}

func short(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(10 * time.Millisecond)
}

// Ratio returns how much of the total is done, from 0 to 1, if that is known. It may be
// called from any goroutine.
func (p *Progress) Ratio() (done float64, known bool) {
	if !p.begins.Load() || p.total.Load() <= 0 {
		return 0, false
	}
	return float64(p.done()) / float64(p.total.Load()), true
}

// finishing records the progress of the last stage.
func (p *Progress) finishing(done, of float64) {
	if of > 0 {
		p.finish.Store(int64(1000 * done / of))
	}
}

func (p *Progress) lines() {
	t := time.NewTicker(p.every)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			fmt.Fprintln(p.w, p.line())
		}
	}
}

func (p *Progress) line() string {
	n, since := p.entries.Load(), time.Since(p.begun)
	s := fmt.Sprintf("%s: %d entries, %.0f/s", p.verb, n, float64(n)/since.Seconds())
	done := p.done()
	switch {
	case p.finish.Load() > 0:
		s += fmt.Sprintf(", writing tables %d%%", p.finish.Load()/10)
	case p.total.Load() > 0 && done > 0:
		left := time.Duration(float64(since) * float64(p.total.Load()-done) / float64(done))
		s += fmt.Sprintf(", %d%%, about %s left", 100*done/p.total.Load(), left.Round(time.Second))
	}
	return s
}

// The method "done" returns how many of the total bytes have been read.
func (p *Progress) done() int64 { return min(max(p.bytes.Load(), 0), p.total.Load()) }

func (p *Progress) bar() {
	bars := mpb.New(mpb.WithOutput(p.w), mpb.WithAutoRefresh(), mpb.WithWidth(40))
	b := bars.New(1, mpb.BarStyle(), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(p.verb+" "), decor.Percentage(decor.WC{W: 4})),
		mpb.AppendDecorators(
			decor.Any(func(decor.Statistics) string {
				n := p.entries.Load()
				if f := p.finish.Load(); f > 0 {
					return fmt.Sprintf("%d entries, writing tables %d%%", n, f/10)
				}
				return fmt.Sprintf("%d entries, %.0f/s ", n, float64(n)/time.Since(p.begun).Seconds())
			}),
			decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO), "")))
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			b.Abort(true)
			bars.Wait()
			return
		case <-t.C:
			// A full bar disappears, so it must not become full before the last stage
			// ends.
			total := max(p.total.Load(), 1)
			b.SetTotal(total, false)
			b.SetCurrent(min(p.done(), total-1))
		}
	}
}

// Entries sets the number of entries done so far.
func (p *Progress) Entries(n int) { p.entries.Store(int64(n)) }

// Part sets the number of entries done so far, and the part of the whole that is done, from 0 to 1.
func (p *Progress) Part(entries int, done float64) {
	p.entries.Store(int64(entries))
	p.total.Store(1000)
	p.bytes.Store(int64(1000 * done))
}

// Summary returns the Rate of the entries that have been done.
func (p *Progress) Summary() string { return p.Rate(int(p.entries.Load())) }
