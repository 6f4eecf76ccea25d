// Package foreign translates the access control of other directory servers into drafts of
// access rules: aci of 389 Directory Server, OpenDJ and PingDirectory, and the access
// directives of slapd. It reads LDIF files and slapd.conf, and reports what it cannot
// translate, each time with the file, the line and the reason. It does not use a store.
package foreign

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/aci"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/olc"
)

// Servers are the names of the servers whose aci can be translated.
var Servers = []string{"389", "opendj", "pingdirectory"}

// Options say what a translation may assume.
type Options struct {
	Schema   *schema.Schema
	Contexts []dn.DN        // the naming contexts; nil: not known
	Server   string         // one of Servers; "": guessed from the values
	Zone     *time.Location // time zone of the old server; nil: not known
	// Reserved means that * in an original includes reserved attributes. In rules, * does
	// not include them, so the drafts name them.
	Reserved bool
}

// An Original is a value or a directive that is translated.
type Original struct {
	File string
	Line int
	Text string
	dn   dn.DN // name of the entry below which an aci applies
	// entry is the name of the entry that contains the original.
	entry dn.DN

	aci *aci.ACI
	olc *olc.Directive
	db  *database // the database of a directive; nil for an aci
	draft.Drafts
	// Hints say what Fit has left out, and Refused are rules that the directory refuses.
	Hints   []string
	Refused []Refused
}

// Where returns the original's file and line.
func (o *Original) Where() string { return fmt.Sprintf("%s:%d", o.File, o.Line) }

// An Import is a translation of files.
type Import struct {
	Options
	Originals []*Original
	// Exists reports whether the directory has an entry with a name. nil: it is not known
	// which entries exist.
	Exists func(dn.DN) (bool, error)
	// Accepts returns an error if the directory does not accept a rule. nil: acl.NewSet
	// decides.
	Accepts func(acl.Placed) error

	useless   int // number of rules that Minimize has left out
	dialect   aci.Dialect
	databases []*database // the databases whose directives have been read
}

// A database is a database of slapd: the directives of its suffix, in their order.
type database struct {
	name       dn.DN // name of its entry, in an export of cn=config
	suffixes   []dn.DN
	frontend   bool // the frontend: its directives apply after those of every other database
	own        bool // a database of slapd's own, such as cn=config
	directives []*Original
}

// Empty reports whether the files that were read have no access control and describe no database of slapd.
func (im *Import) Empty() bool { return len(im.Originals) == 0 && len(im.databases) == 0 }

// Translate translates all originals that were read.
func (im *Import) Translate() {
	im.dialect = im.chooseDialect()
	o := &aci.Options{Schema: im.Schema, Dialect: im.dialect, Contexts: im.Contexts, Zone: im.Zone,
		Reserved: im.Options.Reserved, Mentioned: im.mentioned()}
	for _, x := range im.Originals {
		if x.aci == nil {
			continue
		}
		if len(x.dn) > 0 && isOwnTree(x.dn) {
			x.Note(draft.Not, "it stands at an entry of the old server's own: %s", x.dn)
			continue
		}
		x.Drafts = aci.Translate(x.aci, x.dn, o)
	}
	for _, db := range im.databases {
		im.translateDatabase(db)
	}
	im.nameRules()
}

// Minimize leaves out the drafts that change nothing, because others say as much or deny all of
// it, or because they never hold. It must be called after Fit, because Fit leaves out drafts.
func (im *Import) Minimize() error {
	general, err := im.General()
	if err != nil {
		return err
	}
	rules := general
	for _, x := range im.Originals {
		for _, r := range x.Rules {
			if _, err := acl.NewSet(im.Schema, im.Contexts, []acl.Placed{r}); err == nil {
				rules = append(rules, r)
			}
		}
	}
	set, err := acl.NewSet(im.Schema, im.Contexts, rules)
	if err != nil {
		return err
	}
	gone := map[*acl.Rule]bool{}
	for _, r := range set.Useless(len(general)) {
		gone[r.Rule] = true
	}
	im.useless += len(gone)
	for _, x := range im.Originals {
		x.Rules = slices.DeleteFunc(x.Rules, func(r acl.Placed) bool { return gone[r.Rule] })
	}
	return nil
}

// The method "all" returns the directives of a database, followed by the directives of the
// frontend.
func (im *Import) all(db *database) []*Original {
	all := slices.Clone(db.directives)
	for _, f := range im.databases {
		if f.frontend && !db.frontend {
			all = append(all, f.directives...)
		}
	}
	return slices.DeleteFunc(all, func(x *Original) bool { return x.olc == nil })
}

