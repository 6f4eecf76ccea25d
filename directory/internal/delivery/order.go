package delivery

import (
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// maxSortKeys bounds the number of keys in a request.
const maxSortKeys = 16

// A SortError is the reason why results cannot be sorted.
type SortError struct {
	Code      op.Code // the result code in the response control
	attribute string
	Text      string
}

func (e *SortError) Error() string { return e.Text }

// ResolveOrder returns the sort keys of the request, or nil if the request has none. Keys that
// cannot be used are an error if the sort control is critical or the request has a view.
// Otherwise ResolveOrder ignores such keys and returns nil, and the search continues unsorted
// (RFC 2891, 2).
func ResolveOrder(req *request.Request) ([]partition.SortKey, error) {
	s := req.Controls.Sort
	if s == nil {
		return nil, checkVLV(req, nil)
	}
	keys, problem := resolveSortKeys(s.Keys, req.Schema)
	if problem != nil {
		if err := Unsorted(req, problem); err != nil {
			return nil, err
		}
	}
	return keys, checkVLV(req, keys)
}

// Unsorted reports to the client that results are not sorted. It returns an error if the
// sort control is critical, because the search must then end.
func Unsorted(req *request.Request, e *SortError) error {
	SortResponse(req, e.Code, e.attribute)
	if req.Controls.Sort.Critical {
		return op.Errorf(op.UnavailableCriticalExtension, "sort control ("+control.OIDSortRequest+"): %s", e.Text)
	}
	return nil
}

// SortResponse adds the control that reports whether the results are sorted.
func SortResponse(req *request.Request, code op.Code, attribute string) {
	req.Respond(control.OIDSortResponse, control.SortResponse{Code: code, Attribute: attribute}.Encode())
}

func resolveSortKeys(all []control.SortKey, sch *schema.Schema) ([]partition.SortKey, *SortError) {
	if len(all) > maxSortKeys {
		return nil, &SortError{op.UnwillingToPerform, "", fmt.Sprintf("more than %d keys", maxSortKeys)}
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

// unsortable returns the error for a key that cannot be used.
func unsortable(asked *control.SortKey, code op.Code, format string, args ...any) *SortError {
	return &SortError{code, asked.Attribute, fmt.Sprintf(format, args...)}
}

// resolveSortKey resolves a key by the schema.
func resolveSortKey(asked *control.SortKey, sch *schema.Schema) (k partition.SortKey, problem *SortError) {
	t, options := sch.Describe(asked.Attribute)
	if t == nil {
		return k, unsortable(asked, op.NoSuchAttribute, "attribute %q is not in the schema, or one of its options is not known", asked.Attribute)
	}
	if t.Secret() {
		return k, unsortable(asked, op.InsufficientAccessRights, "%s is secret, and serves only to bind", t.Name())
	}
	rule := sch.OrderingOf(t)
	if asked.Rule != "" {
		rule = sch.Rule(asked.Rule)
	}
	if rule == nil || rule.Use != schema.Ordering || !rule.AppliesTo(t) {
		return k, unsortable(asked, op.InappropriateMatching, "%s has no such ordering rule", t.Name())
	}
	return partition.SortKey{Type: t, Options: entry.SortOptions(options), Rule: rule, Reverse: asked.Reverse}, nil
}

// VLVError returns the error that ends a search whose virtual list view is not available
// (draft-ietf-ldapext-ldapv3-vlv-09, 6.2.1), and adds the response control.
func VLVError(req *request.Request, code op.Code, format string, args ...any) error {
	RespondVLV(req, control.VLVResponse{Code: code})
	return op.Errorf(op.VirtualListViewError, "virtual list view control: "+format, args...)
}

// RespondVLV adds the response control of a virtual list view.
func RespondVLV(req *request.Request, v control.VLVResponse) {
	req.Respond(control.OIDVLVResponse, v.Encode())
}

// checkVLV returns an error if a view is not possible with the request's controls, limits and
// access rules. If the view is impossible because the entries cannot be sorted, the sort
// response control contains the reason.
func checkVLV(req *request.Request, keys []partition.SortKey) error {
	v := req.Controls.Vlv
	switch {
	case v == nil:
		return nil
	case req.Controls.Sort == nil:
		return VLVError(req, control.SortControlMissing, "it needs a sort control")
	case keys == nil:
		return VLVError(req, op.InappropriateMatching, "the entries cannot be sorted")
	case !req.Judge.SortsAll(keys):
		return VLVError(req, op.InsufficientAccessRights, "the access rules do not let you search by all that the list is sorted by")
	case req.Controls.Paged != nil:
		return VLVError(req, op.UnwillingToPerform, "paged results are another way through the list: ask for one of them")
	case req.Limits.Page > 0 && v.Before+v.After >= req.Limits.Page:
		return VLVError(req, op.AdminLimitExceeded, "a view of %d entries: the limit on page size is %d", v.Before+v.After+1, req.Limits.Page)
	}
	return nil
}
