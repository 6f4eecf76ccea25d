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

// A rule of transactions.md and how it is dropped: some lines of the source with
// others in their place.
type rule struct {
	name     string
	file     string
	old, new string
}

// rules are what the simulation must not do without. Lines that are not there any
// more fail the test: then the way to drop the rule is to be said anew.
var rules = []rule{
	{"the journal's row comes before any cell", "txn/commit.go",
		"	if err := w.begin(ctx, i, writes); err != nil {\n",
		"	if err := errors.Join(w.apply(ctx, i, writes), w.begin(ctx, i, writes)); err != nil {\n"},
	{"marks of others are read back", "txn/commit.go",
		"w.meetOthers(ctx, tx, i); lost", "w.meetOthers(ctx, &Tx{}, i); lost"},
	{"a conflict is what the snapshot does not show, not what is new", "txn/conflict.go",
		"if tx.isMine(c.Revision, own) || tx.snapshot.Visible(c.Revision)", "if tx.isMine(c.Revision, own) || c.Revision < own"},
	{"marks are read down to the low-water mark", "txn/conflict.go",
		"MarkFamily, tx.snapshot.Low())", "MarkFamily, tx.snapshot.Max())"},
	{"all versions of a mark are read back", "txn/conflict.go",
		"			for i := range row.Cells {\n", "			for i := range row.Cells[:min(1, len(row.Cells))] {\n"},
	{"marks are read when the own ones are there", "txn/commit.go",
		"	if err := w.apply(ctx, i, writes); err != nil {\n		w.rollBack(ctx, i)",
		"	if lost, err := w.meetOthers(ctx, tx, i); lost != nil || err != nil {\n		w.rollBack(ctx, i)\n		return 0, lost, err\n	}\n	tx.markRows = nil\n	if err := w.apply(ctx, i, writes); err != nil {\n		w.rollBack(ctx, i)"},
	{"of two that conflict one gives way", "txn/conflict.go",
		"		case other.State == journal.Pending && goesFirst(&other, own):\n",
		"		case other.State == journal.Pending && goesFirst(&other, own):\n			return nil, nil\n		case other.State == journal.Pending && goesFirst(&other, own):\n"},
	{"what was committed first is not passed over", "txn/conflict.go",
		"		case other.State == journal.Committed:\n			return &loss{revision: r}, nil", "		case other.State == journal.Committed:\n			return nil, nil"},
	{"a fast clock stops its owner", "txn/drift.go",
		"time.Since(e.start) + e.db.o.Drift), zero != 0", "time.Since(e.start) + e.db.o.Drift), zero < 0"},
	{"ids respect causality", "txn/shared.go",
		"		w.clock.Observe(h.Max())\n", "		w.clock.Observe(0)\n"},
	{"no id is issued at or below a head on its way", "txn/writer.go",
		"if now, err := w.clock.Next(); err == nil", "if now, err := w.limit(w.clock.Last())-1, error(nil); err == nil"},
	{"what the head passes undecided is an exception", "txn/writer.go",
		"			next.Undecided = append(next.Undecided, r)\n", ""},
	{"the low-water mark is below what is undecided", "revision/vector.go",
		"	v.stable = min(v.stable, c.Head, below(c.Undecided))\n", "	v.stable = min(v.stable, c.Head)\n"},
	{"the low-water mark is below what is given up", "revision/vector.go",
		"v.low = min(v.low, below(c.Void))", "v.low = min(v.low, v.stable)"},
	{"what was given up stays an exception until it has settled", "txn/commit.go",
		"		if i.dirty {\n", "		if false {\n"},
	{"after false the cell is read", "journal/journal.go",
		"		now, err := read(ctx, t, row, f, q)\n		switch {",
		"		if err == nil {\n			return false, nil, nil\n		}\n		now, err := read(ctx, t, row, f, q)\n		switch {"},
	{"after an error the cell is read", "journal/journal.go",
		"		if ok && err == nil {\n", "		if ok || err != nil {\n"},
	{"a commit taken back is not a commit", "txn/commit.go",
		"	case state != journal.Committed:\n		w.rollBack(ctx, i)\n		return &loss{}, nil\n", "	case state == journal.None:\n		return &loss{}, nil\n"},
	{"a server without its slot acknowledges nothing", "txn/commit.go",
		"		return fmt.Errorf(\"%w: the lease was lost before", "		return nil\n		return fmt.Errorf(\"%w: the lease was lost before"},
	{"R3: a closed cell keeps its exceptions", "revision/cell.go",
		"	return Archive{c.First, c.Head, c.Void, c.Undecided, c.Late}\n", "	return Archive{c.First, c.Head, c.Void, nil, c.Late}\n"},
	{"R4: the journal is read again before the slot is free", "journal/recover.go",
		"	for rec, err := range l.Lists(ctx, s, c.First-1, upTo(&c)) {\n		if err != nil {\n			return err\n		}\n		if view",
		"	for rec, err := range l.Scan(ctx, s, c.Head, c.Head) {\n		if err != nil {\n			return err\n		}\n		if view"},
	{"R4: it waits until all has landed", "txn/writer.go",
		"c.State == revision.Closed && time.Since(w.e.seen[s].since) > settle", "c.State == revision.Closed && settle > 0"},
	{"R4: sweeping ends at what the incarnation announced", "journal/recover.go",
		"func upTo(c *revision.Cell) table.Revision { return max(c.Head, c.Limit) }", "func upTo(c *revision.Cell) table.Revision { return revision.Last }"},
	{"R4: the archive comes before the free slot", "journal/recover.go",
		"	a := c.Archive()\n",
		"	early := revision.Cell{Kind: c.Kind, Incarnation: c.Incarnation, Token: c.Token, Sequence: c.Sequence + 1, Head: max(c.Head, c.Limit), Limit: max(c.Head, c.Limit)}\n" +
			"	if _, _, err := l.SwapHead(ctx, s, raw, early.Append(nil)); err != nil {\n		return err\n	}\n	a := c.Archive()\n"},
	{"ids begin above all that the predecessor announced", "txn/shared.go",
		"max(old.Head, old.Limit, e.issued)", "old.Head-old.Head"},
	{"the first snapshot is taken after the claim", "txn/shared.go",
		"	if err := e.refresh(ctx, w); err != nil {\n		return err\n	}\n	if loading", "	if loading"},
	{"late commits count for the largest visible id", "revision/vector.go",
		"	v.max = max(v.max, c.Head, last(c.Late))\n", "	v.max = max(v.max, c.Head)\n"},
}

// TestRules sees that the simulation misses each rule when it is dropped.
func TestRules(t *testing.T) {
	only := regexp.MustCompile(*dropped)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join("..", r.file))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), r.old); n != 1 {
				t.Fatalf("%d times in %s:\n%s", n, r.file, r.old)
			}
			if *dropped == "" || !only.MatchString(r.name) {
				return
			}
			out := r.simulate(t, strings.Replace(string(source), r.old, r.new, 1))
			found := regexp.MustCompile(`seed \d+: .*`).FindString(out)
			if found == "" {
				t.Fatalf("not missed: %s", out)
			}
			t.Log(found)
		})
	}
}

// simulate runs the simulation with one file of the source replaced.
func (r rule) simulate(t *testing.T, source string) string {
	dir := t.TempDir()
	file, err := filepath.Abs(filepath.Join("..", r.file))
	if err != nil {
		t.Fatal(err)
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{changed: []byte(source), overlay: list} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("go", "test", "-vet=off", "-overlay", overlay, "-run", "^TestSimulation$", ".", "-seeds", "2000").CombinedOutput()
	if err == nil {
		return "the simulation holds"
	}
	return string(out)
}