// translateDatabase translates the directives of a database, for each of its suffixes. If
// there is no other database, the directives of the frontend are translated for the whole
// directory. Otherwise they are translated together with the directives of every other
// database.
func (im *Import) translateDatabase(db *database) {
	others := slices.ContainsFunc(im.databases, func(o *database) bool { return !o.frontend && !o.own })
	if db.own || db.frontend && others {
		for _, x := range db.directives {
			if db.own {
				x.Note(draft.Not, "it is about the old server's own configuration")
			}
		}
		return
	}
	suffixes := db.suffixes
	if len(suffixes) == 0 {
		suffixes = []dn.DN{nil}
	}
	all := im.all(db)
	var parsed []*olc.Directive
	for _, x := range all {
		parsed = append(parsed, x.olc)
	}
	o := &olc.Options{Schema: im.Schema, Contexts: im.Contexts, Reserved: im.Options.Reserved}
	if len(o.Contexts) == 0 {
		o.Contexts = db.suffixes
	}
	for _, suffix := range suffixes {
		for i, d := range olc.Translate(parsed, suffix, o) {
			x := all[i]
			x.Rules = append(x.Rules, d.Rules...)
			x.Class, x.More = max(x.Class, d.Class), x.More || d.More
			for _, n := range d.Notes {
				x.Note(draft.Exact, "%s", n)
			}
		}
	}
}

// chooseDialect returns the dialect of the given server. If no server is given, it
// guesses the dialect: OpenDJ if one of the values has words that 389 Directory Server
// does not know, and otherwise DS389.
func (im *Import) chooseDialect() aci.Dialect {
	isOpenDJ := func(x *Original) bool { return x.aci != nil && x.aci.IsOpenDJ() }
	if im.Server == "opendj" || im.Server == "pingdirectory" || im.Server == "" && slices.ContainsFunc(im.Originals, isOpenDJ) {
		return aci.OpenDJ
	}
	return aci.DS389
}

// ownTrees are the names of the trees in which directory servers keep their own
// configuration and state.
var ownTrees = []string{"cn=config", "cn=monitor", "cn=schema", "cn=changelog", "cn=tasks", "cn=backups", "cn=admin data", "o=netscaperoot", "cn=features", "cn=subschema"}

func isOwnTree(d dn.DN) bool {
	text := strings.ToLower(d.String())
	return slices.ContainsFunc(ownTrees, func(o string) bool { return text == o || strings.HasSuffix(text, ","+o) })
}

// mentioned returns the reserved attributes that originals name.
func (im *Import) mentioned() (names []string) {
	for _, x := range im.Originals {
		if x.aci == nil || x.aci.Attributes == nil {
			continue
		}
		for _, n := range x.aci.Attributes.Names {
			t, _ := im.Schema.Describe(n)
			if t != nil && acl.Reserved(t) && !slices.Contains(names, t.SentName()) {
				names = append(names, t.SentName())
			}
		}
	}
	return names
}

// nameRules changes names of rules so that all rules at one place have different names.
func (im *Import) nameRules() {
	used := map[string]int{"\nbind": 1, "\nuse": 1}
	for _, x := range im.Originals {
		for i, r := range x.Rules {
			key := strings.ToLower(r.Place.String()) + "\n" + r.Rule.Name
			name := r.Rule.Name
			for used[key] > 0 {
				used[strings.ToLower(r.Place.String())+"\n"+name]++
				r.Rule.Name = fmt.Sprintf("%s-%d", name, used[strings.ToLower(r.Place.String())+"\n"+name])
				key = strings.ToLower(r.Place.String()) + "\n" + r.Rule.Name
			}
			used[key] = 1
			x.Rules[i] = r
		}
	}
}

// General returns the rules that every import begins with. They allow what the old server
// let everybody do without any aci.
func (im *Import) General() (rules []acl.Placed, err error) {
	profile, err := acl.Profile("staff", im.Schema, nil)
	if err != nil {
		return nil, err
	}
	use := !slices.ContainsFunc(im.Originals, func(x *Original) bool { return x.aci != nil && (x.aci.Controls != nil || x.aci.Operations != nil) })
	for _, r := range profile {
		if r.Name == "bind" && im.hasACI() || r.Name == "use" && use {
			rules = append(rules, acl.Placed{Rule: r})
		}
	}
	return rules, nil
}

// hasACI reports whether there is an aci among the originals. Directives say who may bind;
// aci do not.
func (im *Import) hasACI() bool {
	return slices.ContainsFunc(im.Originals, func(x *Original) bool { return x.aci != nil })
}

// Rules returns all rules of the import.
func (im *Import) Rules() ([]acl.Placed, error) {
	all, err := im.General()
	for _, x := range im.Originals {
		all = append(all, x.Rules...)
	}
	return all, err
}
