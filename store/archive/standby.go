package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// StandbyOptions configure a Standby.
type StandbyOptions struct {
	Folder string // of the store
	Place  Place
	Keys   Keys
	Poll   time.Duration // interval at which an idle archive is asked for pieces; 0: a second
	Log    *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// A Standby keeps a store equal to the newest state of an archive. It restores a base,
// and applies the pieces that follow the base as they arrive. When the epoch ends, it
// restores the next base.
//
// The folder of the store contains the file ldapd.standby until the store is promoted.
type Standby struct {
	o      StandbyOptions
	status standbyStatus

	polling interruption

	// turn is a lock for the fields below: it has an element while the lock is held. It is a
	// channel, so that a caller can stop waiting for the lock while another goroutine holds
	// the lock and waits for the archive.
	turn     chan struct{}
	store    *lsm.Store
	show     func(context.Context) error
	pieces   *pieceReader
	at       mark
	due      bool       // some applied pieces are not shown yet
	silence  int        // number of polls without a new piece since the last piece or the last listing of all pieces
	nextBase bool       // the next base was restored, and will replace the store
	promoted *Promotion // if it is not nil, nothing is applied any more
}

// lock acquires turn.
func (s *Standby) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Standby) unlock() { <-s.turn }

// An interruption lets a promotion end the running poll. No other poll begins until the
// promotion ends.
type interruption struct {
	mu         sync.Mutex
	promotions int // number of promotions that wait or run
	cancel     context.CancelFunc
}

// begin returns the context of a poll. It returns false for ok while a promotion waits or
// runs, because no poll may run then.
func (i *interruption) begin(ctx context.Context) (_ context.Context, end context.CancelFunc, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.promotions > 0 {
		return ctx, nil, false
	}
	ctx, i.cancel = context.WithCancel(ctx)
	return ctx, i.cancel, true
}

// interrupt cancels the running poll. No other poll begins until resume is called.
func (i *interruption) interrupt() (resume func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.promotions++
	if i.cancel != nil {
		i.cancel()
	}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.promotions--
	}
}

// interrupted reports whether a promotion waits or runs.
func (i *interruption) interrupted() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.promotions > 0
}

// A mark says which part of an archive a store contains. It is stored in the store.
type mark struct {
	Format int
	Store  string
	Epoch  Epoch
	Next   lsm.Position   // position up to which the log is applied
	From   lsm.Position   // where the last applied piece begins; zero: no piece was applied
	Newest table.Revision // newest commit
}

const (
	standbyFile = "ldapd.standby"
	nextBase    = "base.new" // folder in which a base is restored
)

// Errors of a Standby.
var (
	// ErrNextBase means that the next base was restored. The caller must close the store and
	// call Prepare again.
	ErrNextBase = errors.New("the next base was restored")
	// ErrNoStandby means that the folder contains a store that does not belong to a
	// standby.
	ErrNoStandby = errors.New("the store is not a standby's")
)

// A Role is the role of the store in a Standby's folder.
type Role int

// Roles of stores.
const (
	Follower  Role = iota
	Promoting      // a promotion was interrupted: call Promote again
	Promoted       // the store was promoted, and is served for writing
)

// NewStandby returns a Standby. It does not access the place.
func NewStandby(o StandbyOptions) *Standby {
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Standby{o: o, turn: make(chan struct{}, 1)}
	s.status.Since = o.Now()
	return s
}

// String returns the name of the place.
func (s *Standby) String() string { return s.o.Place.String() }

func (s *Standby) path(name string) string { return filepath.Join(s.o.Folder, name) }

// Prepare makes the folder ready to be opened, and returns the role of its store. If the
// folder contains no store, Prepare waits until the archive has a base, and restores the
// newest base that is not damaged. If the next base was restored into the subfolder nextBase,
// Prepare replaces the store with that base. Callers must close the store first.
func (s *Standby) Prepare(ctx context.Context) (Role, error) {
	whole, err := lsm.IsComplete(s.o.Folder)
	if err != nil {
		return 0, err
	}
	_, err = os.Stat(s.path(standbyFile))
	if is := err == nil; !is && whole {
		return s.ownStore(ctx)
	} else if !is {
		if err := s.begin(); err != nil {
			return 0, err
		}
	}
	next, err := lsm.IsComplete(s.path(nextBase))
	switch {
	case err != nil:
		return 0, err
	case whole && next:
		err = lsm.Replace(s.o.Folder, s.path(nextBase))
	case whole:
		err = os.RemoveAll(s.path(nextBase))
	default:
		err = s.first(ctx)
	}
	if err != nil {
		return 0, err
	}
	return s.followerRole(ctx)
}

