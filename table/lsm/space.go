package lsm

import (
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/table"
)

// A space says whether the disk has room, and what may be written where there is
// little:
//
//   - There is room: everything. A file holds a reserve.
//   - A write met a full disk: the reserve is given up, which lets through what was
//     being written, deletes, garbage collection and the shutdown. All else is
//     refused, until there is room for the reserve again.
//   - A write met a full disk without a reserve: it waits, everything is refused.
type space struct {
	fs      vfs.FS
	folder  string
	reserve int64 // wanted, in bytes; zero is none
	logf    func(string, ...any)
	closed  chan struct{}
	gone    chan struct{} // closed when nothing may be written any more
	changed chan struct{} // wakes the watch

	mu        sync.Mutex
	waiting   int           // writes that wait for space
	stall     chan struct{} // closed while there are any, or after a failure
	refuse    chan struct{} // closed while ordinary writes are refused
	broken    error
	full      bool // ordinary writes are refused
	held      bool // the reserve exists
	lastFull  time.Time
	failures  int           // of tables, one after the other
	opening   bool          // Pebble is being opened
	exhausted chan struct{} // closed when opening needs more space than there is
	reminder  reminder
	low       reminder
}

const (
	fullRetry = 100 * time.Millisecond // the first pause between attempts to write
	fullSlow  = 5 * time.Second        // the longest
	fullPause = time.Second            // writes are refused for so long after one did not fit
)

func (x *space) init(fs vfs.FS, folder string, reserve int64, logf func(string, ...any)) {
	x.fs, x.folder, x.reserve, x.logf = fs, folder, reserve, logf
	x.closed, x.gone = make(chan struct{}), make(chan struct{})
	x.changed = make(chan struct{}, 1)
	x.stall, x.refuse = make(chan struct{}), make(chan struct{})
	x.exhausted = make(chan struct{})
}

// writable returns why the store takes no writes now, or nil. Urgent writes may
// use the reserve.
func (x *space) writable(urgent bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.broken != nil:
		return fmt.Errorf("%w: writing failed, start again to recover: %w", table.ErrUnavailable, x.broken)
	case x.waiting > 0 || x.full && !urgent:
		return fmt.Errorf("%w: the disk is full", table.ErrUnavailable)
	}
	return nil
}

// lost notes that what was written before may not be on disk. Where Pebble cannot
// do without it that is the end of writing: a second attempt may succeed without
// having written. Pebble does not hear of it, since it would end the process.
func (x *space) lost(vital bool, err error) {
	if isFull(err) {
		x.met()
		x.exhaust()
	}
	if vital {
		x.fail(err)
		select {}
	}
}

// exhaust ends an opening that needs more space than there is: Pebble would try
// for ever. It does not return then.
func (x *space) exhaust() {
	x.mu.Lock()
	opening := x.opening
	if opening {
		set(&x.exhausted, true)
	}
	x.mu.Unlock()
	if opening {
		select {}
	}
}

// stalled returns a channel that is closed while a write waits for space.
func (x *space) stalled() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stall
}

// refusing returns a channel that is closed while ordinary writes are refused.
func (x *space) refusing() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.refuse
}

// refuses returns a channel that is closed while writes of a kind are refused.
func (x *space) refuses(urgent bool) <-chan struct{} {
	if urgent {
		return x.stalled()
	}
	return x.refusing()
}

// fail remembers that Pebble can write no more.
func (x *space) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.broken != nil {
		return
	}
	x.broken = err
	if !x.isClosed() {
		x.logf("store takes no more writes: %v", err)
	}
	x.setChannels()
}

func (x *space) failed() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.broken
}

// setChannels opens or closes the channels as the state has it; mu is held.
func (x *space) setChannels() {
	set(&x.stall, x.broken != nil || x.waiting > 0)
	set(&x.refuse, x.broken != nil || x.waiting > 0 || x.full)
}

// set closes a channel, or replaces it by an open one.
func set(c *chan struct{}, closed bool) {
	is := false
	select {
	case <-*c:
		is = true
	default:
	}
	switch {
	case closed && !is:
		close(*c)
	case !closed && is:
		*c = make(chan struct{})
	}
}

// closing ends the waits for space.
func (x *space) closing() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.isClosed() {
		close(x.closed)
	}
}

func (x *space) isClosed() bool {
	select {
	case <-x.closed:
		return true
	default:
		return false
	}
}

// abandon keeps a Pebble that cannot be closed from writing: whoever opens the
// folder next is alone in it. What it writes from now on never returns.
func (x *space) abandon() {
	x.mu.Lock()
	defer x.mu.Unlock()
	set(&x.gone, true)
}

// once does a write unless the store was abandoned.
func (x *space) once(write func() error) error {
	select {
	case <-x.gone:
		select {}
	default:
		return write()
	}
}

// fit does a write, again as long as the disk is full if the write is vital.
func (x *space) fit(vital bool, write func() error) error {
	err := x.once(write)
	for isFull(err) && x.met() {
		err = x.once(write)
	}
	switch {
	case !isFull(err):
		if err == nil && !vital {
			x.fits()
		}
		return err
	case vital:
		return x.untilFits(err, write)
	}
	x.delay()
	return err
}

// untilFits does a vital write again as long as the disk is full.
func (x *space) untilFits(err error, write func() error) error {
	x.wait(1)
	defer x.wait(-1)
	for pause := fullRetry; isFull(err); pause = min(2*pause, fullSlow) {
		select {
		case <-x.closed:
			select {} // Close does not wait; Pebble would take an error for the end
		case <-time.After(pause):
			err = x.once(write)
		}
	}
	return err
}

func (x *space) wait(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waiting += n
	x.setChannels()
}

// fits notes that a table could be written.
func (x *space) fits() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failures = 0
}

// delay holds up who is to hear that a table does not fit.
func (x *space) delay() {
	x.mu.Lock()
	pause := min(fullRetry<<min(x.failures, 10), fullSlow)
	x.failures++
	x.mu.Unlock()
	select {
	case <-x.closed:
	case <-time.After(pause):
	}
}

// met notes that a write found the disk full, and reports whether it is worth
// trying again at once since the reserve was given up.
func (x *space) met() (again bool) {
	x.mu.Lock()
	first := !x.full
	if x.full, x.lastFull = true, time.Now(); first {
		x.reminder.begin()
	}
	x.setChannels()
	again = x.giveUp()
	x.mu.Unlock()
	select {
	case x.changed <- struct{}{}:
	default:
	}
	if first && !x.isClosed() {
		x.logf("the disk is full: writes are refused, except deletes and garbage collection as long as a reserve lasts; reads go on")
	}
	if !again {
		x.exhaust()
	}
	return again
}

// began and opened enclose the opening of Pebble.
func (x *space) began()  { x.setOpening(true) }
func (x *space) opened() { x.setOpening(false) }

func (x *space) setOpening(b bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.opening = b
}
