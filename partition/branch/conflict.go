package branch

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Conflict is what keeps a branch from being merged: something that the branch and
// other commits changed since the branch began, so that neither change can follow the
// other.
type Conflict struct {
	ID   entry.ID // the entry, or entry.Root if the conflict is not about an entry
	Name string   // the entry's name now, or else in the branch, or else at the base
	// About says what is in conflict. It is empty if only the attributes below are in
	// conflict.
	About string
	With  table.Revision // the newest commit in conflict with the branch, or 0 if it is not known
	By    write.By       // who made this commit
	// Attributes are the attributes that both the branch and the trunk changed, and whose
	// values now differ.
	Attributes []Differing
}

// A Differing is an attribute that a branch and other commits changed in different ways.
// Values of secret attributes are not shown.
type Differing struct {
	Description          string
	Base, Branch, Newest [][]byte
}

// A ConflictError reports that a branch cannot be merged.
type ConflictError struct {
	Branch    string
	Conflicts []Conflict
}

func (e *ConflictError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the branch %s cannot be merged: rebase or discard it: ", e.Branch)
	const shown = 3
	for i := range e.Conflicts[:min(shown, len(e.Conflicts))] {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(e.Conflicts[i].Place())
	}
	if n := len(e.Conflicts) - shown; n > 0 {
		fmt.Fprintf(&b, "; and %d more", n)
	}
	return b.String()
}

// Place says what is in conflict and with which commit, without values.
func (c *Conflict) Place() string {
	var parts []string
	if c.About != "" {
		parts = append(parts, c.About)
	}
	for _, a := range c.Attributes {
		parts = append(parts, a.Description)
	}
	text := strings.Join(parts, ", ")
	if c.Name != "" {
		text = c.Name + ": " + text
	}
	if c.With != 0 {
		text += fmt.Sprintf(" since %s", c.With)
	}
	if c.By.Name != "" {
		text += " by " + c.By.Name
	}
	return text
}

// Texts describes the conflict, with values: one text for About, and one for each
// attribute.
func (c *Conflict) Texts() (texts []string) {
	if c.About != "" {
		texts = append(texts, c.About)
	}
	for _, a := range c.Attributes {
		if a.Branch == nil && a.Newest == nil {
			texts = append(texts, a.Description+": changed on both sides")
			continue
		}
		texts = append(texts, fmt.Sprintf("%s: %s in the branch, %s outside", a.Description, quoted(a.Branch), quoted(a.Newest)))
	}
	return texts
}

// quoted returns the first values of an attribute as text.
func quoted(values [][]byte) string {
	const shown = 3
	if len(values) == 0 {
		return "nothing"
	}
	var parts []string
	for _, v := range values[:min(shown, len(values))] {
		parts = append(parts, strconv.Quote(string(v)))
	}
	if n := len(values) - shown; n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(parts, ", ")
}

// Conflicts returns what keeps the branch from being merged now. It changes nothing. If the
// branch is parked, the first conflict says that it is parked, and a rebase would meet the
// other conflicts.
func (b *Branch) Conflicts(ctx context.Context) ([]Conflict, error) {
	if i, err := b.b.Info(); err == nil && i.Parked {
		return b.compare(ctx)
	}
	clashes, err := b.b.Clashes(ctx)
	if err != nil || len(clashes) == 0 {
		return nil, failure(err)
	}
	return b.explain(ctx, clashes)
}
