package lsm

import (
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A space records whether the disk has free space, and determines what may be written if
// the disk is full:
//
//   - If there is space, everything may be written. A file reserves some space.
//   - If a write finds the disk full, the reserve is removed. Its space is used
//     for this write, for deletes, for garbage collection and for the shutdown. All other
//     writes are refused until there is enough space for the reserve again.
//   - If a write of the log finds the disk full and there is no reserve, this write waits, and
//     all other writes are refused.
type space struct {
	fs      vfs.FS
	folder  string
	reserve int64 // intended size in bytes; zero means no reserve
	logf    func(string, ...any)
	closed  chan struct{}
	gone    chan struct{} // closed when nothing may be written any more
	changed chan struct{} // a message on this channel wakes watch

	mu        sync.Mutex
	waiting   int           // number of writes that wait for space
	stall     chan struct{} // closed while waiting > 0, or after a failure
	refuse    chan struct{} // closed while ordinary writes are refused
	broken    error
	full      bool // ordinary writes are refused
	held      bool // the reserve exists
	lastFull  time.Time
	failures  int           // number of consecutive failures to write sorted tables
	opening   bool          // Pebble is being opened
	exhausted chan struct{} // closed when opening Pebble needs more space than there is
	reminder  reminder
	low       reminder
}

const (
	fullRetry = 100 * time.Millisecond // first pause between attempts to write
	fullSlow  = 5 * time.Second        // longest pause between attempts to write
	fullPause = time.Second            // shortest time for which writes are refused
)

func (x *space) init(fs vfs.FS, folder string, reserve int64, logf func(string, ...any)) {
	x.fs, x.folder, x.reserve, x.logf = fs, folder, reserve, logf
	x.closed, x.gone = make(chan struct{}), make(chan struct{})
	x.changed = make(chan struct{}, 1)
	x.stall, x.refuse = make(chan struct{}), make(chan struct{})
	x.exhausted = make(chan struct{})
}

// writable returns nil if the store accepts writes now, and otherwise the reason why not.
// Urgent writes may use the space of the reserve.
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

// lost handles the error of a write or sync. If the disk is full, lost records this fact. If
// the file is vital, earlier writes may not be on disk, and a second attempt to write may
// succeed without having written. So the store stops all writing. In that case lost does not
// return, because Pebble would end the process if it received the error.
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

// exhaust ends the opening of Pebble when the disk is full, because Pebble would retry
// forever. In that case exhaust does not return. If Pebble is not being opened, exhaust
// does nothing.
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

// stalled returns a channel that is closed while a write waits for space, and after a
// failure.
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

// refuses returns a channel that is closed while writes are refused. If urgent is set, it
// is the channel for urgent writes, and otherwise the channel for ordinary writes.
func (x *space) refuses(urgent bool) <-chan struct{} {
	if urgent {
		return x.stalled()
	}
	return x.refusing()
}

// fail records that Pebble can no longer write.
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

// setChannels closes or reopens the channels stall and refuse according to the state. The
// caller holds mu.
func (x *space) setChannels() {
	set(&x.stall, x.broken != nil || x.waiting > 0)
	set(&x.refuse, x.broken != nil || x.waiting > 0 || x.full)
}

// set closes a channel if closed is true. If closed is false, it replaces a closed
// channel with an open one.
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

// closing records that the store is being closed. Pauses and watch then end, and a vital
// write that waits for space never returns.
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

// abandon stops all writes of a Pebble database that cannot be closed: from now on these
// writes never return. So the next process that opens the folder is the only writer in
// it.
func (x *space) abandon() {
	x.mu.Lock()
	defer x.mu.Unlock()
	set(&x.gone, true)
}

// attempt calls the function write. If the store was abandoned, attempt never returns.
func (x *space) attempt(write func() error) error {
	select {
	case <-x.gone:
		select {}
	default:
		return write()
	}
}

// fit calls the function write. If the disk is full and the reserve could be removed, it calls
// the function again. If the write is vital, fit then repeats it while the disk is full.
func (x *space) fit(vital bool, write func() error) error {
	err := x.attempt(write)
	for isFull(err) && x.met() {
		err = x.attempt(write)
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

// untilFits repeats a vital write until the disk is no longer full.
func (x *space) untilFits(err error, write func() error) error {
	x.wait(1)
	defer x.wait(-1)
	for pause := fullRetry; isFull(err); pause = min(2*pause, fullSlow) {
		select {
		case <-x.closed:
			// Close does not wait for this write. The write must not return an error,
			// because Pebble would then end the process.
			select {}
		case <-time.After(pause):
			err = x.attempt(write)
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

// fits is called after a successful write of a file that is not vital, such as a sorted
// table of Pebble. It resets the count of failures, from which delay computes its pause.
func (x *space) fits() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failures = 0
}

// delay pauses. The caller then reports to Pebble that a sorted table does not fit on the
// disk.
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

// met records that a write found the disk full. It reports whether the reserve was
// removed, in which case the write should be repeated at once.
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

// began and opened are called before and after the opening of Pebble.
func (x *space) began() { x.setOpening(true) }

func (x *space) opened() { x.setOpening(false) }

func (x *space) setOpening(b bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.opening = b
}
