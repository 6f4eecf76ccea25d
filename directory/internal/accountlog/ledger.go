// Package accountlog records the events of accounts: failures, successes, and uses of codes and of
// expired or reset passwords. The records are hot attributes (see partition/usage). They belong
// to the entry of the account, or to the entry of the token that generates the codes.
package accountlog

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/wellknown"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Book contains the ledgers of all accounts of a directory.
type Book struct {
	Turns auth.Turns // admits one attempt on an account at a time

	part       *partition.Partition
	log        *slog.Logger
	background *backgroundWork
	unrecorded memory // failures that could not be stored
	forgotten  memory // failures that a background job is deleting
	ahead      ahead  // failures whose times are in the future
	took       durations
	pacing     sync.Mutex
	refused    map[string]*Pace // by the mechanism of binds
}

// NewBook returns the book of a partition.
func NewBook(p *partition.Partition, log *slog.Logger) *Book {
	return &Book{part: p, log: log, background: newBackgroundWork(), refused: map[string]*Pace{}}
}

// Close waits for background jobs. Afterwards no job can start.
func (b *Book) Close() { b.background.close() }

// Pace returns the pace of refused binds by a mechanism.
func (b *Book) Pace(mechanism string) *Pace {
	b.pacing.Lock()
	defer b.pacing.Unlock()
	p := b.refused[mechanism]
	if p == nil {
		p = &Pace{}
		b.refused[mechanism] = p
	}
	return p
}

// Settle waits for background jobs. Only tests call it.
func (b *Book) Settle() { b.background.wait() }

// A Ledger records the events of one account. It implements account.Ledger.
type Ledger struct {
	book  *Book
	known *wellknown.Elements
	id    entry.ID

	// failures are the account's failures in the state with the ordinal asOf. If no state
	// was read, asOf is 0.
	failures []time.Time
	asOf     uint64
}

var _ account.Ledger = (*Ledger)(nil)

// Of returns the ledger of an entry.
func (b *Book) Of(k *wellknown.Elements, id entry.ID) *Ledger {
	return &Ledger{book: b, known: k, id: id}
}

// Read sets the failures from the account's secrets in a state. While that state is the
// newest, Failures does not read the failures from the store again.
func (l *Ledger) Read(s *partition.Snapshot, secrets []entry.Attribute) {
	l.failures, l.asOf = Times(secrets, "pwdFailureTime"), s.Ordinal()
}

// Wait waits as long as the recording of one recent failure took. It chooses this failure at
// random.
func (b *Book) Wait(ctx context.Context) error { return b.took.wait(ctx) }

// Failures implements account.Ledger.
func (l *Ledger) Failures(ctx context.Context) ([]time.Time, error) {
	forgotten := l.book.forgotten.of(l.id) // Read forgotten before the store, because a failure is removed from forgotten only after it was deleted in the store.
	if l.asOf == 0 || l.asOf != l.book.part.DB.Ordinal() {
		if err := l.readNewest(ctx); err != nil {
			return nil, err
		}
	}
	all := slices.Concat(l.failures, l.book.unrecorded.of(l.id))
	l.book.ahead.drop(l.id, all)
	return slices.DeleteFunc(all, func(t time.Time) bool { return slices.ContainsFunc(forgotten, t.Equal) }), nil
}

func (l *Ledger) readNewest(ctx context.Context) error {
	s := state.Newest(l.book.part)
	defer s.Close()
	secrets, err := s.Secrets(ctx, l.id)
	if err == nil {
		l.Read(s, secrets)
	}
	return err
}

// Times returns the values of the attribute type with the given name. The types of the
// attributes may belong to any schema.
func Times(attributes []entry.Attribute, name string) (ts []time.Time) {
	for i := range attributes {
		if attributes[i].Type.Name() != name {
			continue
		}
		for _, v := range attributes[i].Values {
			if t, err := schema.Time(v); err == nil {
				ts = append(ts, t)
			}
		}
	}
	return ts
}

// Refresh implements account.Ledger.
func (l *Ledger) Refresh(ctx context.Context) error { return l.book.part.CatchUp(ctx) }

// ByClock implements account.Ledger.
func (l *Ledger) ByClock(failures []time.Time) []time.Time {
	return l.book.ahead.byClock(l.id, failures, l.Now())
}

