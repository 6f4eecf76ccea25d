package txn

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var dropped = flag.String("rules", "", "drop each rule of the protocol that matches, in turn, and see the simulation fail")

// A rule is a rule of transactions.md together with the edits that drop it from the code.
// Further edits drop other rules, which would hide that the rule is missing.
type rule struct {
	name  string
	edits []edit
}

// An edit replaces the line that ends in the comment //rule:marker. In the new text, $line is
// the line itself.
type edit struct{ marker, text string }

// These edits drop rules that would hide that another rule is missing.
var (
	publishingEnds  = edit{"publishing-ends", "until := w.e.start.Add(time.Duration(w.renewed.Load()) + time.Hour)"}
	closingCompares = edit{"R3-compares", `for err == nil && !done {
was, _ := revision.DecodeCell(now)
c.Sequence = was.Sequence + 1
done, now, err = l.SwapHead(ctx, s, now, c.Append(nil))
}
return done, err`}
)

// rules are the rules without which the simulation must fail.
var rules = []rule{
	{"the journal's row comes before any cell", []edit{{"journal-first", "if err := errors.Join(w.apply(ctx, p, writes), w.begin(ctx, p, writes)); err != nil {"}}},
	{"marks of others are read back", []edit{{"read-back", "met, err = w.meetOthers(ctx, p, others[:0])"}}},
	{"a conflict is what the snapshot does not show, not what is new", []edit{{"unseen", "if tx.isMine(c.Revision, own.Revision) || c.Revision < own.Revision {"}}},
	{"marks are read down to the low-water mark", []edit{{"low-water", "after := tx.snapshot.Max()"}}},
	{"all versions of a mark are read back", []edit{{"all-versions", "for i := range row.Cells[:min(1, len(row.Cells))] {"}}},
	{"the marks in a row are read when the own one is there", []edit{{"marks-first", `if rows, err = t.(table.Versioner).Versions(ctx, keys, table.MarkFamily, after); err == nil {
err = t.Apply(ctx, r, ms)
}`}}},
	{"of two that conflict one gives way", []edit{{"one-gives-way", "return nil, nil"}}},
	{"what was committed first is not passed over", []edit{{"committed-first", "return nil, nil"}}},
	{"a fast clock stops its owner", []edit{{"fast-clock", "return time.Unix(0, zero).Add(time.Since(c.start) + c.o.Drift), zero < 0"}}},
	{"ids respect causality", []edit{{"causality", "w.clock.Observe(0)"}}},
	{"no id is issued at or below a head on its way", []edit{{"head-on-its-way", "if now, err := w.limit(w.clock.Last())-1, error(nil); err == nil && blocked == 0 {"}}},
	{"what the head passes undecided is an exception", []edit{{"undecided", ""}}},
	{"the low-water mark is below what is undecided", []edit{{"low-undecided", "v.stable = min(v.stable, c.Head)"}}},
	{"the low-water mark is below what is given up", []edit{{"low-void", "v.low = min(v.low, v.stable)"}}},
	{"what was given up stays an exception until it has settled", []edit{{"void-stays", "if false {"}}},
	{"after false the cell is read", []edit{{"after-false", `if err == nil {
return false, nil, nil
}
$line`}}},
	{"after an error the cell is read", []edit{{"after-error", "if ok || err != nil {"}}},
	{"a commit taken back is not a commit", []edit{{"taken-back", "if err = nil; false {"}}},
	{"who takes a commit back compares the cell", []edit{{"takes-back", `if heads, err = w.e.db.log.Heads(ctx); err != nil {
return err
}
raw, next = heads.Raw(slot), heads.Cell(slot)
next.Void = append(slices.Clone(next.Void), r)
slices.Sort(next.Void)
next.Void = slices.Compact(next.Void)
next.Sequence++
$line`}}},
	{"what was taken back is an exception while its server goes on", []edit{{"taken-stays", ""}}},
	{"recovery does not take the journal's word where the cell decides", []edit{{"by-cell", "return rec.State == Pending"}}},
	{"a commit whose row may arrive late is an exception", []edit{{"row-late", ""}}},
	{"a server without its slot acknowledges nothing", []edit{{"without-slot", "return nil"}}},
	{"R3: a closed cell keeps its exceptions", []edit{{"R3-exceptions", "return Archive{c.First, c.Head, c.Merge, c.Void, nil, c.Late}"}}},
	{"R4: the journal is read again before the slot is free", []edit{{"R4-scan", "for rec, err := range l.Scan(ctx, s, c.Head, c.Head) {"}}},
	{"R4: it waits until all has landed", []edit{{"R4-landed", "if c := w.e.heads.Cell(s); c.Kind == revision.Server && c.State == revision.Closed && inFlight > 0 {"}}},
	{"R4: sweeping ends at what the incarnation announced", []edit{{"R4-limit", "func upTo(c *revision.Cell) table.Revision { return revision.Last }"}}},
	{"R4: the archive comes before the free slot", []edit{{"R4-archive", `early := revision.Cell{Kind: c.Kind, Incarnation: c.Incarnation, Token: c.Token, Sequence: c.Sequence + 1, Head: max(c.Head, c.Limit), Limit: max(c.Head, c.Limit)}
if _, _, err := l.SwapHead(ctx, s, raw, early.Append(nil)); err != nil {
return err
}
$line`}}},
	{"ids begin above all that the predecessor announced", []edit{{"ids-above", "clock.Observe(old.Head-old.Head)"}}},
	{"the first snapshot is taken after the claim", []edit{{"snapshot-after-claim", "if err := error(nil); err != nil {"}}},
	{"late commits count for the largest visible id", []edit{{"late-max", "v.max = max(v.max, c.Head)"}}},
	{"R3: closing compares with what was recovered", []edit{closingCompares}},
	{"R0: who recovers fences", []edit{{"R0", `$line
c.State = revision.Recovering
} else if c.State == revision.Open {`}, closingCompares}},
	{"a server whose cell was taken does not publish", []edit{{"taken-cell", `case func() bool { w.raw = now; return true }():`}, publishingEnds}},
	{"R3: the head is not raised to what was committed", []edit{{"R3-head", `c.State = revision.Closed
for _, r := range late {
c.Head = max(c.Head, r)
}`}}},
	{"visible is by incarnation", []edit{{"incarnation", "if c.State == Free {"}}},
	{"history goes up to what every slot honours", []edit{{"horizon-honoured", "_ = c"}}},
	{"a horizon is honoured when no open snapshot is older", []edit{{"horizon-unread", "if s.db == nil {"}}},
	{"marks go up to every snapshot in use", []edit{{"marks-unread", "_ = c"}}},
	{"a checkpoint stays", []edit{{"checkpoint", "pinned = append(pinned, c.Revision)[:0]"}}},
	{"bytes of a cell never repeat", []edit{{"cell-bytes", ""}}},
	{"archives that are not known are read", []edit{{"archives", `if want >= 0 {
want = min(want, len(known))`}}},
	{"values of one attribute conflict if they are the same", []edit{{"same-value", "return false"}}},
	{"a child conflicts with deleting its parent", []edit{{"child", "return false"}, {"child-parent", "return false"}}},
	{"marks of branches are met", []edit{{"branch-marks", "return nil, nil"}}},
	{"marks of branches are read below the low-water mark", []edit{{"branch-low", "return s.heads.Stable()"}}},
	{"a frozen branch in the way is thawed", []edit{{"thaw", "case c.cell.State != revision.Merging:"}}},
	{"a merge in the way is a commit in the way", []edit{{"merge-met", "return nil, nil"}}},
	{"a branch is frozen before its conflicts are looked for", []edit{{"frozen-first", `first := &mergeCheck{c: *c}
found, err := first.run(ctx)
if err != nil {
return 0, nil, err
}
$line`}, {"frozen-check", "check := first"}, {"frozen-run", "clashes = found"}}},
	{"a merge waits for what is pending", []edit{{"merge-waits", "if err != nil || decided || true {"}}},
	{"a merge meets what its base does not show", []edit{{"merge-base", "if isOwn != (pass == 0) || isOwn && !own.Shows(c.Revision) || !isOwn && heads.Visible(c.Revision) {"}}},
	{"a branch that was merged after the base counts from its first revision on", []edit{{"merge-after", "after := base"}}},
	{"bytes of a branch's cell never repeat", []edit{{"branch-bytes", ""}, {"branch-token", ""}}},
	{"a merge is above its branch", []edit{{"merge-above", ""}}},
	{"a merge that was given up is an exception until the branch no longer names it", []edit{{"merge-void", "for false {"}}},
	{"who helps does not open too early", []edit{{"help-open", "if !visible {"}}},
	{"a state shows a branch from its merge on", []edit{{"shown-by", "return true"}}},
	{"what is void in a branch is an exception", []edit{{"branch-void", "next.Void = slices.Clone(next.Void)"}}},
	{"what is void in a branch is erased again", []edit{{"branch-erase", "for _, r := range c.cell.Void[:0] {"}}},
	{"a branch's base is kept", []edit{{"branch-base", "if c.Kind != revision.Branch { cells = append(cells, c) }"}}},
	{"a branch is opened by who kept its base", []edit{{"branch-made", "Kind: revision.Branch, State: revision.Open, Incarnation: old.Incarnation + 1,"}, {"branch-opened", "err = error(nil)"}}},
	{"checkpoints show branches from their merges on", []edit{{"checkpoint-branches", "return r <= state"}}},
	{"the base of a parked branch is pinned", []edit{{"parked-base", "pinned := p.db.registry.pins()"}}},
	{"the journal of a parked branch stays", []edit{{"parked-journal", "if false {"}}},
	{"a rename looks again after the first swap", []edit{{"rename-again", "if err == nil && isTaken(heads.Vector, c.slot, nameSeparator) {"}}},
	{"a branch has its next name, too", []edit{{"next-name", "return c.Kind == revision.Branch && (name == want || next == nameSeparator) && (inProgress(c) || c.State == revision.Recovering)"}}},
	{"what is discarded is removed", []edit{{"discarded", "for rec, err := range c.w.e.db.log.Lists(ctx, c.slot, c.cell.First-1, c.cell.First) {"}}},
}

