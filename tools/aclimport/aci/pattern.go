package aci

import (
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// A wild is a DN with wildcards.
type wild struct {
	// The field any is set if the pattern begins with a wildcard for whole RDNs. The wildcard
	// matches one or more RDNs if deep is set, and otherwise exactly one RDN.
	any, deep bool
	rdns      dn.DN // the RDNs of the pattern, without that wildcard
	open      int   // index in rdns behind the last RDN that has a wildcard
}

// parseWild parses a DN with wildcards. It returns false for patterns that rules have no
// words for.
func (o *Options) parseWild(text string) (w wild, ok bool) {
	rest := text
	if first, after, found := strings.Cut(text, ","); found && strings.Trim(strings.TrimSpace(first), "*") == "" {
		// In 389 Directory Server, * also matches commas, and so several RDNs.
		w.any, w.deep, rest = true, o.Dialect == DS389 || strings.TrimSpace(first) == "**", after
	}
	d, err := dn.Parse(rest)
	if err != nil {
		return w, false
	}
	w.rdns = d
	for i, r := range d {
		for _, a := range r {
			if strings.Contains(a.Type, "*") {
				return w, false
			}
			if strings.Contains(string(a.Value), "*") {
				w.open = i + 1
			}
		}
	}
	return w, true
}

// tail returns the RDNs behind all wildcards.
func (w *wild) tail() dn.DN { return w.rdns[w.open:] }

// patternText returns RDNs as rules write them, where * stands for any part of a value.
func patternText(d dn.DN) string { return strings.ReplaceAll(d.String(), "{", `\7b`) }

// pattern translates a target with wildcards. If rules cannot describe exactly the
// entries of the target, the result is an approximation: it includes more entries if over
// is set, and fewer if over is not set.
func (t *translation) pattern(text string, over bool) (*acl.Target, bool) {
	if strings.Trim(text, "*") == "" {
		return &acl.Target{}, true
	}
	w, ok := t.o.parseWild(text)
	if !ok || !draft.Within(t.o.Schema, w.tail(), t.place) {
		t.out.Note(draft.Not, "its target %q has wildcards that the names in rules do not have", text)
		return nil, false
	}
	rel := w.rdns[:len(w.rdns)-len(t.place)]
	if w.any {
		// In OpenDJ, a pattern also matches all names below a matching name. So it makes no
		// difference whether the leading wildcard stands for one RDN or for several.
		if w.open == 0 {
			return &acl.Target{Scope: acl.Under, Pattern: patternText(rel)}, true
		}
		t.out.Note(draft.Not, "its target %q has wildcards that the names in rules do not have", text)
		return nil, false
	}
	pattern := &acl.Target{Pattern: patternText(rel)}
	if t.o.Dialect == OpenDJ {
		return pattern, true
	}
	t.out.Note(draft.Near, "* in the target %q matches commas there, so that entries at other depths match too", text)
	if !over {
		return pattern, true
	}
	tail := w.tail()
	return &acl.Target{Scope: acl.Under, Pattern: acl.EscapeName(tail[:len(tail)-len(t.place)].String())}, true
}

// matchText reports whether a text matches a pattern in which * stands for any text.
func matchText(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+len(p):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}