// Computed returns the values of an attribute that the account's entry does not store. They come from
// the account's policy and secrets.
func (l *Ledger) Computed(t *schema.AttributeType, p *account.Policy, secrets []entry.Attribute) [][]byte {
	k := &l.known.Account
	switch t {
	case k.LockedTime:
		if lock := l.Lock(p, secrets); lock.Locked {
			return [][]byte{schema.AppendTime(nil, lock.Since)}
		}
	case k.LockoutEnd:
		if lock := l.Lock(p, secrets); lock.Locked && !lock.Until.IsZero() {
			return [][]byte{schema.AppendTime(nil, lock.Until)}
		}
	case k.Policy:
		if p != nil {
			return [][]byte{[]byte(p.Name)}
		}
	}
	return Values(secrets, t)
}

// Values returns the values of a type.
func Values(attributes []entry.Attribute, t *schema.AttributeType) [][]byte {
	for i := range attributes {
		if attributes[i].Type == t {
			return attributes[i].Values
		}
	}
	return nil
}

// Lock returns the lock that results now from failures in the store.
func (l *Ledger) Lock(p *account.Policy, secrets []entry.Attribute) account.Lock {
	if !p.Counts() {
		return account.Lock{}
	}
	return p.Lock(l.ByClock(Times(secrets, "pwdFailureTime")), l.Now())
}

// Now implements account.Ledger.
func (l *Ledger) Now() time.Time { return time.Now() }

// Fail implements account.Ledger. If the failure cannot be written, for example because the
// disk is full, this server remembers the failure in memory. If the policy has
// LockoutStrict, Fail returns an error instead: every attempt must then be counted on all
// servers, and this attempt would not be. A standby can never write, so with or without
// LockoutStrict it remembers the failure in memory. If the entry no longer exists, Fail records
// nothing. Fail does not stop if the client has gone.
func (l *Ledger) Fail(ctx context.Context, p *account.Policy) (time.Time, error) {
	ctx = context.WithoutCancel(ctx)
	begun := time.Now()
	value, err := l.stamp(ctx, l.known.Account.Failure, func(t time.Time, all []time.Time) bool {
		times := l.ByClock(all)
		lock := p.Lock(times, begun)
		return !slices.ContainsFunc(lock.Kept, times[slices.IndexFunc(all, t.Equal)].Equal)
	})
	if err != nil {
		if partition.Is(err, partition.NoSuchEntry) {
			return begun, nil
		}
		if !errors.Is(err, partition.ErrReadOnly) { // a standby cannot write, which is no fault
			if p.LockoutStrict {
				return begun, err
			}
			l.book.log.Warn("a wrong password could not be written down: this server alone remembers it", "entry", l.id, "error", err)
		}
		return l.book.unrecorded.add(l.id, begun), nil
	}
	l.book.took.add(time.Since(begun))
	at, err := schema.Time(value)
	l.ByClock([]time.Time{at})
	return at, err
}

// stamp adds the time of its commit to the values of a type, and removes the values for
// which isOver returns true.
func (l *Ledger) stamp(ctx context.Context, t *schema.AttributeType, isOver func(t time.Time, all []time.Time) bool) (value []byte, err error) {
	if t == nil {
		return nil, errUnknown
	}
	_, err = write.UpdateHot(ctx, l.book.part, func(hot *write.Hot) error {
		if err := hot.Begin(ctx, l.id); err != nil {
			return err
		}
		if isOver != nil {
			if err := l.prune(ctx, hot, t, isOver); err != nil {
				return err
			}
		}
		value = hot.Stamp(l.id, t)
		return nil
	})
	return value, err
}

var errUnknown = errors.New("the schema has no attribute for it")

func (l *Ledger) prune(ctx context.Context, hot *write.Hot, t *schema.AttributeType, over func(t time.Time, all []time.Time) bool) error {
	secrets, err := hot.Secrets(ctx, l.id)
	if err != nil {
		return err
	}
	all := Times(secrets, t.Name())
	if !slices.ContainsFunc(all, func(t time.Time) bool { return over(t, all) }) {
		return nil
	}
	return hot.Drop(ctx, l.id, []*schema.AttributeType{t}, func(_ *schema.AttributeType, v []byte) bool {
		at, err := schema.Time(v)
		return err == nil && over(at, all)
	})
}

