package bulk

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"iter"
	"sync"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	_ "github.com/seed-4dac0d86/ldapd/partition/load/spill/ondisk"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Import imports files into a partition. The first record determines whether the files
// contain entries or changes. An error that wraps ErrBad means that some records were bad.
func Import(ctx context.Context, p *partition.Partition, o Options) (Result, error) {
	o = o.withDefaults()
	o.Progress.total.Store(o.Size)
	h := o.head()
	switch {
	case h.first.changes() || o.Branch != nil && o.Continue:
		return importChanges(ctx, p, &o, &h.first)
	case o.Branch != nil:
		return entriesIntoBranch(ctx, p, &o)
	}
	return importEntries(ctx, p, &o, &h)
}

// ImportEntries loads entries that do not come from files. It treats them like the entries of
// files, and continues after bad entries. If ctx ends before ImportEntries returns, some of the
// entries may have been imported.
func ImportEntries(ctx context.Context, p *partition.Partition, o Options, entries iter.Seq[*ldif.Record]) (Result, error) {
	o.Files, o.Continue, o.entries = nil, true, entries
	o = o.withDefaults()
	res, err := importEntries(ctx, p, &o, &head{})
	if res.Revision != 0 && errors.Is(err, ErrBad) {
		err = nil
	}
	return res, err
}

// A head has the first records of the first file.
type head struct {
	first item // the first record; its Record is nil if it cannot be read
	// definitions is the record with the definitions of the schema, or nil if the file does not
	// begin with one. configurations has the record with the shared configuration, or records
	// of another server's configuration. Definitions and configuration come in either order.
	definitions    *item
	configurations []*item
}

// The method "records" returns how many records have definitions or configuration.
func (h *head) records() int {
	n := len(h.configurations)
	if h.definitions != nil {
		n++
	}
	return n
}

// head reads the first records of the first file. Standard input can be read only once, so
// head keeps the bytes that it reads, for a second reading.
func (o *Options) head() (h head) {
	first := *o
	first.Note = func(string) {} // the notes come with the second reading
	first.Files, first.Progress = o.Files[:min(1, len(o.Files))], &Progress{}
	if len(o.Files) > 0 && o.Files[0] == stdin {
		peeked := &replay{in: o.Stdin}
		first.Stdin, o.Stdin = peeked, peeked
		defer peeked.rewind()
	}
	n := 0
	for x := range first.items() {
		if n++; n == 1 {
			h.first = x
		}
		switch {
		case h.definitions == nil && x.defines():
			h.definitions = &x
		case x.configures() && (len(h.configurations) == 0 || !h.configurations[0].isOurs() && !x.isOurs()):
			h.configurations = append(h.configurations, &x)
		default:
			return h
		}
	}
	return h
}

// importer imports entries.
type importer struct {
	o       *Options
	p       *partition.Partition
	l       *load.Loader
	rejects rejects
	wait    spool // entries whose parent has not been read yet
	tally   *tally
	skip    int // number of records at the beginning that are not entries
	there   int // number of entries that the store has already; not counted if accepted is set
	// accepted, if set, receives the checked entries, parents first. The import then does
	// not call l.Write.
	accepted *spool
	sum      hash.Hash // hash of the entries, in the order of the files; see summarize
	rules    *givenRules
	policies *givenPolicies

	mu    sync.Mutex // guards noted
	noted map[string]bool
}

// importEntries loads entries. Before the entries it applies the definitions, which the
// entries may need, and the configuration, to which the entries must conform.
func importEntries(ctx context.Context, p *partition.Partition, o *Options, h *head) (Result, error) {
	d, err := takeDefinitions(ctx, p, o, h.definitions)
	if err != nil {
		return Result{}, err
	}
	var res Result
	c, err := takeConfiguration(ctx, p, o, h.configurations)
	var rules givenRules
	policies := givenPolicies{standard: c.policyOf}
	if err == nil {
		res, err = loadAlone(ctx, p, o, h.records(), c.scopes, &rules, &policies)
	}
	if res.Revision != 0 && (c.access || len(rules.all) > 0) {
		err = errors.Join(err, rules.settle(ctx, p, o.Note))
	}
	if res.Revision != 0 {
		err = errors.Join(err, policies.settle(ctx, p, o), makeUniqueAs(ctx, p, o, c.uniqueThere))
	}
	if res.Revision == 0 && !res.staged {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, c.takeBack(ctx), d.takeBack(ctx, p, o))
	}
	return res, err
}

