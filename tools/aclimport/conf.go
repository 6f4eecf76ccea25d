package foreign

import (
	"io"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// A confLine is a line of slapd.conf with the lines that continue it.
type confLine struct {
	text string
	line int
}

// confLines splits the text of a slapd.conf. A line that begins with white space continues
// the last line before it that is neither empty nor a comment.
func confLines(text string) (all []confLine) {
	n := 0
	for s := range strings.Lines(text) {
		n++
		s = strings.TrimRight(s, "\r\n")
		switch {
		case strings.HasPrefix(s, "#"), strings.TrimSpace(s) == "":
		case (s[0] == ' ' || s[0] == '\t') && len(all) > 0:
			all[len(all)-1].text += " " + strings.TrimSpace(s)
		default:
			all = append(all, confLine{strings.TrimSpace(s), n})
		}
	}
	return all
}

// readConf reads the access directives of a slapd.conf. Directives before the first
// database belong to the frontend.
func (im *Import) readConf(file string, in io.Reader) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	db := &database{frontend: true}
	all := []*database{db}
	for _, l := range confLines(string(text)) {
		word, rest, _ := strings.Cut(strings.ReplaceAll(l.text, "\t", " "), " ")
		rest = strings.TrimSpace(rest)
		switch strings.ToLower(word) {
		case "database":
			db = &database{own: rest == "config" || rest == "monitor", frontend: rest == "frontend"}
			all = append(all, db)
		case "suffix":
			if d, err := dn.Parse(strings.Trim(rest, `"`)); err == nil {
				db.suffixes = append(db.suffixes, d)
			}
		case "include":
			if strings.HasSuffix(strings.Trim(rest, `"`), ".schema") {
				continue
			}
			x := &Original{File: file, Line: l.line, Text: l.text, db: db}
			x.Note(draft.Not, "the included file is not read: put its text in place of this line, because directives in it change what those around them mean")
			im.Originals = append(im.Originals, x)
		case "access":
			db.directives = append(db.directives, &Original{File: file, Line: l.line, Text: rest, db: db})
		}
	}
	for _, db := range all {
		if len(db.directives) > 0 || len(db.suffixes) > 0 {
			im.add(db, db.directives)
		}
	}
	return nil
}
