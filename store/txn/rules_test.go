package txn

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var dropped = flag.String("rules", "", "drop each rule of the protocol that matches, in turn, and see the simulation fail")

// A rule is a rule of transactions.md together with the edits that drop it from the code.
// The edits replace lines of the source.
type rule struct {
	name  string
	edits []edit
}

type edit struct{ file, old, new string }

// drop returns the edit that drops a rule, followed by edits that drop other rules.
// Without these further edits, the other rules would hide that the rule is missing.
func drop(file, old, new string, too ...edit) []edit {
	return append([]edit{{file, old, new}}, too...)
}

// These edits drop rules that would hide that another rule is missing.
var (
	publishingEnds  = edit{"txn/writer.go", "time.Duration(w.renewed.Load()) + w.e.db.o.Lease)", "time.Duration(w.renewed.Load()) + time.Hour)"}
	closingCompares = edit{"journal/recover.go",
		"	done, now, err := l.SwapHead(ctx, s, raw, c.Append(nil))\n	return done || isClosed(now), err\n",
		"	done, now, err := l.SwapHead(ctx, s, raw, c.Append(nil))\n	for err == nil && !done {\n		was, _ := revision.DecodeCell(now)\n		c.Sequence = was.Sequence + 1\n" +
			"		done, now, err = l.SwapHead(ctx, s, now, c.Append(nil))\n	}\n	return done, err\n"}
)

