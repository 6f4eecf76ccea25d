package directory

import (
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// maxSortKeys bounds how many keys a request may have.
const maxSortKeys = 16

// A sortError says why results cannot be sorted.
type sortError struct {
	code      op.Code // of the response control
	attribute string
	text      string
}

func (e *sortError) Error() string { return e.text }

// resolveOrder understands the controls that put results in order, and returns what to
// sort by; nil: nothing. If there is nothing although the client asks for it, a critical
// control ends the search; otherwise it goes on unsorted (RFC 2891, 2).
func resolveOrder(o *operation) ([]partition.SortKey, error) {
	s := o.controls.sort
	if s == nil {
		return nil, checkView(o, nil)
	}
	keys, problem := resolveSortKeys(s.keys, o.schema)
	if problem != nil {
		if err := unsorted(o, problem); err != nil {
			return nil, err
		}
	}
	return keys, checkView(o, keys)
}

// unsorted gives up on sorting: the error, if the search must end for that.
func unsorted(o *operation, e *sortError) error {
	sortResponse(o, e.code, e.attribute)
	if o.controls.sort.critical {
		return op.Errorf(op.UnavailableCriticalExtension, "sort control: %s", e.text)
	}
	return nil
}

func sortResponse(o *operation, code op.Code, attribute string) {
	o.respond(control.OIDSortResponse, control.SortResponse{Code: code, Attribute: attribute}.Encode())
}

func resolveSortKeys(all []control.SortKey, sch *schema.Schema) ([]partition.SortKey, *sortError) {
	if len(all) > maxSortKeys {
		return nil, &sortError{op.UnwillingToPerform, "", fmt.Sprintf("more than %d keys", maxSortKeys)}
	}
	var keys []partition.SortKey
	for i := range all {
		asked := &all[i]
		k, problem := resolveSortKey(asked, sch)
		if problem != nil {
			return nil, problem
		}
		if slices.ContainsFunc(keys, func(o partition.SortKey) bool { return o.Type == k.Type && o.Options == k.Options }) {
			return nil, unsortable(asked, op.UnwillingToPerform, "%s is a key twice", asked.Attribute)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// unsortable returns the error of a key that cannot be sorted by.
func unsortable(asked *control.SortKey, code op.Code, format string, args ...any) *sortError {
	return &sortError{code, asked.Attribute, fmt.Sprintf(format, args...)}
}

// resolveSortKey looks a key up in the schema.
func resolveSortKey(asked *control.SortKey, sch *schema.Schema) (k partition.SortKey, problem *sortError) {
	t, options := sch.Describe(asked.Attribute)
	if t == nil {
		return k, unsortable(asked, op.NoSuchAttribute, "attribute %q is not in the schema, or one of its options is not known", asked.Attribute)
	}
	if t.Secret() {
		return k, unsortable(asked, op.InsufficientAccessRights, "%s is for binding only", t.Name())
	}
	rule := orderingOf(t, sch)
	if asked.Rule != "" {
		rule = sch.Rule(asked.Rule)
	}
	if rule == nil || rule.Use != schema.Ordering || !rule.AppliesTo(t) {
		return k, unsortable(asked, op.InappropriateMatching, "%s has no such ordering rule", t.Name())
	}
	return partition.SortKey{Type: t, Options: entry.SortOptions(options), Rule: rule, Reverse: asked.Reverse}, nil
}

// orderingOf is the rule that orders values of a type: its own, or the one that
// goes with its equality rule. Attributes that people sort by, cn and sn, have
// none of their own (RFC 4519).
func orderingOf(t *schema.AttributeType, sch *schema.Schema) *schema.MatchingRule {
	if t.Ordering != nil || t.Equality == nil {
		return t.Ordering
	}
	for _, r := range sch.Rules() {
		if r.Use == schema.Ordering && r.Form == t.Equality.Form {
			return r
		}
	}
	return nil
}

// viewError ends a search whose view cannot be had (6.2.1).
func viewError(o *operation, code op.Code, format string, args ...any) error {
	viewResponse(o, control.ViewResponse{Code: code})
	return op.Errorf(op.VirtualListViewError, "virtual list view control: "+format, args...)
}

func viewResponse(o *operation, v control.ViewResponse) {
	o.respond(control.OIDViewResponse, v.Encode())
}

// checkView refuses what a view cannot go with. A sort control that was given
// up says by its own response why.
func checkView(o *operation, keys []partition.SortKey) error {
	v := o.controls.vlv
	switch {
	case v == nil:
		return nil
	case o.controls.sort == nil:
		return viewError(o, control.SortControlMissing, "it needs a sort control")
	case keys == nil:
		return viewError(o, op.InappropriateMatching, "the entries cannot be sorted")
	case o.controls.paged != nil:
		return viewError(o, op.UnwillingToPerform, "paged results are another way through the list: ask for one of them")
	case o.limits.Page > 0 && v.Before+v.After >= o.limits.Page:
		return viewError(o, op.AdminLimitExceeded, "a view of %d entries: the limit on page size is %d", v.Before+v.After+1, o.limits.Page)
	}
	return nil
}
