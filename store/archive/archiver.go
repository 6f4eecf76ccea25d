package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Options configure an Archiver.
type Options struct {
	Store *lsm.Store // must be opened with KeepLogs if it is archived repeatedly
	Place Place
	Seal  Seal
	Every time.Duration // interval between bases
	Lag   time.Duration // interval between pieces
	Keep  time.Duration // period for which every moment of the past can be restored; 0: for ever
	Rate  int64         // bytes a second at which the files of a base are read; 0: no bound
	Log   *slog.Logger
	Now   func() time.Time // nil: time.Now
}

// keepMost is the largest size in bytes of the log that the store keeps while the
// archive cannot be reached.
const keepMost = 1 << 30

// An Archiver writes a store to its archive. Its methods may be called concurrently.
type Archiver struct {
	o       Options
	status  status
	sums    sums
	sent    map[string]File // files in the place, even of unfinished bases, by hash; guarded by turning
	turning sync.Mutex      // held while a base is taken or objects are removed
	tried   time.Time       // when Run last began a base
	lost    atomic.Pointer[error]

	mu      sync.Mutex // serializes the sending of pieces and changes of the state
	st      *state
	draft   *draft
	started bool // mayWrite has found out how much of the log an earlier process sent
}

// New returns the archiver of a store. It reads the state of the archive from the
// store's folder, and does not access the place.
func New(o Options) (*Archiver, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	st, err := readState(o.Store.String(), o.Place.String())
	if err != nil {
		return nil, err
	}
	d, err := newDraft()
	if err != nil {
		return nil, err
	}
	return &Archiver{o: o, st: st, draft: d}, nil
}

// Check returns ErrForeign or ErrTakenOver if the store may not write to the archive.
// After any other error it is not known whether the store may write.
func (a *Archiver) Check(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _, err := a.owned(ctx)
	return err
}

// String returns the name of the place.
func (a *Archiver) String() string { return a.o.Place.String() }

// Place returns the place of the archive.
func (a *Archiver) Place() Place { return a.o.Place }

// TakeOver lets this folder continue an archive to which another folder wrote. The next
// call of Pieces or Base begins an epoch. After that call, the other folder cannot write
// to the archive.
func (a *Archiver) TakeOver() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := *a.st
	next.Epoch, next.TakeOver = 0, true
	return a.save(&next)
}

// Pieces archives the commits that have not been archived yet. If the epoch has no base yet,
// Pieces takes a base instead. If there is no epoch, or if pieces cannot continue the epoch
// (lsm.ErrGap), Pieces begins an epoch with a base.
func (a *Archiver) Pieces(ctx context.Context) error {
	if a.needsBase() {
		return a.Base(ctx)
	}
	err := a.pieces(ctx)
	if errors.Is(err, lsm.ErrGap) {
		a.o.Log.Info("the archive begins a new epoch with a base, because the log has a gap", "reason", err)
		return a.Begin(ctx)
	}
	return a.noted(err)
}

// needsBase reports whether a base must be taken before pieces can be sent.
func (a *Archiver) needsBase() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.st.Epoch == 0 || !a.st.Based
}

