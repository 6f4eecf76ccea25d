package plan

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/table"
)

// listed is a test that lists its entries itself: see filter.Test.Related.
// Positions count them.
type listed struct {
	test *filter.Test
	seen int
}

func (a *listed) Run(_ context.Context, _ table.Reader, after []byte) index.Candidates {
	var skip uint64
	if len(after) == 8 {
		skip = binary.BigEndian.Uint64(after)
	}
	return func(yield func(index.Candidate, error) bool) {
		var n uint64
		for e, err := range a.test.List() {
			if n++; err == nil && n <= skip {
				continue
			}
			a.seen++
			if !yield(index.Candidate{ID: e.ID, Parent: e.Parent, Position: binary.BigEndian.AppendUint64(nil, n)}, err) || err != nil {
				return
			}
		}
	}
}

func (*listed) rank() rank     { return rankSpan }
func (*listed) distinct() bool { return false }

func (a *listed) Describe(b *strings.Builder, indent int, counted bool) {
	line(b, indent, "references: %s%s", a.test, yielded(a.seen, counted))
}

func (a *listed) Indexes(uses []Use) []Use {
	return append(uses, Use{a.test.Types[0].Name(), "references"})
}
