package render

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/judge"
	"github.com/seed-4dac0d86/ldapd/directory/internal/wellknown"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// rights is what a Get Effective Rights control asks for. Nil means that the request has no
// such control.
type rights struct {
	judge      judge.Judge // judges the identity whose rights are asked for
	own        bool        // the identity is the requester
	self       []byte      // name of that identity; nil: it has none, or access rules do not restrict it
	named      []named     // attributes that the control and the search name
	classes    bool        // also answer about all attributes that the entry's classes allow
	sun, infos bool        // answer in aclRights, and also in aclRightsInfo
}

// OpenRights prepares the answers to a Get Effective Rights control.
func (v *Presenter) OpenRights(ctx context.Context, attributes []string) error {
	c, req := v.Req.Controls.Rights, v.Req
	if c == nil || req.Known.AttributeLevelRights == nil || req.Known.ACLRightsInfo == nil {
		return nil
	}
	j, own, err := identify.Inspected(ctx, req, c.AuthzID)
	if err != nil {
		return err
	}
	r := &rights{judge: j, own: own, classes: slices.Contains(attributes, "*")}
	if p := j.Program(); p != nil && len(p.Name()) > 0 {
		r.self = []byte(p.Name().String())
	}
	r.sun = v.selector.asks(req.Known.ACLRights) || v.selector.asks(req.Known.ACLRightsInfo)
	r.infos = v.selector.asks(req.Known.ACLRightsInfo)
	seen := make(map[named]bool, len(c.Attributes))
	add := func(n named) {
		if !seen[n] && !v.answers(n.Type) {
			seen[n], r.named = true, append(r.named, n)
		}
	}
	for _, a := range c.Attributes {
		if t, options := req.Schema.Describe(a); t != nil {
			add(named{t, entry.SortOptions(options)})
		}
	}
	for _, n := range v.selector.named {
		add(n)
	}
	v.rights = r
	return nil
}

// appendRights adds the rights on an entry that the control asks for. If the control asks
// about another identity and the requester does not have the right explain on the entry,
// appendRights adds nothing.
func (v *Presenter) appendRights(ctx context.Context, shown []entry.Attribute, found *partition.Result) ([]entry.Attribute, error) {
	if !v.rights.own && !v.Req.Judge.Unrestricted() {
		d, err := v.Req.Judge.DecideAt(ctx, found.Located)
		if err != nil || d == nil || !d.Entry(acl.Explain) {
			return shown, err
		}
	}
	about, err := v.askedAbout(ctx, shown, found)
	if err != nil {
		return nil, err
	}
	d, err := judge.Inspect(ctx, &v.rights.judge, found.Located)
	if err != nil {
		return nil, err
	}
	if v.rights.sun {
		return v.appendSun(shown, d, about), nil
	}
	return v.append389(shown, d, about), nil
}

// askedAbout returns the attributes to answer about: the attributes that the control or the
// search names, and the attributes that the requester is shown. If the search requests "*",
// askedAbout also returns the attributes that the entry's object classes allow. It considers
// only the object classes that the requester may be shown.
func (v *Presenter) askedAbout(ctx context.Context, shown []entry.Attribute, found *partition.Result) (all []named, err error) {
	add := func(n named) {
		if !slices.Contains(all, n) && !v.answers(n.Type) {
			all = append(all, n)
		}
	}
	all = slices.Clone(v.rights.named)
	for i := range shown {
		add(named{shown[i].Type, shown[i].Options})
	}
	if !v.rights.classes {
		return all, nil
	}
	k := v.Req.Known
	classes, err := v.Req.Judge.Case(found.Name, found.Entry).Shown(ctx, []entry.Attribute{{Type: k.ObjectClass, Values: found.Entry.Values(k.ObjectClass)}})
	for i := range classes {
		for _, name := range classes[i].Values {
			if c := v.Req.Schema.Class(string(name)); c != nil {
				var allowed selector
				allowed.addTypes(c, "")
				for _, n := range allowed.named {
					add(n)
				}
			}
		}
	}
	return all, err
}

// answers reports whether a type is an attribute in which the rights themselves are
// returned.
func (v *Presenter) answers(t *schema.AttributeType) bool {
	k := v.Req.Known
	return t == k.ACLRights || t == k.ACLRightsInfo || t == k.EntryLevelRights || t == k.AttributeLevelRights
}

