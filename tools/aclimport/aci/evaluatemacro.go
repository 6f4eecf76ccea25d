package aci

import (
	"slices"
	"strings"
)

// matchMacro matches the name of an entry with a target that contains ($dn), and returns
// the part of the name that ($dn) matched. In the target, a text precedes ($dn), and
// another text follows it. The part begins after the first occurrence of the preceding
// text. The name must end with the following text.
func matchMacro(pattern, name string) (matched string, ok bool) {
	before, after, _ := strings.Cut(strings.ReplaceAll(pattern, ", ", ","), "($dn)")
	if after = strings.TrimPrefix(after, ","); after != "" {
		if name, ok = strings.CutSuffix(name, ","+after); !ok {
			return "", false
		}
	}
	if before == "" {
		return name, name != ""
	}
	if strings.Contains(before, "=*") {
		return matchPrefix(strings.Split(strings.TrimSuffix(before, ","), ","), strings.Split(name, ","))
	}
	i := strings.Index(name, before)
	if i < 0 || i+len(before) >= len(name) {
		return "", false
	}
	return name[i+len(before):], true
}

// matchPrefix matches RDNs with wildcards at the beginning of a name, and returns the
// rest.
func matchPrefix(patterns, rdns []string) (string, bool) {
	if len(rdns) <= len(patterns) {
		return "", false
	}
	for i, p := range patterns {
		if !matchText(p, rdns[i]) {
			return "", false
		}
	}
	return strings.Join(rdns[len(patterns):], ","), true
}

// macroNames expands the macros in a name of a bind rule. ($dn) becomes the part that
// matched in the target. [$dn] becomes that part and each of its superiors in turn, so the
// result may be several names.
func macroNames(text, matched string) []string {
	low := strings.ToLower(text)
	if !strings.Contains(low, "$dn") {
		return []string{text}
	}
	if matched == "" {
		return nil
	}
	low = strings.ReplaceAll(low, "($dn)", matched)
	if !strings.Contains(low, "[$dn]") {
		return []string{low}
	}
	var all []string
	for rdns := strings.Split(matched, ","); len(rdns) > 0; rdns = rdns[1:] {
		all = append(all, strings.ReplaceAll(low, "[$dn]", strings.Join(rdns, ",")))
	}
	return slices.Clip(all)
}