// loadAlone imports the entries. It skips the first records, as many as the parameter skip says. If
// a bulk load is possible, it makes them visible together. If not (see Options.Concurrent), loadAlone
// usually adds them to a branch, whose merge makes them visible. With Options.Batches, and for
// ImportEntries, it adds them without a branch instead, and they become visible batch by batch.
func loadAlone(ctx context.Context, p *partition.Partition, o *Options, skip int, scopes map[entry.ID]dn.DN, rules *givenRules, policies *givenPolicies) (Result, error) {
	lo := load.Options{
		By: o.By, Suffixes: o.Suffixes, FirstSuffix: len(o.Suffixes) == 0, Memory: o.Memory, Scopes: scopes,
		Progress: o.Progress.finishing, CheckOnly: o.Concurrent,
	}
	l, err := load.Load(ctx, p, lo)
	if (partition.Is(err, partition.Busy) || errors.Is(err, partition.ErrBranches)) && !o.Together {
		lo.CheckOnly = true
		l, err = load.Load(ctx, p, lo)
	}
	if err != nil {
		return Result{}, err
	}
	defer l.Abort(ctx)
	im := &importer{o: o, p: p, l: l, rejects: rejects{o: o, schema: p.Schema}, skip: skip, rules: rules, policies: policies, tally: newTally(), noted: map[string]bool{}, sum: sha256.New()}
	defer im.wait.close()
	finish := im.commit
	if lo.CheckOnly {
		im.accepted = &spool{}
		defer im.accepted.close()
		if finish = im.mergeAll; o.Batches || o.entries != nil {
			finish = im.addAll
		}
	}
	return im.load(ctx, finish)
}

// load checks all entries. If all are good, or if Continue is set, load calls finish to
// make the good entries visible. If the bad records that the check finds cannot be written to
// their file, nothing becomes visible.
func (im *importer) load(ctx context.Context, finish func(context.Context) (Result, error)) (Result, error) {
	err := im.run(ctx)
	if e := im.rejects.flush(); err == nil {
		err = e
	}
	defer im.rejects.close()
	if err != nil {
		return Result{Bad: im.rejects.n}, interrupted(ctx, err)
	}
	if im.rejects.n > 0 && !im.o.Continue {
		res := Result{Bad: im.rejects.n}
		return res, im.o.ended(res)
	}
	res, err := finish(ctx)
	res.Bad = im.rejects.n
	if e := im.rejects.flush(); err == nil {
		err = e
	}
	if err != nil {
		return res, err
	}
	im.tally.report(im.o.Note)
	return res, im.o.ended(res)
}

// commit makes all entries visible together.
func (im *importer) commit(ctx context.Context) (Result, error) {
	r, err := im.l.Commit(ctx)
	if err != nil {
		return Result{}, interrupted(ctx, err)
	}
	return Result{Done: im.l.Count(), There: im.there, Revision: r}, nil
}

// interrupted returns an error with advice if ctx has ended, which means that the user has
// interrupted the import. Otherwise it returns err.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return errors.New("interrupted: nothing was imported; run the same command again")
}

// A batch is a group of records that one worker prepares, links and writes. Batches are
// linked in file order: each batch waits until the previous batch has been linked.
type batch struct {
	items    []item
	prepared []*load.Loading
	bad      []error
	turn     <-chan struct{}
	next     chan struct{}
}

// A batch is large enough to make the cost of passing it to a worker negligible. Its size
// in bytes is bounded too, because entries may contain photographs.
const (
	batchItems = 256
	batchBytes = 1 << 20
)

