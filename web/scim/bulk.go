package scim

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	bulkURN         = "urn:ietf:params:scim:api:messages:2.0:BulkRequest"
	bulkResponseURN = "urn:ietf:params:scim:api:messages:2.0:BulkResponse"

	maxOperations = 1000
)

// A bulkOperation is one operation of a bulk request.
type bulkOperation struct {
	Method, BulkID, Version, Path string
	Data                          json.RawMessage
}

// bulk answers a bulk request (RFC 7644, 3.7). An operation that refers to another waits for it. Each operation is one
// commit.
func (c *client) bulk(r *request) (*answer, error) {
	var b struct {
		Schemas      []string
		FailOnErrors int
		Operations   []bulkOperation
	}
	if err := decode(r.body, &b); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(b.Schemas, func(s string) bool { return strings.EqualFold(s, bulkURN) }) {
		return nil, invalid("invalidSyntax", "the schemas of a bulk request must contain %s", bulkURN)
	}
	if len(b.Operations) > maxOperations {
		return nil, &Error{413, "", "a bulk request has at most " + strconv.Itoa(maxOperations) + " operations"}
	}
	results := make([]object, len(b.Operations))
	ids, failed := map[string]string{}, 0
	refs := make([][]string, len(b.Operations))
	named := map[string]bool{}
	for i, o := range b.Operations {
		if refs[i] = o.refs(); o.BulkID != "" && named[o.BulkID] {
			return nil, invalid("invalidSyntax", "the bulkId %q is used twice", short(o.BulkID))
		}
		named[o.BulkID] = true
	}
	for waiting := true; waiting; {
		waiting = false
		for i, o := range b.Operations {
			if results[i] != nil || b.FailOnErrors > 0 && failed >= b.FailOnErrors {
				continue
			}
			if slices.ContainsFunc(refs[i], func(name string) bool { return ids[name] == "" }) {
				continue
			}
			waiting = true // others may have waited for this one
			o.Path, o.Data = resolved("/"+strings.TrimPrefix(o.Path, "/"), ids), []byte(resolved(string(o.Data), ids))
			a, err := c.bulkOne(r, &o, ids)
			if results[i] = resultOf(r, &o, a, err); err != nil {
				failed++
			}
		}
	}
	all := []object{}
	for i, o := range b.Operations {
		if results[i] == nil && (b.FailOnErrors == 0 || failed < b.FailOnErrors) {
			failed++
			results[i] = resultOf(r, &o, nil, &Error{409, "", "a bulkId that it refers to was not created"})
		}
		if results[i] != nil {
			all = append(all, results[i])
		}
	}
	return &answer{status: 200, body: object{"schemas": []string{bulkResponseURN}, "Operations": all}}, nil
}

// bulkRef is a reference to what another operation creates: a whole string, or the end of a path. In other text the same
// words mean nothing.
var bulkRef = regexp.MustCompile(`(["/])bulkId:([^"/\\\s]+)`)

// refs returns the bulkIds that an operation refers to.
func (o *bulkOperation) refs() (names []string) {
	for _, m := range bulkRef.FindAllStringSubmatch("/"+o.Path+" "+string(o.Data), -1) {
		names = append(names, m[2])
	}
	return names
}

func resolved(text string, ids map[string]string) string {
	return bulkRef.ReplaceAllStringFunc(text, func(ref string) string { return ref[:1] + ids[ref[1+len("bulkId:"):]] })
}

func (c *client) bulkOne(r *request, o *bulkOperation, ids map[string]string) (*answer, error) {
	o.Method = strings.ToUpper(o.Method)
	switch {
	case o.Method != "POST" && o.Method != "PUT" && o.Method != "PATCH" && o.Method != "DELETE":
		return nil, invalid("invalidSyntax", "the method %q is none of POST, PUT, PATCH and DELETE", short(o.Method))
	case o.Method == "POST" && o.BulkID == "":
		return nil, invalid("invalidSyntax", "a POST in a bulk request needs a bulkId")
	case strings.HasPrefix(o.Path, "/Bulk"):
		return nil, invalid("invalidPath", "a bulk request cannot contain another")
	}
	a, err := c.serve(&request{method: o.Method, path: o.Path, body: o.Data, origin: r.origin, match: o.Version, query: r.query})
	if err == nil && o.Method == "POST" {
		if body, ok := a.body.(object); ok {
			ids[o.BulkID], _ = body["id"].(string)
		}
	}
	return a, err
}

// resultOf returns the result of an operation; a failed one has a response.
func resultOf(r *request, o *bulkOperation, a *answer, err error) object {
	result := object{"method": o.Method}
	if o.BulkID != "" {
		result["bulkId"] = o.BulkID
	}
	if o.Method != "POST" {
		result["location"] = r.origin + o.Path
	}
	if err != nil {
		e := errorOf(err)
		result["status"], result["response"] = strconv.Itoa(e.Status), e.represent()
		return result
	}
	result["status"] = strconv.Itoa(a.status)
	if a.location != "" {
		result["location"] = a.location
	}
	if a.etag != "" {
		result["version"] = a.etag
	}
	return result
}