// rules are the rules without which the simulation must fail. If the lines of a rule no
// longer occur in the source, the test fails and the rule's edit must be rewritten.
var rules = []rule{
	{"the journal's row comes before any cell", drop("txn/commit.go",
		"	if err := w.begin(ctx, p, writes); err != nil {\n",
		"	if err := errors.Join(w.apply(ctx, p, writes), w.begin(ctx, p, writes)); err != nil {\n")},
	{"marks of others are read back", drop("txn/commit.go",
		"w.meetOthers(ctx, tx, p); met", "w.meetOthers(ctx, &Tx{}, p); met")},
	{"a conflict is what the snapshot does not show, not what is new", drop("txn/conflict.go",
		"if tx.isMine(c.Revision, own) || tx.snapshot.Visible(c.Revision)", "if tx.isMine(c.Revision, own) || c.Revision < own")},
	{"marks are read down to the low-water mark", drop("txn/conflict.go",
		"table.MarkFamily, tx.snapshot.Low())", "table.MarkFamily, tx.snapshot.Max())")},
	{"all versions of a mark are read back", drop("txn/conflict.go",
		"			for i := range row.Cells {\n", "			for i := range row.Cells[:min(1, len(row.Cells))] {\n")},
	{"marks are read when the own ones are there", drop("txn/commit.go",
		"	if err := w.apply(ctx, p, writes); err != nil {\n		w.rollBack(ctx, p)",
		"	if met, err := w.meetOthers(ctx, tx, p); met != nil || err != nil {\n		w.rollBack(ctx, p)\n		return 0, met, err\n	}\n	tx.markRows = nil\n	if err := w.apply(ctx, p, writes); err != nil {\n		w.rollBack(ctx, p)")},
	{"of two that conflict one gives way", drop("txn/conflict.go",
		"		case other.State == journal.Pending && goesFirst(&other, own):\n",
		"		case other.State == journal.Pending && goesFirst(&other, own):\n			return nil, nil\n		case other.State == journal.Pending && goesFirst(&other, own):\n")},
	{"what was committed first is not passed over", drop("txn/conflict.go",
		"		case other.State == journal.Committed:\n			return &conflict{revision: r}, nil", "		case other.State == journal.Committed:\n			return nil, nil")},
	{"a fast clock stops its owner", drop("txn/drift.go",
		"time.Since(e.start) + e.db.o.Drift), zero != 0", "time.Since(e.start) + e.db.o.Drift), zero < 0")},
	{"ids respect causality", drop("txn/cluster.go",
		"		w.clock.Observe(h.Max())\n", "		w.clock.Observe(0)\n")},
	{"no id is issued at or below a head on its way", drop("txn/writer.go",
		"if now, err := w.clock.Next(); err == nil", "if now, err := w.limit(w.clock.Last())-1, error(nil); err == nil")},
	{"what the head passes undecided is an exception", drop("txn/writer.go",
		"			next.Undecided = append(next.Undecided, r)\n", "")},
	{"the low-water mark is below what is undecided", drop("revision/vector.go",
		"	v.stable = min(v.stable, c.Head, below(c.Undecided))\n", "	v.stable = min(v.stable, c.Head)\n")},
	{"the low-water mark is below what is given up", drop("revision/vector.go",
		"v.low = min(v.low, below(c.Void))", "v.low = min(v.low, v.stable)")},
	{"what was given up stays an exception until it has settled", drop("txn/commit.go",
		"		if p.dirty {\n", "		if false {\n")},
	{"after false the cell is read", drop("journal/journal.go",
		"		now, err := read(ctx, t, row, f, q)\n		switch {",
		"		if err == nil {\n			return false, nil, nil\n		}\n		now, err := read(ctx, t, row, f, q)\n		switch {")},
	{"after an error the cell is read", drop("journal/journal.go",
		"		if ok && err == nil {\n", "		if ok || err != nil {\n")},
	{"a commit taken back is not a commit", drop("txn/commit.go",
		"	case state != journal.Committed:\n		w.rollBack(ctx, p)\n		return &conflict{}, nil\n", "	case state == journal.None:\n		return &conflict{}, nil\n")},
	{"a server without its slot acknowledges nothing", drop("txn/commit.go",
		"		return fmt.Errorf(\"%w: the lease was lost before", "		return nil\n		return fmt.Errorf(\"%w: the lease was lost before")},
	{"R3: a closed cell keeps its exceptions", drop("revision/cell.go",
		"	return Archive{c.First, c.Head, c.Merge, c.Void, c.Undecided, c.Late}\n", "	return Archive{c.First, c.Head, c.Merge, c.Void, nil, c.Late}\n")},
	{"R4: the journal is read again before the slot is free", drop("journal/recover.go",
		"	for rec, err := range l.Lists(ctx, s, c.First-1, upTo(&c)) {\n		if err != nil {\n			return err\n		}\n		if view",
		"	for rec, err := range l.Scan(ctx, s, c.Head, c.Head) {\n		if err != nil {\n			return err\n		}\n		if view")},
	{"R4: it waits until all has landed", drop("txn/others.go",
		"c.State == revision.Closed && time.Since(o.seen[s].since) > inFlight", "c.State == revision.Closed && inFlight > 0")},
	{"R4: sweeping ends at what the incarnation announced", drop("journal/recover.go",
		"func upTo(c *revision.Cell) table.Revision { return max(c.Head, c.Limit) }", "func upTo(c *revision.Cell) table.Revision { return revision.Last }")},
	{"R4: the archive comes before the free slot", drop("journal/recover.go",
		"	a := c.Archive()\n",
		"	early := revision.Cell{Kind: c.Kind, Incarnation: c.Incarnation, Token: c.Token, Sequence: c.Sequence + 1, Head: max(c.Head, c.Limit), Limit: max(c.Head, c.Limit)}\n"+
			"	if _, _, err := l.SwapHead(ctx, s, raw, early.Append(nil)); err != nil {\n		return err\n	}\n	a := c.Archive()\n")},
	{"ids begin above all that the predecessor announced", drop("txn/claim.go",
		"max(old.Head, old.Limit, c.issued)", "old.Head-old.Head")},
	{"the first snapshot is taken after the claim", drop("txn/claim.go",
		"	if err := e.refresh(ctx, w); err != nil {\n		return err\n	}\n	if loading", "	if loading")},
	{"late commits count for the largest visible id", drop("revision/vector.go",
		"	v.max = max(v.max, c.Head, last(c.Late))\n", "	v.max = max(v.max, c.Head)\n")},
	{"R3: closing compares with what was recovered", []edit{closingCompares}},
	{"R0: who recovers fences", drop("journal/recover.go",
		"	if c.State == revision.Open {\n		// R0: from here", "	if c.State == revision.Open {\n		c.State = revision.Recovering\n	} else if c.State == revision.Open {\n		// R0: from here",
		closingCompares)},
	{"a server whose cell was taken does not publish", drop("txn/writer.go",
		"	done, _, err := w.e.db.log.SwapHead(ctx, w.slot, w.raw, raw)\n	if err != nil {\n		return 0, err\n	}\n",
		"	done, now, err := w.e.db.log.SwapHead(ctx, w.slot, w.raw, raw)\n	if err == nil && !done {\n		done, _, err = w.e.db.log.SwapHead(ctx, w.slot, now, raw)\n	}\n	if err != nil {\n		return 0, err\n	}\n",
		publishingEnds)},
	{"R3: the head is not raised to what was committed", drop("journal/recover.go",
		"	c.State, c.Late = revision.Closed, late\n",
		"	c.State = revision.Closed\n	for _, r := range late {\n		c.Head = max(c.Head, r)\n	}\n")},
	{"visible is by incarnation", drop("revision/vector.go",
		"	c := &s.cell\n	if c.State == Free || r < c.First {\n		return s.archived(r)",
		"	c := &s.cell\n	if c.State == Free {\n		return s.archived(r)")},
	{"history goes up to what every slot honours", drop("journal/horizon.go", "		horizon = min(horizon, c.Horizon)\n", "		_ = c\n")},
	{"a horizon is honoured when no open snapshot is older", drop("txn/horizon.go", "			if !s.pinned {\n				low", "			if s.db == nil {\n				low")},
	{"marks go up to every snapshot in use", drop("journal/horizon.go", "		oldest = min(oldest, c.Oldest)\n", "		_ = c\n")},
	{"a checkpoint stays", drop("txn/gcpass.go", "		pinned = append(pinned, c.Revision)\n", "		pinned = append(pinned, c.Revision)[:0]\n")},
	{"bytes of a cell never repeat", drop("txn/writer.go", "	next.Sequence++\n", "")},
	{"archives that are not known are read", drop("journal/journal.go", "	if len(known) >= want {\n", "	if want >= 0 {\n		want = min(want, len(known))\n")},
	{"values of one attribute conflict if they are the same", drop("txn/marks.go", "		return m.Hash == o.Hash\n", "		return false\n")},
	{"a child conflicts with deleting its parent", drop("txn/marks.go", "		return o.Kind == MarkExclusive && o.Deletes\n", "		return false\n",
		edit{"txn/marks.go", "		return m.Kind == MarkExclusive && m.Deletes\n", "		return false\n"})},
	{"marks of branches are met", drop("txn/conflict.go", "		return w.meetBranch(ctx, heads, own, r)\n", "		return nil, nil\n")},
	{"marks of branches are read below the low-water mark", drop("txn/snapshot.go", "	return min(s.low, s.view.Settled(s.max))\n", "	return s.low\n")},
	{"a frozen branch in the way is thawed", drop("txn/merge.go", "		case c.cell.State != revision.Frozen:\n			return nil, nil\n", "		case c.cell.State != revision.Merging:\n			return nil, nil\n")},
	{"a merge in the way is a commit in the way", drop("txn/merge.go", "			return w.resolveConflict(ctx, heads, own, c.cell.Merge)\n", "			return nil, nil\n")},
	{"a branch is frozen before its conflicts are looked for", drop("txn/merge.go",
		"	frozen := c.cell\n", "	early := *c\n	x := &mergeCheck{w: w, c: &early}\n	clashes, err := x.run(ctx)\n	frozen := c.cell\n",
		edit{"txn/merge.go", "	checked := *c\n	x := &mergeCheck{w: w, c: &checked}\n	var clashes []Clash\n", ""},
		edit{"txn/merge.go", "		clashes, err = x.run(ctx)\n		return err\n", "		return nil\n"})},
	{"a merge waits for what is pending", drop("txn/merge.go", "		if err != nil || decided {\n", "		if err != nil || decided || true {\n")},
	{"a merge meets what its base does not show", drop("txn/merge.go", "!isOwn && heads.VisibleAt(c.Revision, base)", "!isOwn && heads.Visible(c.Revision)")},
	{"a branch that was merged after the base counts from its first revision on", drop("txn/merge.go", "min(base, heads.Low(), heads.Settled(base))", "base")},
	{"bytes of a branch's cell never repeat", drop("txn/branch.go", "	next.Sequence++\n	next.Token = w.e.db.o.random()\n", "")},
	{"a merge is above its branch", drop("txn/merge.go", "	w.clock.Observe(max(c.heads.Max(), c.cell.Head))\n", "")},
	{"a merge that was given up is an exception until the branch no longer names it", drop("txn/merge.go",
		"	now := *c\n	for string(now.raw)", "	now := *c\n	for false && string(now.raw)")},
	{"who helps does not open too early", drop("txn/branchhelp.go", "	if over && !visible {\n", "	if !visible {\n")},
	{"a state shows a branch from its merge on", drop("txn/snapshot.go", "	return !r.IsStaged() || s.view.ShownBy(r) <= s.max\n", "	return true\n")},
	{"what is void in a branch is an exception", drop("txn/branch.go", "	next.Void = append(slices.Clone(next.Void), next.Undecided...)\n", "")},
	{"what is void in a branch is erased again", drop("txn/branchhelp.go", "		for _, r := range c.cell.Void {\n", "		for _, r := range c.cell.Void[:0] {\n")},
	{"a branch's base is kept", drop("journal/horizon.go",
		"		case revision.Open, revision.Recovering, revision.Frozen, revision.Merging, revision.Merged:\n", "		case revision.Open, revision.Recovering, revision.Frozen, revision.Merging, revision.Merged:\n			if c.Kind == revision.Branch {\n				continue\n			}\n")},
	{"a branch is opened by who kept its base", drop("txn/branch.go", "State: revision.Recovering, Incarnation", "State: revision.Open, Incarnation",
		edit{"txn/branch.go", "	_, err = w.reopen(ctx, c)\n	switch {\n", "	err = error(nil)\n	switch {\n"})},
	{"checkpoints show branches from their merges on", drop("table/collect.go", "	return r <= state && (k.ShownBy == nil || k.ShownBy(r) <= state)\n", "	return r <= state\n")},
	{"the base of a parked branch is pinned", drop("txn/gcpass.go", "append(p.db.live.pins(), p.b.parked...)", "p.db.live.pins()")},
	{"the journal of a parked branch stays", drop("txn/gcpass.go", "		if slot.IsBranch() && !p.b.swept(rec.Revision) {\n			break", "		if false {\n			break")},
	{"a rename looks again after the first swap", drop("txn/branchrename.go", "	if err == nil && isTaken(heads.Vector, c.slot, name) {\n", "	if err == nil && isTaken(heads.Vector, c.slot, nameSeparator) {\n")},
	{"a branch has its next name, too", drop("txn/branchrename.go", "(name == want || next == want)", "(name == want || next == nameSeparator)")},
	{"what is discarded is removed", drop("txn/branchhelp.go", "c.cell.First-1, c.cell.Limit) {\n", "c.cell.First-1, c.cell.First) {\n")},
}

