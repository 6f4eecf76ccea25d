package plan

import (
	"context"
	"strings"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// The type "listed" is the access for a test that lists the matching entries itself (see
// filter.Test.Related). Run always begins at the start of the list. The list may contain an
// entry twice, so [once] must drop the repetition and number the candidates.
type listed struct {
	test *filter.Test
	seen int
}

func (a *listed) Run(context.Context, table.Reader, []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		for e, err := range a.test.List() {
			a.seen++
			if !yield(index.Candidate{ID: e.ID, Parent: e.Parent}, err) || err != nil {
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