// TestRules checks that the source marks the lines of every rule, and no others. For rules
// that match the flag it checks that the simulation fails without the rule.
func TestRules(t *testing.T) {
	only := regexp.MustCompile(*dropped)
	marked, used := markedLines(t), map[string]bool{}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			files := r.drop(t, marked, used)
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
	for marker, l := range marked {
		if !used[marker] {
			t.Errorf("%s:%d: no rule has the marker %s", l.file, l.number+1, marker)
		}
	}
}

// A markedLine is a line of the source with a marker.
type markedLine struct {
	file   string
	number int // the first line has the number 0
}

var ruleMarker = regexp.MustCompile(` //rule:(\S+)$`)

// markedLines finds the markers in the source of the store's packages.
func markedLines(t *testing.T) map[string]markedLine {
	marked := map[string]markedLine{}
	err := filepath.WalkDir("..", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		for i, line := range sourceLines(t, file) {
			if m := ruleMarker.FindStringSubmatch(line); m != nil {
				if other, twice := marked[m[1]]; twice {
					t.Errorf("%s:%d: the marker %s is also in %s", file, i+1, m[1], other.file)
				}
				marked[m[1]] = markedLine{file, i}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return marked
}

func sourceLines(t *testing.T, file string) []string {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(b), "\n")
}

// drop returns the changed files with their new lines. It adds the markers to used.
func (r rule) drop(t *testing.T, marked map[string]markedLine, used map[string]bool) map[string][]string {
	files := map[string][]string{}
	for _, e := range r.edits {
		l, ok := marked[e.marker]
		if !ok {
			t.Fatalf("no line has the marker %s", e.marker)
		}
		used[e.marker] = true
		if files[l.file] == nil {
			files[l.file] = sourceLines(t, l.file)
		}
		line := &files[l.file][l.number]
		*line = strings.ReplaceAll(e.text, "$line", ruleMarker.ReplaceAllString(*line, ""))
	}
	return files
}

// simulateWith runs the simulation with some source files replaced.
func simulateWith(t *testing.T, files map[string][]string) string {
	dir := t.TempDir()
	replace := map[string]string{}
	for name, lines := range files {
		file, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		replace[file] = filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(replace[file], []byte(strings.Join(lines, "\n")), 0o600); err != nil {
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