// TestRules checks that the lines of every rule occur in the source and, for rules that
// match the flag, that the simulation fails without the rule.
func TestRules(t *testing.T) {
	only := regexp.MustCompile(*dropped)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			files := r.drop(t)
			if *dropped == "" || !only.MatchString(r.name) {
				return
			}
			out := simulateWith(t, files)
			found := regexp.MustCompile(`seed \d+: .*`).FindString(out)
			if found == "" {
				t.Fatalf("not missed: %s", out)
			}
			t.Log(found)
		})
	}
}

// drop returns the changed files with their new content.
func (r rule) drop(t *testing.T) map[string]string {
	files := map[string]string{}
	for _, e := range r.edits {
		source, ok := files[e.file]
		if !ok {
			b, err := os.ReadFile(filepath.Join("..", e.file))
			if err != nil {
				t.Fatal(err)
			}
			source = string(b)
		}
		if n := strings.Count(source, e.old); n != 1 {
			t.Fatalf("%d times in %s:\n%s", n, e.file, e.old)
		}
		files[e.file] = strings.Replace(source, e.old, e.new, 1)
	}
	return files
}

// simulateWith runs the simulation with some source files replaced.
func simulateWith(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	replace := map[string]string{}
	for name, source := range files {
		file, err := filepath.Abs(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		replace[file] = filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(replace[file], []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay := filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err == nil {
		err = os.WriteFile(overlay, list, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "test", "-vet=off", "-overlay", overlay, "-run", "^TestSimulation$", ".", "-seeds", "3000").CombinedOutput()
	if err == nil {
		return "the simulation holds"
	}
	return string(out)
}
