package console

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/web"
)

// roots returns the names of the naming contexts, and of the trees that the server keeps of itself.
func (v *door) roots() (contexts, own []string, err error) {
	root, err := v.base("", "namingContexts", "configContext", "changelog", "monitorContext")
	if err != nil {
		return nil, nil, err
	}
	for i := range root.Attributes {
		for _, value := range root.Attributes[i].Values {
			if isCalled(root.Attributes[i].Type, "namingContexts") {
				contexts = append(contexts, string(value))
			} else {
				own = append(own, string(value))
			}
		}
	}
	return contexts, own, nil
}

// seen returns those of some entries that may be seen, and exist at the moment of the page.
func (v *door) seen(names []string) (all []*Entry, err error) {
	for _, name := range names {
		e, err := v.base(name, summary...)
		if web.IsResult(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// A branch is a part of the tree: the entries directly below one.
type branch struct {
	Base *Entry // nil: above the naming contexts
	Find string
	*found
}

// BaseDN returns the name of the entry whose children these are.
func (b *branch) BaseDN() string {
	if b.Base == nil {
		return ""
	}
	return b.Base.DN
}

func (v *visit) branch() (*branch, error) {
	q := v.r.URL.Query()
	b := &branch{Find: strings.TrimSpace(q.Get("find"))}
	var err error
	if name := q.Get("base"); name != "" {
		if b.Base, err = v.base(name, summary...); err != nil {
			return nil, err
		}
		b.found, err = v.searchNamed(&op.Search{Base: name, Scope: op.SingleLevel, Attributes: summary}, b.Find, rows, q.Get("cookie"))
		return b, err
	}
	contexts, own, err := v.roots()
	if err != nil {
		return nil, err
	}
	all, err := v.seen(append(contexts, own...))
	b.found = &found{Entries: all}
	return b, err
}

// naming are the attributes that names are made of, for searches by a part of a name.
var naming = []string{"cn", "uid", "ou", "o", "dc", "sn", "displayName", "mail"}

// namedLike returns a filter for entries with a part of a name.
func namedLike(part string) filter.Filter {
	if part == "" {
		return &filter.Present{Attribute: "objectClass"}
	}
	var any filter.Or
	for _, a := range naming {
		any = append(any, &filter.Substrings{Attribute: a, Any: [][]byte{[]byte(part)}})
	}
	return any
}

// searchNamed finds entries by a part of a name. No index has the middles of values, so a search of a large
// directory may end before it has seen all. The names that begin with the part, which indexes have, come first then.
func (v *door) searchNamed(r *op.Search, part string, n int, cookie string, more ...op.Control) (*found, error) {
	r.Filter = namedLike(part)
	f, err := v.searchN(r, n, cookie, more...)
	if err != nil || f.Refused == "" || part == "" {
		return f, err
	}
	var begins filter.Or
	for _, a := range []string{"cn", "uid", "sn", "mail", "ou"} {
		begins = append(begins, &filter.Substrings{Attribute: a, Initial: []byte(part)})
	}
	r.Filter = begins
	g, err := v.searchN(r, n, "", more...)
	if err != nil {
		return nil, err
	}
	for _, e := range f.Entries {
		if len(g.Entries) < n && !slices.ContainsFunc(g.Entries, func(o *Entry) bool { return o.DN == e.DN }) {
			g.Entries = append(g.Entries, e)
		}
	}
	g.Refused, g.Cookie = f.Refused, ""
	return g, nil
}

func showTree(v *visit) error {
	b, err := v.branch()
	if err != nil {
		return err
	}
	title := "Tree"
	if b.Base != nil {
		title = b.Base.Label()
	}
	return v.render("tree", title, b)
}

// showChildren shows a part of the tree without the page around it.
func showChildren(v *visit) error {
	b, err := v.branch()
	if err != nil {
		return err
	}
	return v.write("tree", "nodes", "", b)
}

// A crumb is an ancestor in the path above an entry.
type crumb struct{ Label, DN string }

// Crumbs returns the ancestors of a name, the highest first, from its naming context on.
func (v *door) Crumbs(name string) (all []crumb, err error) {
	contexts, own, err := v.roots()
	if err != nil {
		return nil, err
	}
	isRoot := func(name string) bool {
		return slices.ContainsFunc(append(contexts, own...), func(c string) bool { return strings.EqualFold(c, name) })
	}
	for p := parentOf(name); p != "" && !isRoot(name); p = parentOf(p) {
		if isRoot(p) {
			all = append(all, crumb{p, p})
			break
		}
		all = append(all, crumb{labelOf(p), p})
	}
	slices.Reverse(all)
	return all, nil
}
