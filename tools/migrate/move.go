package migrate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// Options are the options of a Move.
type Options struct {
	By partition.By // the author of the commits, and the creator of entries that do not name one
	// Note is called with every remark, and LeftOut with every entry that is left out.
	// Neither function is called by two goroutines at the same time.
	Note     func(string)
	LeftOut  func(name, why string)
	Progress *bulk.Progress
	// Every is the time between two readings of a server without content synchronization. An
	// eighth of it is the first pause between two attempts to reach a server.
	Every time.Duration
}

// A Move copies a directory from another server.
type Move struct {
	p      *partition.Partition
	o      Options
	link   link
	place  place
	writer writer
	left   omissions
	ids    identities
	// translate is replaced when the schema changes.
	translate *translation
}

// New returns a Move from a server into a partition.
func New(p *partition.Partition, src *Source, o Options) (*Move, error) {
	if o.Progress == nil {
		o.Progress = &bulk.Progress{}
	}
	if o.Every == 0 {
		o.Every = 5 * time.Second
	}
	var one sync.Mutex
	note, leftOut := o.Note, o.LeftOut
	o.Note = func(text string) {
		one.Lock()
		defer one.Unlock()
		note(text)
	}
	o.LeftOut = func(name, why string) {
		one.Lock()
		defer one.Unlock()
		leftOut(name, why)
	}
	src.references.note = o.Note
	link, err := newLink(src, &o)
	if err != nil {
		return nil, err
	}
	m := &Move{p: p, o: o, link: link, place: newPlace(p, o.By), left: newOmissions(&o), ids: identities{here: map[entry.ID]entry.ID{}}}
	m.writer.m = m
	return m, nil
}

// Close closes the connections.
func (m *Move) Close() { m.link.close() }

func (m *Move) translation() *translation {
	if s := m.p.Schema(); m.translate == nil || m.translate.schema != s {
		m.translate = newTranslation(s, m.left.attribute)
	}
	return m.translate
}

// Copy copies the schema and the entries of the server into the directory. It returns an error
// if the directory already has one of the copied subtrees. If follows is set, the directory
// follows the server from then on. Copy returns the number of copied entries, and a text about
// the speed of the copy.
func (m *Move) Copy(ctx context.Context, follows bool) (n int, rate string, err error) {
	m.o.Progress.Begin()
	n, err = m.copy(ctx, follows)
	m.o.Progress.End()
	return n, m.o.Progress.Rate(n), err
}

func (m *Move) copy(ctx context.Context, follows bool) (int, error) {
	if err := m.empty(ctx); err != nil {
		return 0, err
	}
	m.o.Note(fmt.Sprintf("%s is %s; left out are its %s", m.link.src.Remote.URL, m.link.src.product.name, m.link.src.product.lost))
	if err := m.takeSchema(ctx); err != nil {
		return 0, err
	}
	if follows {
		if err := m.place.begin(ctx, m.link.src.following()); err != nil {
			return 0, err
		}
	}
	n, err := m.load(ctx)
	switch {
	case err != nil && n > 0 && follows:
		return n, fmt.Errorf("%w; start the command again to copy the others", err)
	case err != nil && n > 0:
		return n, fmt.Errorf("%w; delete them, or copy into another store", err)
	case err != nil || !follows:
		return n, err
	}
	return n, m.writer.apply(ctx, nil, m.place.cursor.clone())
}

// empty returns an error if the directory already has one of the subtrees to be copied.
func (m *Move) empty(ctx context.Context) error {
	s := state.Newest(m.p)
	defer s.Close()
	for _, base := range m.link.src.Bases {
		name, err := dn.Parse(base)
		if err != nil {
			return err
		}
		at, err := s.Find(ctx, name)
		if err == nil {
			return fmt.Errorf("the store has an entry %s already: copy into a store without it", at.Name)
		}
		if !partition.Is(err, partition.NoSuchEntry) {
			return err
		}
	}
	return nil
}

// Resume continues with the server that the directory follows. From then on this process
// follows, and no other.
func (m *Move) Resume(ctx context.Context) error {
	if err := m.place.take(ctx); err != nil || m.empty(ctx) != nil {
		return err
	}
	// The copy was interrupted.
	if _, err := m.load(ctx); err != nil {
		return err
	}
	return m.writer.apply(ctx, nil, m.place.cursor.clone())
}

// load loads the entries of the server.
func (m *Move) load(ctx context.Context) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cookies := map[string][]byte{}
	entries := func(yield func(*ldif.Record) bool) {
		for _, base := range m.link.src.Bases {
			err := m.records(ctx, base, cookies, yield)
			if errors.Is(err, errNoSync) && m.link.refuses(err) {
				err = m.records(ctx, base, cookies, yield)
			}
			if err != nil {
				cancel(fmt.Errorf("%s: %w", m.link.src.Remote.URL, err))
				return
			}
		}
	}
	res, err := bulk.ImportEntries(ctx, m.p, bulk.Options{
		Suffixes: m.link.src.Bases, By: m.o.By, Progress: m.o.Progress, Note: m.o.Note,
		Report: func(e *ldif.Error) { m.left.entry(e.DN, errors.New(e.Text)) },
	}, entries)
	if cause := context.Cause(ctx); cause != nil && res.Revision == 0 {
		return 0, cause
	}
	if err == nil {
		m.place.cursor.Cookies = cookies
	}
	return res.Done, err
}

// errStopped ends a stream whose reader wants no more.
var errStopped = errors.New("stopped")

// The method "records" yields the entries of a subtree as records, and stores the cookie of the
// subtree in cookies.
func (m *Move) records(ctx context.Context, base string, cookies map[string][]byte, yield func(*ldif.Record) bool) error {
	inner := m.link.src.inner(base)
	one := func(e *ldap.Entry) error {
		if within(e.DN, inner) {
			return nil
		}
		rec := &ldif.Record{DN: e.DN, Attributes: m.translation().stored(attributesOf(e))}
		if !yield(rec) {
			return errStopped
		}
		return nil
	}
	err := m.link.src.events(ctx, base, nil, false, func(ev *event) error {
		if len(ev.cookie) > 0 {
			cookies[base] = ev.cookie
		}
		if ev.entry != nil {
			return one(ev.entry)
		}
		return nil
	})
	if err == nil && m.link.src.synced {
		err = m.link.src.hidden(ctx, base, one)
	}
	return err
}

// hidden calls each(e) for every subentry e. A synchronization does not send subentries.
func (s *Source) hidden(ctx context.Context, base string, each func(*ldap.Entry) error) error {
	for _, c := range s.subentries() {
		if err := s.pages(ctx, base, s.product.all(), wanted, append(s.controls(), c), each); err != nil {
			return err
		}
	}
	return nil
}
