package bulk

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Remote is a running server to which Send sends records.
type Remote struct {
	URL              string // ldap://, ldaps:// or ldapi://
	BindDN, Password string
	StartTLS         bool
	// Authorities contains, in PEM, the certificates of the CAs that may issue the server's
	// certificate. If it is nil, the system's certificates are used.
	Authorities []byte
	// Connections is the number of entries that are sent at once; 0 means 8. Changes are
	// sent one by one.
	Connections int
}

// Send sends the records of files to a server. Each record takes effect separately.
// Send stops at the first bad record unless Continue is set.
func Send(ctx context.Context, r Remote, o Options) (Result, error) {
	o = o.withDefaults()
	o.Progress.total.Store(o.Size)
	s := &sender{o: &o, r: r, core: schema.Core(), rejects: rejects{o: &o}, busy: map[string]chan struct{}{}, noted: map[string]bool{}}
	s.cleaner = newCleaner(s.core, s.note, newTally(), o.DropDuplicates)
	s.cleaner.translate = false // a server of the kind that wrote the export needs no translation
	n := cmp.Or(r.Connections, 8)
	h := o.head()
	if s.changes = h.first.changes(); s.changes {
		n = 1
	}
	err := s.run(ctx, n)
	err = errors.Join(err, s.rejects.close())
	s.res.Bad = s.rejects.n
	if s.res.Done > 0 {
		s.cleaner.tally.report(o.Note)
	}
	switch {
	case ctx.Err() != nil:
		err = &refusal{fmt.Sprintf("interrupted: %d records were sent; import again", s.res.Done), []error{ErrStopped}}
	case err == nil && s.res.Bad > 0 && !o.Continue:
		err = bad(fmt.Sprintf("stopped at a bad record, %d records were sent: correct it and import again", s.res.Done), ErrStopped)
	case err == nil:
		err = o.ended(s.res)
	}
	return s.res, err
}

// sender distributes records over the connections to a server.
type sender struct {
	o *Options
	r Remote
	// changes is set if the files contain changes, which are sent in order.
	changes bool
	core    *schema.Schema
	cleaner *cleaner

	mu      sync.Mutex
	rejects rejects
	res     Result
	noted   map[string]bool
	// busy has the names of the entries being added. An entry waits for its parent.
	busy map[string]chan struct{}
}

func (s *sender) note(attribute string) {
	if !s.noted[attribute] {
		s.noted[attribute] = true
		s.o.Note("attribute " + attribute + " is not sent: the server sets it itself, or it is another server's")
	}
}

func (s *sender) run(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan item)
	var wg sync.WaitGroup
	var one *ldap.Conn
	for range n {
		c, err := s.r.Dial()
		if err != nil {
			close(work)
			wg.Wait()
			return err
		}
		one = c
		// Closing the connection ends a request that waits for its answer.
		stop := context.AfterFunc(ctx, func() { c.Close() })
		wg.Go(func() {
			defer stop()
			defer c.Close()
			for x := range work {
				if err := s.one(c, &x); err != nil {
					cancel(err)
				}
			}
		})
	}
	s.read(ctx, work, func(x *item) {
		if err := s.one(one, x); err != nil {
			cancel(err)
		}
	})
	close(work)
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errStop) {
		return err
	}
	return nil
}

// errStop ends the work after a bad record.
var errStop = errors.New("stopped at a bad record")

// read distributes the records. It sends definitions before it distributes entries that
// may need them.
func (s *sender) read(ctx context.Context, work chan<- item, alone func(*item)) {
	for x := range s.o.items() {
		if x.defines() {
			alone(&x)
			continue
		}
		if x.configures() {
			s.mu.Lock() // the other goroutines may be adding notes
			s.o.Note(catalog.ConfigName + " is not sent: a server has naming contexts, indexes and unique attributes of its own")
			s.mu.Unlock()
			continue
		}
		if x.Record != nil && !s.above(ctx, &x) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case work <- x:
		}
	}
}

// The method "above" waits for the parent of x if the parent is being added, and returns false
// if ctx ends first. It registers the name of x, so that the children of x wait for x.
func (s *sender) above(ctx context.Context, x *item) bool {
	name, err := dn.Parse(x.DN)
	if err != nil || len(name) == 0 {
		return true // the server reports the error
	}
	s.mu.Lock()
	wait := s.busy[strings.ToLower(name.Parent().String())]
	s.busy[strings.ToLower(name.String())] = make(chan struct{})
	s.mu.Unlock()
	if wait == nil {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-wait:
		return true
	}
}