// followerRole returns the role of a standby's store. The role is Promoting only if an
// interrupted promotion had made the folder the owner of the archive. Otherwise the promotion
// had no effect, and the operator may no longer want it.
func (s *Standby) followerRole(ctx context.Context) (Role, error) {
	st, err := readState(s.o.Folder, s.o.Place.String())
	if err != nil || !st.Promoted {
		return Follower, err
	}
	owner, err := ReadOwner(ctx, s.o.Place)
	if err == nil && owner != nil && owner.Writer == st.Writer {
		return Promoting, nil
	}
	return Follower, nil // if the owner could not be read, Poll reports the error
}

// begin marks an empty folder as the folder of a standby.
func (s *Standby) begin() error {
	names, err := os.ReadDir(s.o.Folder)
	other := func(d fs.DirEntry) bool { return d.Name() != "lost+found" } // a new file system contains lost+found
	if err == nil && slices.ContainsFunc(names, other) {
		return fmt.Errorf("%s: the folder is not empty: a standby begins in an empty one", s.o.Folder)
	}
	if err := errors.Join(ignoreMissing(err), os.MkdirAll(s.o.Folder, 0o700)); err != nil {
		return err
	}
	return folder(s.o.Folder).Put(context.Background(), standbyFile, strings.NewReader(s.o.Place.String()+"\n"))
}

// ownStore returns the role of a store without the file ldapd.standby. The role is Promoted if
// the store was promoted and no other folder is known to have taken over the archive since.
// Otherwise ownStore returns an error.
func (s *Standby) ownStore(ctx context.Context) (Role, error) {
	st, err := readState(s.o.Folder, s.o.Place.String())
	if err != nil {
		return 0, err
	}
	if !st.Promoted {
		return 0, fmt.Errorf("%w: %s has a store of its own: move it away to have a standby there", ErrNoStandby, s.o.Folder)
	}
	owner, err := ReadOwner(ctx, s.o.Place)
	switch {
	case err != nil:
		s.o.Log.Warn("the archive cannot be reached", "place", s.String(), "error", err)
	case owner != nil && owner.Writer != st.Writer && !st.TakeOver:
		return 0, fmt.Errorf("%w by %s at %s: move the store in %s away to have a standby there", ErrTakenOver, owner.Server, owner.Since.Format(time.RFC3339), s.o.Folder)
	}
	return Promoted, nil
}

// The method "first" makes the newest undamaged base the store of the folder. After a failure
// it tries again, unless trying again cannot help.
func (s *Standby) first(ctx context.Context) error {
	for failures := 0; ; {
		err := s.newestBase(ctx)
		if err == nil {
			return lsm.Replace(s.o.Folder, s.path(nextBase))
		}
		if hopeless(err) || ctx.Err() != nil {
			return err
		}
		s.failed(err)
		if failures++; failures%20 == 1 {
			s.o.Log.Warn("no base can be restored yet", "place", s.String(), "failures", failures, "error", err)
		}
		if err := pause.For(ctx, min(s.o.Poll<<min(failures, 6), longestStandbyPause)); err != nil {
			return err
		}
	}
}

// hopeless reports whether trying again cannot help.
func hopeless(err error) bool {
	return errors.Is(err, ErrSealed) || errors.Is(err, table.ErrNewer) || errors.Is(err, ErrForeign)
}

// newestBase restores the newest base that is not damaged into the subfolder nextBase.
func (s *Standby) newestBase(ctx context.Context) error {
	x, err := ReadIndex(ctx, s.o.Place)
	if err != nil {
		return err
	}
	err = fmt.Errorf("%w: it has no base yet", ErrNoState)
	for _, b := range slices.Backward(x.Bases) {
		if err = s.restore(ctx, b); err == nil || !errors.Is(err, ErrDamaged) {
			break
		}
		s.o.Log.Error("a base is damaged", "place", s.String(), "base", b.Name, "error", err)
	}
	return err
}