func (a *Archiver) pieces(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.mayWrite(ctx); err != nil {
		return err
	}
	for {
		more, err := a.piece(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// mayWrite returns an error if the archive's epoch does not belong to this folder, or if the
// epoch has pieces that this folder has not sent. The error wraps ErrGap if this folder may
// begin a new epoch. The caller must hold mu.
func (a *Archiver) mayWrite(ctx context.Context) error {
	ours, _, err := a.owned(ctx)
	if err == nil && !ours {
		err = fmt.Errorf("%w: the archive is in another epoch", lsm.ErrGap)
	}
	if err != nil || a.started {
		return err
	}
	x, err := listOf(ctx, a.o.Place, fmt.Sprintf("%s%08x/", logPrefix, uint32(a.st.Epoch)), parsePiece)
	if err != nil {
		return err
	}
	var last lsm.Position // end of the last piece of the epoch
	for _, p := range x {
		last = max(last, p.To)
	}
	switch {
	case last == a.st.Sending && last != 0:
		a.st.Next = last
	case last > a.st.Next:
		return fmt.Errorf("%w: the archive has more than this store has sent", lsm.ErrGap)
	}
	a.started = true
	return nil
}

// errEnough ends the reading of the log when a piece is large enough.
var errEnough = errors.New("the piece is large enough")

// piece sends one piece, unless nothing was written. It reports whether the log contains
// more commits to send. The caller must hold mu.
func (a *Archiver) piece(ctx context.Context) (more bool, err error) {
	began := a.o.Now()
	d := a.draft
	if err := d.begin(pieceHead{format, a.st.Store, a.st.Epoch, a.st.Next}, a.o.Seal, a.st.Newest); err != nil {
		return false, err
	}
	_, err = a.o.Store.ReadLog(ctx, a.st.Next, func(b lsm.LogBatch) error { return a.take(ctx, d, b) })
	if more = errors.Is(err, errEnough); more {
		err = nil
	}
	if err != nil || d.to == a.st.Next {
		if err == nil {
			a.status.caughtUp(began)
		}
		return false, err
	}
	return more, a.send(ctx, d, began, more)
}

func (a *Archiver) take(ctx context.Context, d *draft, b lsm.LogBatch) error {
	if d.size >= pieceSize {
		return errEnough
	}
	newest, err := newestIn(ctx, a.o.Store, b.Repr)
	if err != nil {
		return err
	}
	d.newest = max(d.newest, newest)
	return d.add(b)
}

// newestIn returns the revision of the newest commit in a batch of the log, or 0.
func newestIn(ctx context.Context, s *lsm.Store, repr []byte) (newest table.Revision, err error) {
	err = s.SetRows(ctx, repr, journal.Table, func(row []byte) {
		if r, ok := journal.RevisionOf(row); ok {
			newest = max(newest, r)
		}
	})
	return newest, err
}

func (a *Archiver) send(ctx context.Context, d *draft, began time.Time, more bool) error {
	name, content, err := d.finish()
	if err != nil {
		return err
	}
	next := *a.st
	next.Sending = d.to
	if err := a.save(&next); err != nil {
		return err
	}
	if err := a.o.Place.Put(ctx, name, bytes.NewReader(content)); err != nil {
		return fmt.Errorf("write a piece of the log to %s: %w", a.o.Place, err)
	}
	next = *a.st
	next.Next, next.Newest = d.to, d.newest
	if err := a.save(&next); err != nil {
		return err
	}
	a.status.sent("log", int64(len(content)))
	if !more {
		a.status.caughtUp(began)
	}
	return a.o.Store.ReleaseLogs(a.st.Next)
}

// save saves st and makes it the current state. The caller must hold mu.
func (a *Archiver) save(st *state) error {
	if err := st.save(a.o.Store.String()); err != nil {
		return fmt.Errorf("note how far the store is archived: %w", err)
	}
	a.st = st
	return nil
}

// Begin begins a new epoch with a base.
func (a *Archiver) Begin(ctx context.Context) error {
	a.mu.Lock()
	a.st.Epoch = 0
	a.mu.Unlock()
	return a.Base(ctx)
}

// Base takes a base. It begins a new epoch if this folder has no epoch to continue.
// Pieces can be sent at the same time.
func (a *Archiver) Base(ctx context.Context) error {
	a.turning.Lock()
	defer a.turning.Unlock()
	return a.noted(a.base(ctx))
}

func (a *Archiver) base(ctx context.Context) error {
	m, c, err := a.copy(ctx)
	if err != nil {
		return fmt.Errorf("begin a base: %w", err)
	}
	defer c.Close()
	if err := a.upload(ctx, m, c); err != nil {
		return fmt.Errorf("write a base to %s: %w", a.o.Place, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.st.Epoch == m.Epoch && !a.st.Based {
		next := *a.st
		next.Based = true
		err = a.save(&next)
	}
	a.status.based(m.Taken)
	a.o.Log.Info("a base was archived", "place", a.o.Place, "epoch", m.Epoch, "newest", m.Newest.Time().UTC(), "bytes", m.Size())
	return err
}

// copy copies the store. If it begins an epoch, the first piece of that epoch begins at
// the position of the copy.
func (a *Archiver) copy(ctx context.Context) (*Manifest, *lsm.Copy, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ours, owner, err := a.owned(ctx)
	if err != nil {
		return nil, nil, err
	}
	m := &Manifest{Format: format, Store: a.st.Store, Epoch: a.st.Epoch, Taken: a.o.Now().UTC()}
	c, err := a.o.Store.Copy(ctx, func(p lsm.Position) error {
		m.Next = p
		m.Newest, err = newestCommit(ctx, a.o.Store)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	m.Engine = c.Format
	if !ours {
		m.Epoch = 1
		if owner != nil {
			m.Epoch = max(owner.Epoch, a.st.Epoch) + 1
		}
		err = a.own(ctx, m.Epoch, owner)
	}
	// If the epoch belongs to this folder (ours), the state stays as it is, because the
	// next pieces continue the epoch.
	if err == nil && !ours {
		next := *a.st
		next.Epoch, next.Based, next.Next, next.Sending, next.Newest, next.TakeOver = m.Epoch, false, m.Next, 0, m.Newest, false
		err = a.save(&next)
		a.started = true
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return m, c, nil
}

// The method "own" makes this folder the owner of the archive, for epoch e. The parameter "was"
// is the previous owner, or nil.
func (a *Archiver) own(ctx context.Context, e Epoch, was *Owner) error {
	host, _ := os.Hostname()
	o := &Owner{Format: format, Store: a.st.Store, Epoch: e, Writer: a.st.Writer, Server: fmt.Sprintf("%s:%s", host, a.o.Store), Since: a.o.Now().UTC()}
	if was != nil && was.Writer == a.st.Writer {
		o.Promoted = was.Promoted
	}
	return o.write(ctx, a.o.Place, was)
}

func (a *Archiver) upload(ctx context.Context, m *Manifest, c *lsm.Copy) error {
	bases, err := listOf(ctx, a.o.Place, basePrefix, parseBase)
	if err != nil {
		return err
	}
	u := &upload{pace: pacer{rate: a.o.Rate}, place: a.o.Place, seal: a.o.Seal, sums: &a.sums, sent: func(n int64) { a.status.sent("base", n) }}
	if u.known, err = known(ctx, a.o.Place, bases, a.sent); err != nil {
		return err
	}
	a.sent = u.known // if a file cannot be sent, the next base reuses the files that were sent
	if m.Files, err = u.files(ctx, c); err != nil {
		return err
	}
	return m.put(ctx, a.o.Place)
}

// newestCommit returns the revision of the newest commit in a store.
func newestCommit(ctx context.Context, s *lsm.Store) (table.Revision, error) {
	for rec, err := range journal.New(s).Backward(ctx, revision.OnlySlot, 0, revision.Last-1) {
		if err != nil || rec.State == journal.Committed {
			return rec.Revision, err
		}
	}
	return 0, nil
}
