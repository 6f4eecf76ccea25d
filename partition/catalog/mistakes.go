package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mistakes are the errors that were found in one entry. The client gets them in one diagnostic
// message: see Err.
type Mistakes struct {
	first []*Error            // the first maxMistakes errors
	more  map[string]struct{} // the texts of the others
}

// maxMistakes is the largest number of errors that Err reports.
const maxMistakes = 10

// Add adds an error to the list. It returns false for an error that is not an *Error:
// such an error is not a mistake in the entry and ends the operation.
func (f *Mistakes) Add(err error) bool {
	var p *Error
	if err == nil {
		return true
	}
	if !errors.As(err, &p) {
		return false
	}
	switch {
	case slices.ContainsFunc(f.first, func(o *Error) bool { return o.Text == p.Text }):
	case len(f.first) < maxMistakes:
		f.first = append(f.first, p)
	default:
		if f.more == nil {
			f.more = map[string]struct{}{}
		}
		f.more[p.Text] = struct{}{}
	}
	return true
}

// Err returns one error for all, with the problem of the first error and the texts of the
// first maxMistakes errors. It returns nil if there are no errors.
func (f *Mistakes) Err() error {
	switch len(f.first) {
	case 0:
		return nil
	case 1:
		return f.first[0]
	}
	texts := make([]string, 0, maxMistakes+1)
	for _, p := range f.first {
		texts = append(texts, p.Text)
	}
	if len(f.more) > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", len(f.more)))
	}
	all := *f.first[0]
	all.Text = strings.Join(texts, "; ")
	return &all
}
