package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
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
	p   *partition.Partition
	o   Options
	by  partition.By
	src *Source
	// ask is a second connection, for questions during a synchronization.
	ask *Source
	// translate is replaced when the schema changes.
	translate *translation
	noted     map[string]bool
	owner     string
	cursor    cursor
	saved     []byte          // the cursor as it was last written
	left      map[string]bool // names of entries that were reported as left out
	// refused are the entries that the directory has refused since all entries were compared.
	// No commit names a refused entry, so a comparison of the entries in later commits would
	// miss these entries.
	refused map[suspect]bool
	// The field "again" is set if the next refresh must begin without a cookie, because a
	// refresh with a cookie could leave a difference between the directory and the server.
	again bool
	// The map "others" contains the entries that have one id in the synchronization and another
	// id in the directory. It maps the first id to the second. The map is complete if mapped is
	// set.
	others map[entry.ID]entry.ID
	mapped bool
	// refreshing is set while entries are deleted at the end of a refresh.
	refreshing bool
}

// A cursor says how far the changes of a server have been copied.
type cursor struct {
	Owner   string            `json:"owner"` // the process that follows
	Cookies map[string][]byte `json:"cookies"`
	// Ahead are the subtrees with copied entries that are newer than the cookie. If such an
	// entry is deleted at the server, the server need not report the deletion to a client with
	// the old cookie. So the next refresh of the subtree uses no cookie.
	Ahead map[string]bool `json:"ahead,omitempty"`
}

// A suspect is an entry that has to be compared. Its name or its id may be missing.
type suspect struct {
	name string
	id   entry.ID
}

func (c *cursor) clone() *cursor {
	next := &cursor{c.Owner, maps.Clone(c.Cookies), maps.Clone(c.Ahead)}
	if next.Cookies == nil {
		next.Cookies = map[string][]byte{}
	}
	return next
}

func (c *cursor) setAhead(base string) {
	if c.Ahead == nil {
		c.Ahead = map[string]bool{}
	}
	c.Ahead[base] = true
}

// marshal returns the cursor as it is stored.
func (c *cursor) marshal() []byte {
	value, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and octets can always be encoded
	}
	return value
}

// These errors end a Move although nothing has failed.
var (
	// ErrTaken means that another process follows now.
	ErrTaken = errors.New("another ldapd migrate is running with this store")
	// ErrEnded means that the directory no longer follows.
	ErrEnded = errors.New("the store no longer follows another server")
)

// New returns a Move from a server into a partition.
func New(p *partition.Partition, src *Source, o Options) (*Move, error) {
	ask, err := src.Again()
	if err != nil {
		return nil, err
	}
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
	m := &Move{p: p, o: o, by: o.By, src: src, ask: ask, owner: entry.NewID().String(), left: map[string]bool{}, others: map[entry.ID]entry.ID{}, noted: map[string]bool{}, refused: map[suspect]bool{}}
	src.references.note = o.Note
	m.cursor = cursor{Owner: m.owner, Cookies: map[string][]byte{}}
	return m, nil
}

// Close closes the connections.
func (m *Move) Close() {
	m.src.Close()
	m.ask.Close()
}

// Followed returns the server that the directory of a partition follows, or nil.
func Followed(p *partition.Partition) *catalog.Following {
	s := state.Newest(p)
	defer s.Close()
	return s.Catalog.Header.Following
}

// note reports that an attribute is left out. It does so once for each attribute.
func (m *Move) note(attribute string) {
	if !m.noted[attribute] {
		m.noted[attribute] = true
		m.o.Note("attribute " + attribute + " of another server is left out")
	}
}

func (m *Move) translation() *translation {
	if s := m.p.Schema(); m.translate == nil || m.translate.schema != s {
		m.translate = newTranslation(s, m.note)
	}
	return m.translate
}

// leave reports that an entry is left out. It does so once for each entry.
func (m *Move) leave(name string, why error) {
	if !m.left[name] {
		m.left[name] = true
		m.o.LeftOut(name, why.Error())
	}
}

