package verify

// Stages is the progress of a check. Each stage reads every entry, or a row or cell for every
// entry, and counts for as much as its weight.
type stages struct {
	entries int     // about how many entries there are
	total   float64 // sum of the weights
	before  float64 // sum of the weights of the stages that have ended
	weight  float64 // of the stage that runs
	read    int     // what the stage that runs has read
}

// entriesWeight is the weight of reading the entries. The weight of the other scans is 1.
const entriesWeight = 4

// plan sets the number of entries and indexes.
func (s *stages) plan(entries, indexes int) {
	s.entries, s.total = entries, float64(entriesWeight+indexes)
}

// begin ends a stage and begins the next.
func (s *stages) begin(weight float64) {
	s.before, s.weight, s.read = s.before+s.weight, weight, 0
}

// done returns which part of the check is done, from 0 to 1.
func (s *stages) done() float64 {
	part := min(1, float64(s.read)/float64(max(s.entries, 1)))
	return min(1, (s.before+s.weight*part)/s.total)
}

// progress reports that the stage has read n more entries or cells.
func (v *verifier) progress(n int) {
	before := v.stages.read
	v.stages.read += n
	if v.o.Progress != nil && before/verifyBatch != v.stages.read/verifyBatch {
		v.o.Progress(v.entries, v.stages.done())
	}
}
