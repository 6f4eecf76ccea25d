package op

// NameOf returns a pointer to the name of the entry that a request is about. For a search, this
// is the base. NameOf returns nil for a bind and for a request that names no entry. The pointer
// points into the request, so setting the name changes the request.
func NameOf(r Request) *string {
	switch r := r.(type) {
	case *Search:
		return &r.Base
	case *Compare:
		return &r.Name
	case *Add:
		return &r.Name
	case *Modify:
		return &r.Name
	case *Delete:
		return &r.Name
	case *ModifyDN:
		return &r.Name
	}
	return nil
}

// CopyOf returns a copy of a request for which NameOf does not return nil. The copy
// shares attributes and values with the request.
func CopyOf(r Request) Request {
	switch r := r.(type) {
	case *Search:
		return new(*r)
	case *Compare:
		return new(*r)
	case *Add:
		return new(*r)
	case *Modify:
		return new(*r)
	case *Delete:
		return new(*r)
	case *ModifyDN:
		return new(*r)
	}
	return r
}
