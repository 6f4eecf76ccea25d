package txn

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Secrets have no history. A branch shows the secrets that were set in the branch. All
// other secrets are those that the trunk has now. So the rows of a branch are read at
// two states.

// getBranch reads rows of a branch.
func (s *Snapshot) getBranch(ctx context.Context, t table.Table, rows [][]byte, sel table.Select) ([]table.Row, error) {
	rest, secret := s.splitSecrets(t.Name(), sel)
	got, err := s.getParts(ctx, t, rows, rest, secret)
	if err == nil {
		err = s.branchKept()
	}
	return got, err
}

// getParts reads rows. A nil Select reads nothing.
func (s *Snapshot) getParts(ctx context.Context, t table.Table, rows [][]byte, rest, secret *table.Select) (got []table.Row, err error) {
	if rest != nil {
		rest.View = s
		if got, err = t.GetMany(ctx, rows, *rest); err != nil || secret == nil {
			return got, err
		}
	}
	now := s.db.Snapshot()
	defer now.Close()
	if err := now.unreadable(); err != nil {
		return nil, err
	}
	own := s.view.(*branchView)
	secret.View = &secretView{now, own}
	secrets, err := t.GetMany(ctx, rows, *secret)
	if err != nil || rest == nil {
		return secrets, err
	}
	for i := range got {
		got[i].Cells = append(slices.Clip(got[i].Cells), secrets[i].Cells...)
		slices.SortFunc(got[i].Cells, table.Cell.Compare)
	}
	return got, nil
}

// splitSecrets splits a selection into one of families with history and one of secrets. A
// part that selects nothing is nil. A selection that names no families is not split.
func (s *Snapshot) splitSecrets(name string, sel table.Select) (rest, secret *table.Select) {
	secrets := s.db.o.Secrets[name]
	of := func(want bool) *table.Select {
		part := sel
		part.Families = nil
		for _, f := range sel.Families {
			if slices.Contains(secrets, f) == want {
				part.Families = append(part.Families, f)
			}
		}
		if len(part.Families) == 0 {
			return nil
		}
		return &part
	}
	if len(secrets) == 0 || len(sel.Families) == 0 {
		return &sel, nil
	}
	return of(false), of(true)
}

// scanBranch scans rows of a branch. A row that has only secrets is found only if nothing
// else is selected.
func (s *Snapshot) scanBranch(ctx context.Context, t table.Table, r table.Range, sel table.Select) iter.Seq2[table.Row, error] {
	rest, secret := s.splitSecrets(t.Name(), sel)
	scanned := rest
	if rest == nil {
		scanned = secret
	}
	scanned.View = s
	return func(yield func(table.Row, error) bool) {
		for row, err := range t.Scan(ctx, r, *scanned) {
			if err == nil && secret != nil {
				var rows []table.Row
				if rows, err = s.getParts(ctx, t, [][]byte{slices.Clone(row.Key)}, rest, secret); err == nil {
					row = rows[0]
				}
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
		if err := s.branchKept(); err != nil {
			yield(table.Row{}, err)
		}
	}
}

// branchKept returns an error if the branch was discarded, because its cells may be gone.
// The cells are removed only after every server has seen that the branch was discarded.
func (s *Snapshot) branchKept() error {
	if err := s.db.views.fresh(); err != nil {
		return err
	}
	v, own := s.db.current.Load().heads, s.view.(*branchView)
	c := v.Cell(own.slot)
	open := c.Incarnation == s.branch.incarnation && inProgress(c)
	if !open && v.ShownBy(own.own.First) == revision.Last {
		return fmt.Errorf("%w: %s was discarded", ErrBranch, s.branch.name)
	}
	return nil
}

// A secretView shows the secrets that a branch has set, and the secrets that the trunk
// has now.
type secretView struct {
	now    *Snapshot
	branch *branchView
}

func (v *secretView) Max() table.Revision { return max(v.now.Max(), v.branch.Max()) }

// Low implements table.View. It returns a revision at which no branch was open. The
// writers of cells above such a revision need not have seen each other's commits.
func (v *secretView) Low() table.Revision {
	return v.now.heads.NoBranchWithin(min(v.now.Low(), v.branch.Low()))
}

func (v *secretView) Visible(r table.Revision) bool {
	return v.branch.isOwn(r) && v.branch.Visible(r) || v.now.Visible(r)
}