// restore restores a base into the subfolder nextBase, and leaves the store unchanged.
func (s *Standby) restore(ctx context.Context, b Base) error {
	to := s.path(nextBase)
	err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o700))
	if err != nil {
		return err
	}
	if err := s.restoreTo(ctx, b, to); err != nil {
		return errors.Join(fmt.Errorf("restore the base %s of %s: %w", b.Name, s, err), os.RemoveAll(to))
	}
	return nil
}

func (s *Standby) restoreTo(ctx context.Context, b Base, to string) error {
	m, err := ReadManifest(ctx, s.o.Place, b)
	if err != nil {
		return err
	}
	if s.at.Store != "" && m.Store != s.at.Store {
		return fmt.Errorf("%w: the base is not one of this standby's store", ErrForeign)
	}
	began := s.o.Now()
	if err := m.fetch(ctx, s.o.Place, s.o.Keys, to); err != nil {
		return err
	}
	r, err := lsm.Replay(to, m.Next)
	if err != nil {
		return err
	}
	first := mark{Format: format, Store: m.Store, Epoch: m.Epoch, Next: m.Next, Newest: m.Newest}
	err = r.Mark(first.encode())
	if err == nil {
		err = ctx.Err() // after a promotion has ended ctx, the base must not be used
	}
	if err != nil {
		return errors.Join(err, r.Abandon())
	}
	s.o.Log.Info("a base was restored", "place", s.String(), "epoch", m.Epoch, "newest", m.Newest.Time().UTC(), "bytes", m.Size(), "took", s.o.Now().Sub(began))
	return r.Finish()
}

func (m *mark) encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // cannot happen: a mark consists of numbers and strings
	}
	return b
}

// Follow sets the store, and the function show, which makes applied commits visible. The
// caller must have opened the store with lsm.Options.Follow.
func (s *Standby) Follow(store *lsm.Store, show func(context.Context) error) error {
	if err := s.lock(context.Background()); err != nil {
		return err
	}
	defer s.unlock()
	b, err := store.Mark()
	if err != nil {
		return err
	}
	var at mark
	if err := json.Unmarshal(b, &at); err != nil {
		return fmt.Errorf("%w: the mark of a standby: %w", table.ErrCorrupt, err)
	}
	if at.Format > format {
		return newer("the standby", at.Format)
	}
	if s.pieces == nil {
		if s.pieces, err = newPieceReader(s.o.Place, s.o.Keys); err != nil {
			return err
		}
	}
	s.store, s.show, s.at = store, show, at
	s.due, s.nextBase = false, false
	s.status.at(&at)
	return nil
}

// longestStandbyPause bounds the pause between attempts to reach an archive.
const longestStandbyPause = 10 * time.Second

// Run applies pieces until ctx ends. It returns ErrNextBase when the next base was
// restored.
func (s *Standby) Run(ctx context.Context) error {
	quiet := busyPolls // consecutive polls without a piece
	for failures := 0; ; {
		was := s.status.position()
		err := s.Poll(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, ErrNextBase) {
			return err
		}
		failures = s.heard(err, failures)
		if quiet++; s.status.position() != was {
			quiet = 0
		}
		if pause.For(ctx, s.pause(failures, quiet)) != nil {
			return nil
		}
	}
}

// pause returns the time until the next poll. The parameter failures is the number of
// consecutive failures, and quiet is the number of consecutive polls without a piece.
func (s *Standby) pause(failures, quiet int) time.Duration {
	if failures == 0 && quiet < busyPolls {
		return s.o.Poll / busyPolls // the next piece will probably come soon
	}
	return min(s.o.Poll<<min(failures, 6), max(longestStandbyPause, s.o.Poll))
}

// busyPolls is the factor by which polls are more frequent while pieces arrive. It is also
// the number of frequent polls that follow the last piece.
const busyPolls = 4

