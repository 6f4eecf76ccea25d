package foreign

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// kind returns the word that messages use for the kind of an original.
func (x *Original) kind() string {
	if x.db != nil {
		return "access"
	}
	return "aci"
}

// title returns the name of an original, or the beginning of its text.
func (x *Original) title() string {
	if x.aci != nil {
		return x.aci.Name
	}
	return shorten(x.Text)
}

func shorten(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "..."
	}
	return s
}

// WriteRules writes the drafts as a file of rules. Comments say from which original each
// rule comes.
func (im *Import) WriteRules(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "# Drafts of access rules. Read them, then: ldapd access apply\n\n")
	general, err := im.General()
	if err != nil {
		return err
	}
	if len(general) > 0 {
		fmt.Fprintf(w, "# what everybody may do there without any of the originals\n")
	}
	for _, r := range general {
		fmt.Fprintln(w, r)
	}
	for _, x := range im.Originals {
		fmt.Fprintf(w, "\n# %s %s %q: %s\n", x.Where(), x.kind(), x.title(), x.says())
		for _, r := range x.Rules {
			fmt.Fprintln(w, r)
		}
		for _, r := range x.Refused {
			fmt.Fprintf(w, "# refused: %s\n# %s\n", r.Reason, r.Rule)
		}
	}
	return w.Flush()
}

// says returns the class of an original and a text about what differs.
func (x *Original) says() string {
	text := map[draft.Class]string{draft.Exact: "exact", draft.Near: "near", draft.Not: "not translated"}[x.Class]
	if len(x.Notes) > 0 {
		text += "; " + strings.Join(x.Notes, "; ")
	}
	if x.More {
		text += "; the rules allow more"
	}
	return text
}

// WriteNotes writes the notes, hints and refused rules of the originals, with file and line.
// Then it writes the reserved attributes that * includes in the originals but not in the
// drafts. At the end, it writes a table with the number of originals in each class.
func (im *Import) WriteNotes(out io.Writer) error {
	w := bufio.NewWriter(out)
	for _, x := range im.Originals {
		if x.Class != draft.Exact || len(x.Notes) > 0 {
			fmt.Fprintf(w, "%s: %s\n", x.Where(), x.says())
		}
		for _, h := range x.Hints {
			fmt.Fprintf(w, "%s: %s\n", x.Where(), h)
		}
		for _, r := range x.Refused {
			fmt.Fprintf(w, "%s: refused: %s\n", x.Where(), r.Reason)
		}
	}
	if left := im.left(); len(left) > 0 {
		fmt.Fprintf(w, "reserved attributes, which * includes there and not here (--reserved): %s\n", strings.Join(left, ", "))
	}
	if im.useless > 0 {
		fmt.Fprintf(w, "%d rules that would change nothing, because others say as much, are left out\n", im.useless)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return im.writeTable(out)
}

// The method "left" returns the reserved attributes that an import leaves out: * in an original
// includes them, and * in a rule does not. It returns nil if no draft allows rights on *, or if
// the option Reserved is set.
func (im *Import) left() (names []string) {
	if im.Options.Reserved {
		return nil
	}
	star := false
	for _, x := range im.Originals {
		for _, r := range x.Rules {
			for _, p := range r.Rule.Parts {
				star = star || !r.Rule.Deny && p.Rights&acl.AttributeRights != 0 && len(p.Attributes) > 0 && p.Attributes[0].Description == "*"
			}
		}
	}
	if !star {
		return nil
	}
	for _, t := range im.Schema.Attributes() {
		if acl.Reserved(t) && t.SentName() != "accessRule" {
			names = append(names, t.SentName())
		}
	}
	return names
}

func (im *Import) writeTable(out io.Writer) error {
	counts := map[string]*[3]int{}
	var kinds []string
	for _, x := range im.Originals {
		if counts[x.kind()] == nil {
			counts[x.kind()] = &[3]int{}
			kinds = append(kinds, x.kind())
		}
		counts[x.kind()][x.Class]++
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "\texact\tnear\tnot\n")
	for _, k := range kinds {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", k, counts[k][0], counts[k][1], counts[k][2])
	}
	return w.Flush()
}