// run reads the files while workers do the other steps, and waits for the workers. Then it
// links the entries that came before their parents.
func (im *importer) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batches := make(chan *batch, im.o.Workers)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(batches)
		im.read(ctx, batches)
	})
	for range im.o.Workers {
		wg.Go(func() {
			s := newCleaner(im.p.Schema(), im.noteForeign, im.tally, im.o.DropDuplicates)
			for b := range batches {
				if err := im.work(ctx, s, b); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return im.linkWaiting(ctx)
}

func (im *importer) read(ctx context.Context, batches chan<- *batch) {
	turn := make(chan struct{})
	close(turn)
	b := &batch{turn: turn, next: make(chan struct{})}
	size := 0
	send := func() bool {
		select {
		case <-ctx.Done():
			return false
		case batches <- b:
		}
		b, size = &batch{turn: b.next, next: make(chan struct{})}, 0
		return true
	}
	skip := im.skip
	for x := range im.o.items() {
		if skip > 0 {
			skip--
			continue
		}
		b.items = append(b.items, x)
		size += x.size()
		if (len(b.items) == batchItems || size > batchBytes) && !send() {
			return
		}
	}
	send()
}

// work does the steps of a Loader for a batch.
func (im *importer) work(ctx context.Context, s *cleaner, b *batch) error {
	b.prepared, b.bad = make([]*load.Loading, len(b.items)), make([]error, len(b.items))
	for i := range b.items {
		b.prepared[i], b.bad[i] = im.prepare(s, &b.items[i])
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.turn:
	}
	ready, err := im.link(ctx, b)
	if err != nil {
		return err // the next batch waits until ctx ends
	}
	bad := im.rejects.n
	close(b.next)
	if bad > 0 && !im.o.Continue {
		return nil // nothing will be imported
	}
	if len(ready) > 0 {
		if err := im.l.Write(ctx, ready...); err != nil {
			return err
		}
	}
	im.o.Progress.entries.Add(int64(len(ready)))
	return nil
}

// link finds the parents of a batch's entries, and returns the entries whose parent exists. If
// im.accepted is set, link adds these entries to im.accepted instead of returning them. It puts
// the entries whose parent does not exist yet into im.wait, and reports bad records.
func (im *importer) link(ctx context.Context, b *batch) ([]*load.Loading, error) {
	ready := b.prepared[:0]
	for i := range b.items {
		x, e, err := &b.items[i], b.prepared[i], b.bad[i]
		im.summarize(x)
		if err == nil {
			err = im.l.Link(ctx, e)
		}
		switch {
		case err == nil && im.accepted != nil:
			err = im.accepted.add(x)
		case err == nil:
			ready = append(ready, e)
			im.note(e)
		case partition.Is(err, partition.NoSuchEntry):
			err = im.wait.add(x)
		default:
			err = im.refuse(x, err)
		}
		if err != nil {
			return nil, err
		}
	}
	return ready, nil
}

// note counts a linked entry that the store has already.
func (im *importer) note(e *load.Loading) {
	if e.There() {
		im.there++
	}
}

// refuse reports a bad record. If err is not the fault of the record, refuse returns
// err.
func (im *importer) refuse(x *item, err error) error {
	var p *partition.Error
	var l *ldif.Error
	if !errors.As(err, &p) && !errors.As(err, &l) {
		return err
	}
	im.rejects.add(x, err)
	text := ""
	switch {
	case x.Record != nil:
		text = x.DN
	case l != nil:
		text = l.DN // of a record that cannot be read
	}
	if name, err := dn.Parse(text); err == nil && !exists(p) {
		return im.l.Refuse(name)
	}
	return nil
}

// exists reports whether a record was refused because an entry has the same name
// already.
func exists(p *partition.Error) bool { return p != nil && p.Problem == partition.EntryExists }

// prepare does the part of the work on a record that can be done in any order.
func (im *importer) prepare(s *cleaner, x *item) (*load.Loading, error) {
	if x.bad != nil {
		return nil, x.bad
	}
	attributes := x.Attributes
	switch c := x.Change.(type) {
	case nil:
	case *op.Add:
		x.Attributes, x.Change = c.Attributes, nil
		attributes = c.Attributes
	default:
		return nil, x.misplaced()
	}
	name, err := dn.Parse(x.DN)
	if err != nil {
		return nil, x.wrong(fmt.Errorf("the name is not a DN: %w", err))
	}
	if catalog.IsSubschema(name) {
		return nil, x.wrong(errLateDefinitions)
	}
	if x.configures() {
		return nil, x.wrong(errLateConfiguration)
	}
	if attributes, err = im.rules.take(im.p.Schema(), x.DN, attributes); err != nil {
		return nil, x.wrong(err)
	}
	im.policies.take(name, attributes)
	attributes = s.clean(attributes)
	e, err := im.l.Prepare(name, attributes)
	if err == nil && im.accepted != nil {
		x.Attributes = attributes // addAll and mergeAll add the entry with these attributes
	}
	return e, err
}

func (im *importer) noteForeign(attribute string) {
	im.mu.Lock()
	defer im.mu.Unlock()
	if !im.noted[attribute] {
		im.noted[attribute] = true
		im.o.Note("attribute " + attribute + " of another server is left out")
	}
}

// linkWaiting links the entries that wait for their parents. It repeats this as long as
// it finds parents.
func (im *importer) linkWaiting(ctx context.Context) error {
	// The new tally is not reported, because prepare has counted these entries before.
	s := newCleaner(im.p.Schema(), im.noteForeign, newTally(), im.o.DropDuplicates)
	for last := false; im.wait.n > 0; {
		before := im.wait
		im.wait = spool{}
		for x, err := range before.items() {
			if err == nil {
				err = im.retry(ctx, s, x, last)
			}
			if err != nil {
				return errors.Join(err, before.close())
			}
		}
		if err := before.close(); err != nil {
			return err
		}
		last = im.wait.n == before.n
	}
	return nil
}

// retry links one entry. If last is set, a missing parent is an error.
func (im *importer) retry(ctx context.Context, s *cleaner, x *item, last bool) error {
	e, err := im.prepare(s, x)
	if err == nil {
		err = im.l.Link(ctx, e)
	}
	switch {
	case err == nil && im.accepted != nil:
		return im.accepted.add(x)
	case err == nil && (im.rejects.n == 0 || im.o.Continue):
		im.note(e)
		im.o.Progress.entries.Add(1)
		return im.l.Write(ctx, e)
	case err == nil:
		return nil
	case !last && partition.Is(err, partition.NoSuchEntry):
		return im.wait.add(x)
	}
	return im.refuse(x, err)
}