// heard writes to the log the first of several consecutive failures, every 100th failure after
// it, and the first success after them. It returns the number of consecutive failures.
func (s *Standby) heard(err error, failures int) int {
	switch {
	case err != nil:
		if failures++; failures%100 == 1 {
			s.o.Log.Error("the standby cannot follow its archive; serving goes on", "place", s.String(), "failures", failures, "error", err)
		}
		return failures
	case failures > 0:
		s.o.Log.Info("the standby follows its archive again", "place", s.String())
	}
	return 0
}

// Poll applies the pieces in the archive that were not applied yet. If the epoch has ended or
// its pieces are damaged, and a later base exists, Poll restores that base and returns
// ErrNextBase. A promotion ends a poll that is running. Poll returns nil while a promotion waits
// or runs, and if the store is promoted already.
func (s *Standby) Poll(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if s.promoted != nil {
		return nil
	}
	if s.nextBase {
		return ErrNextBase
	}
	ctx, end, ok := s.polling.begin(ctx)
	if !ok {
		return nil
	}
	defer end()
	began := s.o.Now()
	ended, err := s.poll(ctx)
	switch {
	case errors.Is(err, ErrNextBase):
		s.nextBase = true
	case err != nil && s.polling.interrupted():
		return nil
	case err != nil:
		s.failed(err)
	case !ended:
		s.status.caughtUp(began)
	}
	return err
}

// poll does the work of Poll, and reports whether the epoch of the store has ended. The
// caller must hold turn.
func (s *Standby) poll(ctx context.Context) (ended bool, err error) {
	owner, err := s.owner(ctx)
	if err != nil {
		return false, err
	}
	err = s.drain(ctx)
	ended = owner.Epoch > s.at.Epoch
	if !ended && !errors.Is(err, ErrDamaged) {
		return false, err
	}
	// If there is a later base, continue from it.
	b, found, e := s.laterBase(ctx)
	if e != nil || !found {
		return ended, errors.Join(err, e)
	}
	if err == nil {
		err = fmt.Errorf("epoch %d has ended", s.at.Epoch)
	}
	s.o.Log.Info("the standby continues from another base", "place", s.String(), "epoch", b.Epoch, "reason", err)
	if err := s.restore(ctx, b); err != nil {
		return ended, err
	}
	return ended, ErrNextBase
}

// owner returns the owner of the archive. It returns an error if the archive belongs to
// another store or was set back to an older state.
func (s *Standby) owner(ctx context.Context) (*Owner, error) {
	o, err := ReadOwner(ctx, s.o.Place)
	switch {
	case err != nil:
		return nil, err
	case o == nil:
		return nil, fmt.Errorf("%w: %s has no owner", ErrDamaged, s)
	case o.Store != s.at.Store:
		return nil, fmt.Errorf("%w than this standby's: it was begun by %s", ErrForeign, o.Server)
	case o.Epoch < s.at.Epoch:
		return nil, fmt.Errorf("%w: it is in epoch %d, and the standby in epoch %d: it was set back", ErrDamaged, o.Epoch, s.at.Epoch)
	}
	return o, nil
}

// laterBase returns the archive's newest base, and reports whether it contains more than
// the store.
func (s *Standby) laterBase(ctx context.Context) (b Base, found bool, err error) {
	bases, err := listOf(ctx, s.o.Place, basePrefix, parseBase)
	if err != nil || len(bases) == 0 {
		return b, false, err
	}
	b = slices.MaxFunc(bases, Base.compare)
	return b, b.compare(Base{Epoch: s.at.Epoch, Next: s.at.Next}) > 0, nil
}

// drain applies all pieces that follow the store's mark.
func (s *Standby) drain(ctx context.Context) error {
	for {
		if err := s.showDue(ctx); err != nil {
			return err
		}
		p, err := s.following(ctx)
		if err != nil || p == nil {
			return err
		}
		if err := s.apply(ctx, *p); err != nil {
			return err
		}
	}
}

// looks is the number of polls without a new piece after which following lists all pieces
// of the epoch.
const looks = 60

