package model

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

var histories = flag.Int("histories", 5_000, "number of random histories of TestImages")

// An imagesRow is one row on the embedded engine. The trunk and the branches are called
// lines. The trunk is line 0. Each line writes whole images of the row. An image is built
// on the newest image that its writer sees. If the trunk has changed the row since a
// branch's base, the merge of the branch writes an image with the changes of all visible
// revisions. Readers take the newest image that they see. A deletion hides all cells with
// smaller revisions.
type imagesRow struct {
	commits  []imageCommit
	images   []rowImage  // newest first
	lineOf   map[int]int // by revision
	branches []imageBranch
	now      int
	// Each of these flags, if set, drops a rule of the protocol.
	noMergeImage, fromImages, onNewest bool
}

type imageCell struct {
	revision, value int
	dead            bool
}

type imageCommit struct {
	revision, line int
	deletes        bool
	cells          map[int]imageCell
}

type rowImage struct {
	revision int
	cells    map[int]imageCell
}

type imageBranch struct{ base, merge, head int } // merge is 0 while the branch is open

// sees reports whether a reader on a line sees the revision r. A reader on the trunk,
// which is line 0, reads at time t. A reader in a branch sees the branch and its base.
func (w *imagesRow) sees(r, t, line int) bool {
	by := w.lineOf[r]
	if line > 0 {
		if by == line {
			return true
		}
		t = w.branches[line].base
	}
	if by == 0 {
		return r <= t
	}
	m := w.branches[by].merge
	return m != 0 && m <= t
}

// want returns the values that a reader must see. It computes them from the commits, not
// from the images.
func (w *imagesRow) want(t, line int) map[int]int {
	newest, deleted := map[int]imageCell{}, 0
	for _, c := range w.commits {
		if !w.sees(c.revision, t, line) {
			continue
		}
		if c.deletes {
			deleted = max(deleted, c.revision)
		}
		for column, x := range c.cells {
			if x.revision >= newest[column].revision {
				newest[column] = x
			}
		}
	}
	maps.DeleteFunc(newest, func(_ int, x imageCell) bool { return x.revision < deleted })
	return values(newest)
}

func values(cells map[int]imageCell) map[int]int {
	live := map[int]int{}
	for column, x := range cells {
		if !x.dead {
			live[column] = x.value
		}
	}
	return live
}

func (w *imagesRow) read(t, line int) map[int]imageCell {
	for _, i := range w.images {
		if w.sees(i.revision, t, line) {
			return i.cells
		}
	}
	return nil
}

func (w *imagesRow) write(cells map[int]imageCell) {
	w.images = append([]rowImage{{w.now, cells}}, w.images...)
}

func (w *imagesRow) commit(r *rand.Rand, line int, deletes bool) {
	w.now++
	w.lineOf[w.now] = line
	c := imageCommit{w.now, line, deletes, map[int]imageCell{}}
	for range 1 + r.IntN(2) {
		c.cells[r.IntN(5)] = imageCell{w.now, r.IntN(100), r.IntN(3) == 0}
	}
	base := w.read(w.now, line)
	if w.onNewest && len(w.images) > 0 {
		base = w.images[0].cells
	}
	next := map[int]imageCell{}
	for column, x := range base {
		if !deletes && !x.dead {
			next[column] = x
		}
	}
	maps.Copy(next, c.cells)
	w.commits = append(w.commits, c)
	w.write(next)
	if line > 0 {
		w.branches[line].head = w.now
	}
}

// changed reports whether the trunk has changed the row after the base of a branch.
func (w *imagesRow) changed(branch int) bool {
	base := w.branches[branch].base
	for _, c := range w.commits {
		if c.line == 0 && c.revision > base || c.line > 0 && c.line != branch && w.branches[c.line].merge > base {
			return true
		}
	}
	return false
}

func (w *imagesRow) merge(branch int) {
	w.now++
	w.lineOf[w.now] = 0
	if w.changed(branch) && !w.noMergeImage {
		next := maps.Clone(w.read(w.now, 0))
		if next == nil {
			next = map[int]imageCell{}
		}
		for _, c := range w.commits {
			for column, x := range c.cells {
				if c.line == branch && x.revision >= next[column].revision && !w.covered(branch, column, x.revision) {
					next[column] = x
				}
			}
		}
		maps.DeleteFunc(next, func(_ int, x imageCell) bool { return x.dead })
		w.write(next)
	}
	w.branches[branch].merge = w.now
}

// covered reports whether the trunk wrote a column after a revision of the branch. The
// trunk's image alone does not show this if the trunk deleted the column.
func (w *imagesRow) covered(branch, column, after int) bool {
	for _, c := range w.commits {
		x, ok := c.cells[column]
		if ok && c.line != branch && w.sees(c.revision, w.now, 0) && x.revision > after && !w.fromImages {
			return true
		}
	}
	return false
}

// history makes random commits and merges. It returns a description of the first wrong
// read, or "".
func (w *imagesRow) history(r *rand.Rand) string {
	w.lineOf, w.branches = map[int]int{}, []imageBranch{{}}
	for range 4 + r.IntN(14) {
		switch b := r.IntN(len(w.branches)); r.IntN(8) {
		case 0:
			if len(w.branches) < 4 {
				w.branches = append(w.branches, imageBranch{base: w.now})
			}
		case 1, 2, 3:
			w.commit(r, 0, len(w.branches) == 1 && r.IntN(5) == 0)
		case 4, 5, 6:
			if b > 0 && w.branches[b].merge == 0 {
				w.commit(r, b, false)
			}
		case 7:
			if b > 0 && w.branches[b].merge == 0 && w.branches[b].head > 0 {
				w.merge(b)
			}
		}
		for t := range w.now + 1 {
			if got, want := values(w.read(t, 0)), w.want(t, 0); !maps.Equal(got, want) {
				return fmt.Sprintf("the trunk at %d of %d: %v, want %v", t, w.now, got, want)
			}
		}
		for b := 1; b < len(w.branches); b++ {
			if got, want := values(w.read(0, b)), w.want(0, b); !maps.Equal(got, want) {
				return fmt.Sprintf("branch %d: %v, want %v", b, got, want)
			}
		}
	}
	return ""
}

// TestImages makes random histories of one row. It reads the row at every time and in
// every branch, and compares the values with those that want returns.
func TestImages(t *testing.T) {
	for _, v := range []struct {
		name   string
		row    imagesRow
		breaks bool
	}{
		{"an image for each line", imagesRow{}, false},
		{"a merge writes no image", imagesRow{noMergeImage: true}, true},
		{"a merge's image is made of images", imagesRow{fromImages: true}, true},
		{"an image is built on the newest image, seen or not", imagesRow{onNewest: true}, true},
	} {
		t.Run(v.name, func(t *testing.T) {
			n := *histories
			if *long {
				n = 60_000
			}
			for seed := range uint64(n) {
				row := v.row
				wrong := row.history(rand.New(rand.NewPCG(seed, 7)))
				switch {
				case wrong != "" && v.breaks:
					t.Logf("seed %d: %s", seed, wrong)
					return
				case wrong != "":
					t.Fatalf("seed %d: %s", seed, wrong)
				}
			}
			if v.breaks {
				t.Errorf("%d histories and nothing is wrong", n)
			}
		})
	}
}
