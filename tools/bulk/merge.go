package bulk

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// If others write to the directory (see Options.Concurrent), an import of files adds its entries to
// a branch and merges the branch, unless Options.Batches is set. The name of the branch contains the name of the first file and a hash of
// the records. So if the import is interrupted and run again, it finds the branch and
// continues there.

// maxFileName is the number of octets to which a file's name is shortened in the name of
// a branch.
const maxFileName = 40

// summarize adds a record to the hash of the import.
func (im *importer) summarize(x *item) {
	if x.Record == nil || im.accepted == nil {
		return // the record is bad, or the import needs no branch
	}
	without := item{Record: x.Record}
	im.sum.Write(appendWaiting(nil, &without))
}

// branchName returns the name of the branch of the import.
func (im *importer) branchName() string {
	file := "stdin"
	if len(im.o.Files) > 0 && im.o.Files[0] != stdin {
		file = filepath.Base(im.o.Files[0])
	}
	file = strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f && !strings.ContainsRune(`,+="<>;\#`, r) {
			return r
		}
		return '_'
	}, file)
	return "import-" + file[:min(len(file), maxFileName)] + "-" + hex.EncodeToString(im.sum.Sum(nil)[:4])
}

// mergeAll adds the accepted entries to the import's branch, and merges the branch. It discards
// the branch if no entry was added, or if the branch refused an entry and Continue is not set.
func (im *importer) mergeAll(ctx context.Context) (res Result, err error) {
	if err := im.l.Check(); err != nil {
		return res, err
	}
	// The naming contexts must be added before the branch is created, because a branch
	// with entries cannot be merged after a change of the settings.
	if err := onlineschema.AddSuffixes(ctx, im.p, im.l.Suffixes()); err != nil {
		return res, err
	}
	b, to, err := im.openBranch(ctx)
	if err != nil {
		return res, err
	}
	total := im.accepted.n
	filled, err := im.addTo(ctx, to, im.accepted)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	switch {
	case err != nil:
		res.staged = true
		return res, fmt.Errorf("%w: %d of %d entries are in the branch %s, where nobody sees them: the same command continues the import, and discarding the branch throws them away", err, filled.Done, total, b.Name())
	case im.rejects.n > 0 && !im.o.Continue || filled.Done == 0:
		if res.There = filled.There; res.There > 0 && im.rejects.n == 0 {
			res.Revision = im.l.Revision() // the directory is as the files say
		}
		return res, b.Discard(context.WithoutCancel(ctx))
	}
	if res.Revision, err = b.Merge(ctx, im.o.By); err != nil {
		res.staged = true
		return res, unmerged(b.Name(), filled.Done, err)
	}
	res.Done, res.There = filled.Done, filled.There
	return res, nil
}

// unmerged returns the error of an import whose branch could not be merged.
func unmerged(name string, n int, err error) error {
	var conflict *branch.ConflictError
	if !errors.As(err, &conflict) {
		return fmt.Errorf("merging the branch %s, which has the %d entries: %w", name, n, err)
	}
	return fmt.Errorf("%w. All %d entries are in that branch, where nobody sees them, because others have changed the directory during the import. A rebase makes them again above the present state, and then the branch can be merged", err, n)
}

// openBranch returns the branch of the import, and creates it if necessary. If the branch
// exists, an earlier run of the import did not merge it. The target then counts the entries that
// the earlier run added as its own.
func (im *importer) openBranch(ctx context.Context) (*branch.Branch, *target, error) {
	name := im.branchName()
	b, err := branch.Find(im.p, name)
	if partition.Is(err, partition.NoSuchEntry) {
		b, err = branch.Create(ctx, im.p, branch.Options{Name: name, By: im.o.By, Description: fmt.Sprintf("import of %s, %d entries", strings.Join(im.o.Files, " "), im.accepted.n)})
		if err != nil {
			return nil, nil, err
		}
		return b, intoBranch(im.p, b), nil
	}
	if err != nil {
		return nil, nil, err
	}
	i, err := b.Info(ctx)
	if err != nil {
		return nil, nil, err
	}
	im.o.Note(fmt.Sprintf("the import continues in the branch %s, which has %d of its commits", name, i.Commits))
	to := intoBranch(im.p, b)
	to.added = func(id entry.ID) bool {
		_, r := i.Last(id)
		return r != 0 || i.All
	}
	return b, to, nil
}

// intoBranch returns a branch as a target.
func intoBranch(p *partition.Partition, b *branch.Branch) *target {
	return &target{update: b.Update, items: load.CommitSize(p), bytes: commitBytes}
}

// entriesIntoBranch adds the entries of files to a branch that the user has made. As in
// other imports, an entry may come before its parent.
func entriesIntoBranch(ctx context.Context, p *partition.Partition, o *Options) (res Result, err error) {
	im := &importer{o: o, p: p, rejects: rejects{o: o}, tally: newTally(), noted: map[string]bool{}}
	all := &spool{}
	defer all.close()
	s := newCleaner(p.Schema(), im.noteForeign, im.tally, o.DropDuplicates)
	for x := range o.items() {
		if err := im.forBranch(&x); err != nil {
			im.rejects.add(&x, err)
			continue
		}
		x.Attributes = s.clean(x.Attributes)
		if err := all.add(&x); err != nil {
			return res, err
		}
	}
	if im.rejects.n == 0 {
		res, err = im.addTo(ctx, intoBranch(im.p, o.Branch), all)
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %d records are in the branch", res.Done)
	}
	res.Bad, res.entries = im.rejects.n, true
	if res.Done > 0 {
		im.tally.report(o.Note)
	}
	if err = errors.Join(err, im.rejects.close()); err == nil {
		err = o.ended(res)
	}
	return res, err
}

// forBranch returns an error if a record of a file of entries cannot be imported into a
// branch.
func (im *importer) forBranch(x *item) error {
	switch {
	case x.bad != nil:
		return x.bad
	case x.defines() || x.configures():
		return errOfBranch
	}
	switch c := x.Change.(type) {
	case nil:
	case *op.Add:
		x.Attributes, x.Change = c.Attributes, nil
	default:
		return x.misplaced()
	}
	if _, err := dn.Parse(x.DN); err != nil {
		return fmt.Errorf("the name is not a DN: %w", err)
	}
	if rulesIn(im.p.Schema(), x.Attributes) >= 0 {
		return errRules
	}
	return nil
}