// following returns the piece that follows the store's mark, or nil. Usually it lists only the
// pieces that begin where the last applied piece ended, and the pieces that begin where that
// piece began: if the primary did not learn that the piece had arrived, it later sends a longer
// piece with the same beginning. Now and then, following lists all pieces to find out whether
// pieces are missing. It does so rarely, because the list may be long.
func (s *Standby) following(ctx context.Context) (*Piece, error) {
	if s.at.From != 0 && s.silence < looks {
		for _, from := range []lsm.Position{s.at.Next, s.at.From} {
			all, err := listOf(ctx, s.o.Place, pieceFrom(s.at.Epoch, from), parsePiece)
			if err != nil {
				return nil, err
			}
			if p, _ := s.next(all); p != nil {
				return p, nil
			}
		}
		s.silence++
		return nil, nil
	}
	all, err := listOf(ctx, s.o.Place, pieceFrom(s.at.Epoch, 0), parsePiece)
	if err != nil {
		return nil, err
	}
	if s.at.From != 0 {
		s.silence = 0
	}
	p, gap := s.next(all)
	if p == nil && gap != nil {
		return nil, gap
	}
	return p, nil
}

// The method "next" considers the pieces that contain the position of the store's mark, and
// returns the piece that ends last. If there is no such piece but there are later pieces, it
// returns the gap.
func (s *Standby) next(all []Piece) (p *Piece, gap error) {
	slices.SortFunc(all, Piece.compare)
	for i := range all {
		switch x := &all[i]; {
		case x.To <= s.at.Next:
		case x.From > s.at.Next:
			if p == nil && gap == nil {
				gap = &Gap{Epoch: x.Epoch, From: s.at.Next, To: x.From}
			}
		case p == nil || x.To > p.To:
			p = x
		}
	}
	return p, gap
}

// showDue shows the applied pieces, unless that was done already.
func (s *Standby) showDue(ctx context.Context) error {
	if !s.due {
		return nil
	}
	if err := s.show(ctx); err != nil {
		return fmt.Errorf("show the state at %s: %w", s.at.Newest, err)
	}
	s.due = false
	s.status.at(&s.at)
	return nil
}

// apply applies a piece in one step. showDue shows the new state later.
func (s *Standby) apply(ctx context.Context, p Piece) error {
	inc := s.store.Increment(s.at.Next)
	next := s.at
	err := s.pieces.each(ctx, s.at.Store, p, func(repr []byte) error {
		newest, err := newestIn(ctx, s.store, repr)
		if err != nil {
			return err
		}
		next.Newest = max(next.Newest, newest)
		return inc.Add(repr)
	})
	if err == nil && inc.Next() != p.To {
		err = fmt.Errorf("%w: %s ends at %016x", ErrDamaged, p.Name, uint64(inc.Next()))
	}
	if errors.Is(err, lsm.ErrGap) {
		err = fmt.Errorf("%w: %s: %w", ErrDamaged, p.Name, err)
	}
	if err != nil {
		return errors.Join(err, inc.Abandon())
	}
	next.Next, next.From = p.To, p.From
	if err := inc.Apply(ctx, next.encode()); err != nil {
		return err
	}
	s.at, s.due, s.silence = next, true, 0
	return nil
}

// A StandbyStatus describes how far a standby has come.
type StandbyStatus struct {
	Place  string
	Epoch  Epoch
	Newest table.Revision // newest commit that is shown
	Since  time.Time      // when this process began to follow
	// CaughtUp is the beginning of the last poll after which all pieces had been applied;
	// zero: there was no such poll yet.
	CaughtUp time.Time
	Failures int64
	Failure  error // the last failure, if nothing has succeeded since
}

type standbyStatus struct {
	mu sync.Mutex
	StandbyStatus
	next lsm.Position // position up to which the log is shown
}

func (s *standbyStatus) at(m *mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Epoch, s.Newest, s.next = m.Epoch, m.Newest, m.Next
}

func (s *standbyStatus) position() lsm.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

func (s *standbyStatus) caughtUp(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.CaughtUp, s.Failure = at, nil
}

func (s *Standby) failed(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	s.status.Failure = err
	s.status.Failures++
}

// Status returns how far the standby has come.
func (s *Standby) Status() StandbyStatus {
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	st := s.status.StandbyStatus
	st.Place = s.String()
	return st
}

// IsStandby reports whether a folder belongs to a standby.
func IsStandby(path string) (bool, error) {
	_, err := os.Stat(filepath.Join(path, standbyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
