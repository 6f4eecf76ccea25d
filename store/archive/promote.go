package archive

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Promotion is the result of Promote.
type Promotion struct {
	Epoch  Epoch          // epoch of the owner; 0 if the archive was not used
	Newest table.Revision // newest commit in the store
}

// Promote makes the standby's store independent: once closed, it can be opened for writing.
// Promote makes the standby's folder the owner of the archive, so that the old owner can
// archive no more. Then it applies everything that the old owner had archived before that. If
// anything fails, the store remains the store of a standby, and Promote may be called again.
//
// If alone is set, Promote does not use the archive. The store then takes over the
// archive when it is archived for the first time.
//
// Promote ends a running poll, and discards the base that the poll was restoring. If that
// base is complete already, Promote returns ErrNextBase, because that base is newer than
// the open store.
func (s *Standby) Promote(ctx context.Context, alone bool) (p Promotion, err error) {
	defer s.polling.interrupt()()
	if err := s.lock(ctx); err != nil {
		return p, fmt.Errorf("a call of the archive at %s does not end: %w", s, err)
	}
	defer s.unlock()
	switch {
	case s.promoted != nil:
		return *s.promoted, s.Finish()
	case s.nextBase:
		return p, fmt.Errorf("%w: the server starts again on it: promote it after that", ErrNextBase)
	case alone:
		err = s.noteAlone()
	default:
		p.Epoch, err = s.takeArchive(ctx)
	}
	if err != nil {
		return p, err
	}
	p.Newest = s.at.Newest
	if err := s.store.Unfollow(ctx); err != nil {
		return p, err
	}
	s.promoted = &p
	return p, s.Finish()
}

// Finish completes a promotion that has already made its last change of the store.
func (s *Standby) Finish() error {
	return errors.Join(ignoreMissing(os.Remove(s.path(standbyFile))), syncFolder(s.o.Folder))
}

// state returns the state to save for a store that is being promoted.
func (s *Standby) state() (*state, error) {
	st, err := readState(s.o.Folder, s.o.Place.String())
	if err != nil {
		return nil, err
	}
	st.Store, st.Epoch, st.Based, st.Promoted = s.at.Store, 0, false, true
	return st, nil
}

func (s *Standby) noteAlone() error {
	st, err := s.state()
	if err == nil {
		st.TakeOver = true
		err = st.save(s.o.Folder)
	}
	return err
}

// takeArchive makes the folder the owner of the archive and applies the last pieces of
// the old owner.
func (s *Standby) takeArchive(ctx context.Context) (Epoch, error) {
	ok, err := s.o.Place.Conditions(ctx)
	if err != nil {
		return 0, fmt.Errorf("the archive at %s cannot be reached: %w", s, err)
	}
	if !ok {
		return 0, fmt.Errorf("%s ignores conditions of puts, so the old server could continue to archive: stop it, then promote without the archive", s)
	}
	if err := s.drain(ctx); err != nil {
		return 0, err
	}
	st, err := s.state()
	if err != nil {
		return 0, err
	}
	// The state is saved first, so that after a crash the next process knows that this
	// folder may be the owner.
	if err := st.save(s.o.Folder); err != nil {
		return 0, err
	}
	o, err := s.own(ctx, st)
	if err != nil {
		return 0, err
	}
	if err := s.drain(ctx); err != nil {
		return 0, err
	}
	if o.Promoted == s.at.Newest {
		return o.Epoch, nil
	}
	// The last commit of the old owner is known only now.
	last := *o
	last.Promoted = s.at.Newest
	return o.Epoch, last.write(ctx, s.o.Place, o)
}

// The method "own" makes the folder the owner of the archive, unless it is the owner already.
func (s *Standby) own(ctx context.Context, st *state) (*Owner, error) {
	was, err := s.owner(ctx)
	if err != nil || was.Writer == st.Writer {
		return was, err
	}
	if was.Epoch != s.at.Epoch {
		return nil, fmt.Errorf("epoch %d of the archive has begun at %s, and the standby does not have its base yet: wait for it", was.Epoch, was.Server)
	}
	host, _ := os.Hostname()
	o := &Owner{
		Format: format, Store: s.at.Store, Epoch: was.Epoch + 1, Writer: st.Writer,
		Server: fmt.Sprintf("%s:%s", host, s.o.Folder), Since: s.o.Now().UTC(),
	}
	err = o.write(ctx, s.o.Place, was)
	// Even after an error the new owner may have been written, so read it back from the
	// place.
	now, e := s.owner(ctx)
	switch {
	case e != nil:
		return nil, errors.Join(err, e)
	case now.Writer != st.Writer:
		return nil, fmt.Errorf("the archive could not be taken over: %w", err)
	}
	return now, nil
}

// owned calls checkOwner, and records in a.lost whether another folder has taken over the
// archive.
func (a *Archiver) owned(ctx context.Context) (ours bool, o *Owner, err error) {
	ours, o, err = checkOwner(ctx, a.o.Place, a.st)
	switch {
	case errors.Is(err, ErrTakenOver):
		err = a.withLost(ctx, o, err)
		if was := a.lost.Swap(&err); was == nil || (*was).Error() != err.Error() {
			a.o.Log.Error("the store takes no more changes", "store", a.o.Store.String(), "reason", err)
		}
	case err == nil:
		a.lost.Store(nil)
	}
	return ours, o, err
}

// withLost adds to err how many commits of this store the new owner does not have.
func (a *Archiver) withLost(ctx context.Context, o *Owner, err error) error {
	if o.Promoted == 0 {
		return err
	}
	n := 0
	for rec, e := range journal.New(a.o.Store).Scan(ctx, revision.OnlySlot, o.Promoted, revision.Last-1) {
		if e != nil {
			return errors.Join(err, e)
		}
		if rec.State == journal.Committed {
			n++
		}
	}
	return fmt.Errorf("%w; %d commits of this store after %s were not taken over", err, n, o.Promoted)
}

// Lost returns an error if another folder has taken the archive over. From then on nothing may
// be committed to this store, because another server has continued from the archive, and that
// server's store would lack the commit.
func (a *Archiver) Lost() error {
	if err := a.lost.Load(); err != nil {
		return *err
	}
	return nil
}