// The method "one" sends a single record. If it returns an error, the sender stops.
func (s *sender) one(c *ldap.Conn, x *item) error {
	var err error
	if x.bad != nil {
		err = x.bad
	} else {
		err = s.send(c, x)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.Record != nil {
		if name, err := dn.Parse(x.DN); err == nil {
			key := strings.ToLower(name.String())
			if done := s.busy[key]; done != nil {
				close(done)
				delete(s.busy, key)
			}
		}
	}
	if err == nil {
		s.res.Done++
		s.o.Progress.entries.Add(1)
		return nil
	}
	if lost(err) {
		return fmt.Errorf("%s: %w", s.r.URL, err)
	}
	s.rejects.add(x, err)
	if !s.o.Continue {
		return errStop
	}
	return nil
}

// lost reports whether err is a failure of the connection and not of the record.
func lost(err error) bool {
	var e *ldap.Error
	return errors.As(err, &e) && (e.ResultCode == ldap.ErrorNetwork || e.ResultCode == ldap.LDAPResultUnavailable)
}

func (s *sender) send(c *ldap.Conn, x *item) error {
	if _, add := x.Change.(*op.Add); x.Change != nil && !add && !s.changes {
		return x.misplaced()
	}
	if x.defines() {
		return s.define(c, x)
	}
	switch r := x.Change.(type) {
	case nil:
		return s.add(c, x.DN, x.Attributes, nil)
	case *op.Add:
		return s.add(c, x.DN, r.Attributes, controls(x))
	case *op.Delete:
		return c.Del(ldap.NewDelRequest(x.DN, controls(x)))
	case *op.Modify:
		m := ldap.NewModifyRequest(x.DN, controls(x))
		for _, ch := range r.Changes {
			m.Changes = append(m.Changes, ldap.Change{
				Operation:    uint(ch.Kind),
				Modification: ldap.PartialAttribute{Type: ch.Description, Vals: texts(ch.Values)},
			})
		}
		return c.Modify(m)
	case *op.ModifyDN:
		above := ""
		if r.NewSuperior != nil {
			above = *r.NewSuperior
		}
		return c.ModifyDN(ldap.NewModifyDNWithControlsRequest(x.DN, r.NewRDN, r.DeleteOldRDN, above, controls(x)))
	}
	return x.wrong(errors.New("a change of a kind that LDIF does not have"))
}

// add adds an entry. It leaves out the attributes that clients may not set.
func (s *sender) add(c *ldap.Conn, name string, attributes []op.PartialAttribute, cs []ldap.Control) error {
	r := ldap.NewAddRequest(name, cs)
	s.mu.Lock()
	for _, a := range s.cleaner.clean(attributes) {
		base, _, _ := strings.Cut(a.Description, ";")
		if t := s.core.Attribute(base); t != nil && t.NoUserModification {
			s.note(base)
			continue
		}
		r.Attribute(a.Description, texts(a.Values))
	}
	s.mu.Unlock()
	return c.Add(r)
}

func texts(values [][]byte) []string {
	ts := make([]string, len(values))
	for i, v := range values {
		ts[i] = string(v)
	}
	return ts
}

func controls(x *item) (cs []ldap.Control) {
	for _, k := range x.Controls {
		cs = append(cs, ldap.NewControlString(k.OID, k.Critical, string(k.Value)))
	}
	return cs
}

// Dial connects to the server and binds.
func (r Remote) Dial() (*ldap.Conn, error) {
	c, err := r.connect()
	if err != nil {
		return nil, err
	}
	return c, r.bind(c)
}

func (r Remote) connect() (*ldap.Conn, error) {
	if rest, ok := strings.CutPrefix(r.URL, "ldapi://"); ok {
		path, err := url.PathUnescape(rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.URL, err)
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			return nil, err
		}
		c := ldap.NewConn(conn, false)
		c.Start()
		return c, nil
	}
	secure := &tls.Config{}
	if r.Authorities != nil {
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(r.Authorities) {
			return nil, errors.New("the file of authorities has no certificates in PEM")
		}
	}
	c, err := ldap.DialURL(r.URL, ldap.DialWithTLSConfig(secure))
	if err != nil || !r.StartTLS {
		return c, err
	}
	u, err := url.Parse(r.URL)
	if err == nil {
		secure.ServerName = u.Hostname()
		err = c.StartTLS(secure)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", r.URL, err)
	}
	return c, nil
}

// mostBind is the longest time that a server may take for a bind.
const mostBind = time.Minute

func (r Remote) bind(c *ldap.Conn) error {
	if r.BindDN == "" {
		return nil
	}
	c.SetTimeout(mostBind)
	defer c.SetTimeout(0)
	if err := c.Bind(r.BindDN, r.Password); err != nil {
		c.Close()
		return fmt.Errorf("binding as %s at %s: %w", r.BindDN, r.URL, err)
	}
	return nil
}