// append389 adds the answers of 389 Directory Server: a letter for each right.
func (v *Presenter) append389(as []entry.Attribute, d *judge.Inspection, about []named) []entry.Attribute {
	letters := func(parts string) []byte {
		if parts == "" {
			return []byte("none")
		}
		return []byte(parts)
	}
	of := ""
	for _, r := range []struct {
		right  acl.Rights
		letter string
	}{{acl.See, "v"}, {acl.Add, "a"}, {acl.Delete, "d"}, {acl.Rename, "n"}} {
		if d.Entry(r.right) {
			of += r.letter
		}
	}
	texts := make([]string, len(about))
	for i, n := range about {
		texts[i] = description389(n) + ":" + string(letters(v.letters389(d, n)))
	}
	if len(texts) == 0 {
		texts = []string{"*:none"}
	}
	k := v.Req.Known
	return append(as, entry.Attribute{Type: k.EntryLevelRights, Values: [][]byte{letters(of)}},
		entry.Attribute{Type: k.AttributeLevelRights, Values: [][]byte{[]byte(strings.Join(texts, ", "))}})
}

func description389(n named) string {
	a := entry.Attribute{Type: n.Type, Options: n.Options}
	return a.Description()
}

// letters389 returns the letters of the rights on an attribute. A capital letter means that
// the identity has the right on the value that is its own name, but not on all values.
func (v *Presenter) letters389(d *judge.Inspection, n named) (of string) {
	for _, r := range []struct {
		right        acl.Rights
		letter, self string
	}{{acl.Show, "r", ""}, {acl.Search, "s", ""}, {acl.Compare, "c", ""}, {acl.Insert, "w", "W"}, {acl.Remove, "o", "O"}} {
		switch {
		case d.Attribute(n.Type, n.Options, r.right):
			of += r.letter
		case r.self != "" && wellknown.IsName(n.Type) && d.Value(n.Type, n.Options, v.rights.self, r.right):
			of += r.self
		}
	}
	return of
}

// appendSun adds the answers of Sun's and OpenDJ's servers: 1 for a right, 0 for none,
// and ? for a right on some values only.
func (v *Presenter) appendSun(as []entry.Attribute, d *judge.Inspection, about []named) []entry.Attribute {
	k := v.Req.Known
	add := func(t *schema.AttributeType, options, text string) {
		as = append(as, entry.Attribute{Type: t, Options: options, Values: [][]byte{[]byte(text)}})
	}
	var texts []string
	for _, r := range sunEntry {
		texts = append(texts, r.word+":"+digit(d.Entry(r.rights), false))
		if v.rights.infos {
			add(k.ACLRightsInfo, ";logs;entryLevel;"+r.word, d.Reason(acl.Question{Right: r.rights}))
		}
	}
	add(k.ACLRights, ";entryLevel", strings.Join(texts, ","))
	for _, n := range about {
		texts = texts[:0]
		for _, r := range sunAttribute {
			all := d.Attribute(n.Type, n.Options, r.rights)
			if r.self && wellknown.IsName(n.Type) {
				all = all || d.Value(n.Type, n.Options, v.rights.self, r.rights)
			}
			texts = append(texts, r.word+":"+digit(all, !r.self && d.Some(n.Type, r.rights)))
			if v.rights.infos && !r.self {
				add(k.ACLRightsInfo, ";logs;attributeLevel;"+r.word+";"+description389(n), d.Reasons(n.Type, n.Options, r.rights))
			}
		}
		texts = append(texts, "proxy:"+digit(d.Entry(acl.Proxy), false))
		add(k.ACLRights, ";attributeLevel;"+description389(n), strings.Join(texts, ","))
	}
	return as
}

// sunRight is a right in the notation of Sun's servers.
type sunRight struct {
	word   string
	rights acl.Rights
	self   bool // the right is on only the value that is the identity's own name
}

var (
	sunEntry     = []sunRight{{"add", acl.Add, false}, {"delete", acl.Delete, false}, {"read", acl.See, false}, {"write", acl.Rename, false}, {"proxy", acl.Proxy, false}}
	sunAttribute = []sunRight{{"search", acl.Search, false}, {"read", acl.Show, false}, {"compare", acl.Compare, false}, {"write", acl.Write, false},
		{"selfwrite_add", acl.Insert, true}, {"selfwrite_delete", acl.Remove, true}}
)

func digit(all, some bool) string {
	switch {
	case all:
		return "1"
	case some:
		return "?"
	}
	return "0"
}