// refuse reports an entry that is left out. Finish compares the entry again.
func (m *Move) refuse(name string, id entry.ID, why error) {
	m.refused[suspect{name, id}] = true
	m.leave(name, why)
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
	m.o.Note(fmt.Sprintf("%s is %s; left out are its %s", m.src.Remote.URL, m.src.product.name, m.src.product.lost))
	if err := m.takeSchema(ctx); err != nil {
		return 0, err
	}
	if follows {
		if err := m.begin(ctx); err != nil {
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
	return n, m.apply(ctx, nil, m.cursor.clone())
}

// empty returns an error if the directory already has one of the subtrees to be copied.
func (m *Move) empty(ctx context.Context) error {
	s := state.Newest(m.p)
	defer s.Close()
	for _, base := range m.src.Bases {
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

// begin makes the directory follow the server.
func (m *Move) begin(ctx context.Context) error {
	_, err := write.Update(ctx, m.p, m.by, func(tx *partition.Tx) error {
		if f := (&tx.Snapshot).Catalog.Header.Following; f != nil {
			return fmt.Errorf("the store follows %s already", f.URL)
		}
		tx.SetCursor(m.cursor.marshal())
		r := m.src.Remote
		return tx.SetFollowing(&catalog.Following{URL: r.URL, BindDN: r.BindDN, StartTLS: r.StartTLS, Bases: m.src.Bases})
	})
	m.written()
	return err
}

// Resume continues with the server that the directory follows. From then on this process
// follows, and no other.
func (m *Move) Resume(ctx context.Context) error {
	_, err := write.Update(ctx, m.p, m.by, func(tx *partition.Tx) error {
		if (&tx.Snapshot).Catalog.Header.Following == nil {
			return ErrEnded
		}
		c, err := readCursor(ctx, &tx.Snapshot)
		if err != nil {
			return err
		}
		c.Owner = m.owner
		m.cursor = *c.clone()
		tx.SetCursor(m.cursor.marshal())
		return nil
	})
	m.written()
	if err != nil || m.empty(ctx) != nil {
		return err
	}
	// The copy was interrupted.
	if _, err := m.load(ctx); err != nil {
		return err
	}
	return m.apply(ctx, nil, m.cursor.clone())
}

// reload reads the cursor after another Move has written it in place of m.
func (m *Move) reload(ctx context.Context) error {
	s := state.Newest(m.p)
	defer s.Close()
	c, err := readCursor(ctx, s)
	if err == nil {
		c.Owner = m.owner
		m.cursor = *c.clone()
		m.written()
	}
	return err
}

func readCursor(ctx context.Context, s *partition.Snapshot) (c cursor, err error) {
	value, err := write.Cursor(ctx, s)
	if err == nil && len(value) > 0 {
		err = json.Unmarshal(value, &c)
	}
	return c, err
}

// written notes that the cursor has been written.
func (m *Move) written() { m.saved = m.cursor.marshal() }

// The method "own" returns an error if another process follows, or if the directory no longer
// follows.
func (m *Move) own(ctx context.Context, tx *partition.Tx) error {
	if (&tx.Snapshot).Catalog.Header.Following == nil {
		return ErrEnded
	}
	c, err := readCursor(ctx, &tx.Snapshot)
	if err == nil && c.Owner != m.owner {
		err = ErrTaken
	}
	return err
}

// load loads the entries of the server.
func (m *Move) load(ctx context.Context) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cookies := map[string][]byte{}
	entries := func(yield func(*ldif.Record) bool) {
		for _, base := range m.src.Bases {
			err := m.records(ctx, base, cookies, yield)
			if errors.Is(err, errNoSync) && m.refuses(err) {
				err = m.records(ctx, base, cookies, yield)
			}
			if err != nil {
				cancel(fmt.Errorf("%s: %w", m.src.Remote.URL, err))
				return
			}
		}
	}
	res, err := bulk.ImportEntries(ctx, m.p, bulk.Options{
		Suffixes: m.src.Bases, By: m.by, Progress: m.o.Progress, Note: m.o.Note,
		Report: func(e *ldif.Error) { m.leave(e.DN, errors.New(e.Text)) },
	}, entries)
	if cause := context.Cause(ctx); cause != nil && res.Revision == 0 {
		return 0, cause
	}
	if err == nil {
		m.cursor.Cookies = cookies
	}
	return res.Done, err
}

// errStopped ends a stream whose reader wants no more.
var errStopped = errors.New("stopped")

// The method "records" yields the entries of a subtree as records, and stores the cookie of the
// subtree in cookies.
func (m *Move) records(ctx context.Context, base string, cookies map[string][]byte, yield func(*ldif.Record) bool) error {
	inner := m.src.inner(base)
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
	err := m.src.events(ctx, base, nil, false, func(ev *event) error {
		if len(ev.cookie) > 0 {
			cookies[base] = ev.cookie
		}
		if ev.entry != nil {
			return one(ev.entry)
		}
		return nil
	})
	if err == nil && m.src.synced {
		err = m.src.hidden(ctx, base, one)
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

// refuses makes m treat the server as one without content synchronization. It returns
// false if m does so already.
func (m *Move) refuses(err error) bool {
	if !m.src.synced {
		return false
	}
	m.src.synced = false
	m.o.Note(err.Error() + ": everything is read again each time instead")
	return true
}

// end makes the directory stop following, so that it is open for updates.
func (m *Move) end(ctx context.Context) error {
	_, err := write.Update(ctx, m.p, m.by, func(tx *partition.Tx) error {
		if err := m.own(ctx, tx); err != nil {
			return err
		}
		tx.SetCursor(nil)
		return tx.SetFollowing(nil)
	})
	return err
}

// Cancel makes the directory of a partition follow no server, without a comparison.
func Cancel(ctx context.Context, p *partition.Partition, by partition.By) error {
	_, err := write.Update(ctx, p, by, func(tx *partition.Tx) error {
		if (&tx.Snapshot).Catalog.Header.Following == nil {
			return ErrEnded
		}
		tx.SetCursor(nil)
		return tx.SetFollowing(nil)
	})
	return err
}

// isLost reports whether an error comes from the other server or from the connection to
// it.
func isLost(err error) bool {
	var f *failure
	return errors.As(err, &f)
}

// isCut reports whether an error comes from the connection.
func isCut(err error) bool {
	return errors.Is(err, errCut) || isLost(err) && ldap.IsErrorWithCode(err, ldap.ErrorNetwork)
}
