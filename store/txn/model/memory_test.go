package model

// A memory is what a state remembers of earlier states. A commit that was visible once
// must stay visible. The set of visible commits up to a low-water mark must never change.
type memory struct {
	shown   uint8 // commits that were committed and visible at some time
	stable  int8  // the largest low-water mark
	below   uint8 // the visible commits up to stable
	failure failure
}

type failure uint8

const (
	kept failure = iota
	lost
	changed
	sunk
)

func (f failure) String() string {
	return [...]string{
		kept:    "",
		lost:    "what was visible is no more",
		changed: "what was visible up to the low-water mark changed",
		sunk:    "the low-water mark of the heads went down",
	}[f]
}

// keep records what is visible now, and the low-water mark. upTo must return the
// commits whose ids are at most the given one.
func (k *memory) keep(visible uint8, low int8, upTo func(int8) uint8) {
	if k.shown&^visible != 0 {
		k.failure = lost
	}
	k.shown |= visible
	if visible&upTo(k.stable) != k.below {
		k.failure = changed
	}
	k.stable = max(k.stable, low)
	k.below = visible & upTo(k.stable)
}

func upTo(rank []int8) func(int8) uint8 {
	return func(t int8) (set uint8) {
		for i, r := range rank {
			if r <= t {
				set |= 1 << i
			}
		}
		return set
	}
}

// committedIn returns the commits whose journal rows have the state committed.
func committedIn(journal []uint8) (set uint8) {
	for i, j := range journal {
		if j == committed {
			set |= 1 << i
		}
	}
	return set
}