// Forget implements account.Ledger. A background job deletes the failures in the store. Until
// the job ends, Failures at this server leaves out the given failures.
func (l *Ledger) Forget(failures []time.Time) {
	l.book.unrecorded.drop(l.id, failures)
	l.book.forgotten.keep(l.id, failures)
	l.book.background.start(func(ctx context.Context) {
		defer l.book.forgotten.drop(l.id, failures)
		l.record(ctx, "deleting failures", func(ctx context.Context, hot *write.Hot) error {
			return hot.Drop(ctx, l.id, []*schema.AttributeType{l.known.Account.Failure}, func(_ *schema.AttributeType, v []byte) bool {
				at, err := schema.Time(v)
				return err == nil && slices.ContainsFunc(failures, at.Equal)
			})
		})
	})
}

// Succeed records a success in the background. It records nothing if the last recorded
// success is so recent that the policy does not require a new record.
func (l *Ledger) Succeed(p *account.Policy) {
	t := l.known.Account.Success
	if t == nil {
		return
	}
	l.book.background.start(func(ctx context.Context) {
		l.record(ctx, "writing down a success", func(ctx context.Context, hot *write.Hot) error {
			secrets, err := hot.Secrets(ctx, l.id)
			if err != nil {
				return err
			}
			var s account.State
			if last := Times(secrets, t.Name()); len(last) > 0 {
				s.Success = last[0]
			}
			if p.RecordsSuccess(&s, time.Now()) {
				hot.Stamp(l.id, t)
			}
			return nil
		})
	})
}

// record makes a change for a background job. If the change fails, record logs the error,
// except at a standby and for an entry that no longer exists.
func (l *Ledger) record(ctx context.Context, what string, fn func(ctx context.Context, hot *write.Hot) error) {
	_, err := write.UpdateHot(ctx, l.book.part, func(hot *write.Hot) error {
		if err := hot.Begin(ctx, l.id); err != nil {
			return err
		}
		return fn(ctx, hot)
	})
	if err != nil && ctx.Err() == nil && !partition.Is(err, partition.NoSuchEntry) && !errors.Is(err, partition.ErrReadOnly) {
		l.book.log.Warn("the state of an account stays as it was", "doing", what, "entry", l.id, "error", err)
	}
}

// Uses returns the uses of an expired or reset password, which are recorded as values of t.
func (l *Ledger) Uses(t *schema.AttributeType) account.Uses { return uses{l, t} }

type uses struct {
	*Ledger
	t *schema.AttributeType
}

// Record implements account.Uses.
func (u uses) Record(ctx context.Context) error {
	_, err := u.stamp(ctx, u.t, nil)
	return err
}

// Recorded implements account.Uses.
func (u uses) Recorded(ctx context.Context) ([]time.Time, error) {
	s := state.Newest(u.book.part)
	defer s.Close()
	secrets, err := s.Secrets(ctx, u.id)
	return Times(secrets, u.t.Name()), err
}

// aStep is the key that every use of a code claims, whatever the time step of the code.
// The later of two concurrent uses therefore sees the earlier use.
const aStep = 1

// ErrUsed reports that the code was used already.
var ErrUsed = errors.New("the code was used already")

// UseStep records that the code of a time step is used. It returns ErrUsed if a code of that
// step or of a later step was used before.
func (l *Ledger) UseStep(ctx context.Context, step int64) error {
	t := l.known.Account.UsedStep
	if t == nil {
		return errUnknown
	}
	_, err := write.UpdateHot(ctx, l.book.part, func(hot *write.Hot) error {
		if err := hot.Begin(ctx, l.id); err != nil {
			return err
		}
		secrets, err := hot.Secrets(ctx, l.id)
		if err != nil {
			return err
		}
		if step <= UsedStep(secrets) {
			return ErrUsed
		}
		hot.Claim(l.id, aStep)
		hot.Put(l.id, t, bytesOf(step))
		return nil
	})
	return err
}

// UsedStep returns the last time step whose code was used, or -1.
func UsedStep(secrets []entry.Attribute) int64 {
	for i := range secrets {
		if secrets[i].Type.Name() == "oathTOTPUsedTimeStep" && len(secrets[i].Values) > 0 {
			return number(bytes.TrimSpace(secrets[i].Values[0]))
		}
	}
	return -1
}
