// Package scim serves SCIM 2.0 (RFC 7643, 7644, 9865): the users and groups of a directory. It is a client of package
// directory: each request runs as LDAP operations in a session of the identity that its Authorization header names.
package scim

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	ldapschema "github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/web"
)

// Prefix is the path below which the handler serves.
const Prefix = "/scim/v2"

// Options describe the users and groups of the directory.
type Options struct {
	Base                  string   // the entry below which they are; "": the only naming context
	Users, Groups         string   // where new ones are added, relative to Base
	UserClass, GroupClass []string // classes of new ones; the first is what they are found by
	UserName              string   // attribute that names a user
	Member                string   // attribute that has a group's members as DNs; "": there are no groups
	Attributes            []string // NAME=ATTRIBUTE: changes of the mapping of User

	// Channel returns the connection of a request; nil: web.Channel without a certificate.
	Channel func(*http.Request) web.Channel
}

// handler serves SCIM.
type handler struct {
	d       *directory.Directory
	o       Options
	schemas []*schema
	kinds   []*kind // the first is User
	mu      sync.Mutex
	base    string // "": not found yet
}

// New returns a handler of requests below Prefix. It fails if the mapping cannot be used.
func New(d *directory.Directory, o Options) (http.Handler, error) {
	if o.Channel == nil {
		o.Channel = func(q *http.Request) web.Channel { return web.Channel{Request: q} }
	}
	all := parseSchemas(schemasText)
	h := &handler{d: d, o: o, schemas: all, base: o.Base}
	user := &kind{name: "User", endpoint: "/Users", description: all[0].description, schema: all[0], extension: all[1],
		classes: o.UserClass, class: o.UserClass[0], place: o.Users, naming: o.UserName}
	user.all = append(slices.Clone(all[0].attributes), all[1].attributes...)
	if err := user.remap(o.Attributes); err != nil {
		return nil, err
	}
	h.kinds = append(h.kinds, user)
	if o.Member != "" {
		group := &kind{name: "Group", endpoint: "/Groups", description: all[2].description, schema: all[2], all: all[2].attributes,
			classes: o.GroupClass, class: o.GroupClass[0], place: o.Groups, naming: "cn", member: o.Member}
		find(group.schema.attributes, "members").ldap = o.Member
		h.kinds = append(h.kinds, group)
	}
	return h, nil
}

// An Error is an error of SCIM (RFC 7644, 3.12).
type Error struct {
	Status       int
	Type, Detail string // Type is the scimType, or ""
}

func (e *Error) Error() string { return e.Detail }

func (e *Error) represent() object {
	o := object{"schemas": []string{"urn:ietf:params:scim:api:messages:2.0:Error"}, "status": strconv.Itoa(e.Status), "detail": e.Detail}
	if e.Type != "" {
		o["scimType"] = e.Type
	}
	return o
}

var (
	errNotFound = &Error{404, "", "no such resource"}
	errVersion  = &Error{412, "", "the resource has changed: its version is not the one of If-Match"}
)

// A methodError has the methods that are served where another one was sent.
type methodError string

func (e methodError) Error() string { return "only " + string(e) + " is served here" }

// results are the errors for results of LDAP. A result that is not there is an internal error.
var results = map[op.Code]Error{
	op.NoSuchObject:                {404, "", "no such resource"},
	op.EntryAlreadyExists:          {409, "uniqueness", "another entry has this name"},
	op.AttributeOrValueExists:      {409, "uniqueness", ""},
	op.ConstraintViolation:         {400, "invalidValue", ""},
	op.ObjectClassViolation:        {400, "invalidValue", ""},
	op.InvalidAttributeSyntax:      {400, "invalidValue", ""},
	op.InvalidDNSyntax:             {400, "invalidValue", ""},
	op.NamingViolation:             {400, "invalidValue", ""},
	op.UndefinedAttributeType:      {400, "invalidValue", ""},
	op.NoSuchAttribute:             {400, "invalidValue", ""},
	op.InappropriateMatching:       {400, "invalidFilter", ""},
	op.NotAllowedOnNonLeaf:         {409, "", ""},
	op.InsufficientAccessRights:    {403, "", ""},
	op.UnwillingToPerform:          {403, "", ""},
	op.ConfidentialityRequired:     {403, "", ""},
	op.AssertionFailed:             {412, "", errVersion.Detail},
	op.SizeLimitExceeded:           {400, "tooMany", "more results than the server returns: use a filter, or pages by cursor"},
	op.AdminLimitExceeded:          {400, "tooMany", ""},
	op.TimeLimitExceeded:           {400, "tooMany", "the search takes too long: use a filter by an attribute that is indexed"},
	op.Busy:                        {503, "", ""},
	op.Unavailable:                 {503, "", ""},
	op.StrongerAuthRequired:        {401, "", ""},
	op.InvalidCredentials:          {401, "", "the credentials are wrong"},
	op.InappropriateAuthentication: {401, "", ""},
}

// errorOf returns the error that a client is told.
func errorOf(err error) *Error {
	var e *Error
	var r *op.Result
	var method methodError
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &method):
		return &Error{405, "", method.Error()}
	case errors.As(err, &r):
		known, ok := results[r.Code]
		if !ok {
			known = Error{500, "", ""}
		}
		if known.Detail == "" {
			if known.Detail = r.Diagnostic; known.Detail == "" {
				known.Detail = r.Code.Name()
			}
		}
		if r.Code == op.ConstraintViolation && strings.Contains(r.Diagnostic, "must be unique") {
			known.Status, known.Type = 409, "uniqueness"
		}
		return &known
	}
	return &Error{500, "", "the request failed: " + err.Error()}
}

// A request is what a client asks for, alone or in a bulk request.
type request struct {
	method, path     string // the path is below Prefix
	query            url.Values
	body             []byte
	origin           string // of the resources
	match, noneMatch string // If-Match, If-None-Match
}

// An answer is what a client receives.
type answer struct {
	status         int
	etag, location string
	body           any // nil: none
}

const (
	maxBody     = 16 << 20
	contentType = "application/scim+json"
)

func (h *handler) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	a, err := h.answer(w, q)
	if err != nil {
		e := errorOf(err)
		a = &answer{status: e.Status, body: e.represent()}
		if others := methodError(""); errors.As(err, &others) {
			w.Header().Set("Allow", string(others))
		}
		if e.Status == 401 {
			w.Header().Add("WWW-Authenticate", `Bearer realm="SCIM"`)
			w.Header().Add("WWW-Authenticate", `Basic realm="SCIM", charset="UTF-8"`)
		}
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	if a.etag != "" {
		header.Set("ETag", a.etag)
	}
	if a.location != "" {
		header.Set("Location", a.location)
	}
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	header.Set("Content-Type", contentType)
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a.body) // an error means that the client is gone
}

func (h *handler) answer(w http.ResponseWriter, q *http.Request) (*answer, error) {
	s := h.d.NewSession(h.o.Channel(q))
	defer s.Close()
	c := &client{Client: web.Client{Session: s}, h: h, ctx: q.Context()}
	path := strings.TrimPrefix(q.URL.Path, Prefix)
	// How to log in is said before (RFC 7643, 5).
	if err := c.authenticate(q); err != nil && (path != "/ServiceProviderConfig" || q.Header.Get("Authorization") != "") {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxBody))
	if err != nil {
		if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
			return nil, &Error{413, "", "a body has at most " + strconv.Itoa(maxBody) + " octets"}
		}
		return nil, invalid("invalidSyntax", "the body cannot be read: %v", err)
	}
	return c.serve(&request{method: q.Method, path: path, query: q.URL.Query(), body: body,
		origin: origin(q) + Prefix, match: q.Header.Get("If-Match"), noneMatch: q.Header.Get("If-None-Match")})
}

// origin returns the address of the server as the client of a request knows it, such as https://example.com.
func origin(q *http.Request) string {
	if q.TLS != nil {
		return "https://" + q.Host
	}
	return "http://" + q.Host
}

// authenticate binds the session.
func (c *client) authenticate(q *http.Request) error {
	scheme, token, _ := strings.Cut(q.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	name, password, isBasic := q.BasicAuth()
	var bind *op.Bind
	switch {
	case isBasic && password == "", !isBasic && !strings.EqualFold(scheme, "Bearer"), !isBasic && token == "":
		return &Error{401, "", "log in with a bearer token, or with a name and a password (Basic)"}
	case isBasic:
		bind = web.BindRequest(name, password)
	case auth.IsStoredToken(token):
		return c.Session.BindToken(c.ctx, token)
	default:
		bind = &op.Bind{Version: 3, SASL: true, Mechanism: "OAUTHBEARER", Credentials: []byte("n,,\x01auth=Bearer " + token + "\x01\x01")}
	}
	_, err := c.Do(c.ctx, bind, web.Answer{})
	if web.IsResult(err, op.SASLBindInProgress) || web.IsResult(err, op.AuthMethodNotSupported) {
		return &Error{401, "", "the credentials are not accepted"}
	}
	return err
}

// serve answers a request.
func (c *client) serve(r *request) (*answer, error) {
	c.ids = nil // an operation before may have changed them
	parts := strings.Split(strings.Trim(r.path, "/"), "/")
	switch parts[0] {
	case "ServiceProviderConfig", "Schemas", "ResourceTypes":
		if len(parts) <= 2 {
			return c.h.discover(r, parts)
		}
	case "Bulk":
		if len(parts) == 1 {
			return only(r, "POST", func() (*answer, error) { return c.bulk(r) })
		}
	case "Me":
		return nil, &Error{501, "", "/Me is not served: use /Users"}
	case "":
		return only(r, "GET", func() (*answer, error) { return c.list(r, c.h.kinds) })
	case ".search":
		return only(r, "POST", func() (*answer, error) { return c.search(r, c.h.kinds) })
	}
	for _, k := range c.h.kinds {
		if "/"+parts[0] == k.endpoint {
			return c.serveKind(r, k, parts[1:])
		}
	}
	return nil, errNotFound
}

func only(r *request, method string, f func() (*answer, error)) (*answer, error) {
	if r.method != method {
		return nil, methodError(method)
	}
	return f()
}

func (c *client) serveKind(r *request, k *kind, parts []string) (*answer, error) {
	switch {
	case len(parts) > 1:
		return nil, errNotFound
	case len(parts) == 1 && parts[0] == ".search":
		return only(r, "POST", func() (*answer, error) { return c.search(r, []*kind{k}) })
	case len(parts) == 0 && r.method == "GET":
		return c.list(r, []*kind{k})
	case len(parts) == 0 && r.method == "POST":
		return c.create(r, k)
	case len(parts) == 0:
		return nil, methodError("GET, POST")
	}
	switch r.method {
	case "GET":
		return c.get(r, k, parts[0])
	case "PUT":
		return c.replace(r, k, parts[0])
	case "PATCH":
		return c.patch(r, k, parts[0])
	case "DELETE":
		return c.remove(r, k, parts[0])
	}
	return nil, methodError("GET, PUT, PATCH, DELETE")
}

// search answers a POST to .search, whose body has the parameters of a query (RFC 7644, 3.4.3).
func (c *client) search(r *request, kinds []*kind) (*answer, error) {
	var s struct {
		Schemas                        []string
		Attributes, ExcludedAttributes []string
		Filter, SortBy, SortOrder      string
		Cursor                         *string
		StartIndex, Count              *int
	}
	if err := decode(r.body, &s); err != nil {
		return nil, err
	}
	q := url.Values{}
	for name, value := range map[string]string{"filter": s.Filter, "sortBy": s.SortBy, "sortOrder": s.SortOrder,
		"attributes": strings.Join(s.Attributes, ","), "excludedAttributes": strings.Join(s.ExcludedAttributes, ",")} {
		q.Set(name, value)
	}
	for name, n := range map[string]*int{"startIndex": s.StartIndex, "count": s.Count} {
		if n != nil {
			q.Set(name, strconv.Itoa(*n))
		}
	}
	if s.Cursor != nil {
		q.Set("cursor", *s.Cursor)
	}
	if len(s.Schemas) == 0 || !strings.EqualFold(s.Schemas[0], searchURN) {
		return nil, invalid("invalidSyntax", "the schemas of a search must be %s", searchURN)
	}
	r.query = q
	return c.list(r, kinds)
}

// baseOf returns the entry below which resources are.
func (h *handler) baseOf(c *client) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.base != "" {
		return h.base, nil
	}
	var contexts []string
	_, err := c.find(&op.Search{Filter: &filter.Present{Attribute: "objectClass"}, Attributes: []string{"namingContexts"}}, func(root *record) error {
		for _, name := range root.values["namingcontexts"] {
			if !strings.HasPrefix(strings.ToLower(name), "cn=") {
				contexts = append(contexts, name)
			}
		}
		return nil
	})
	if err == nil && len(contexts) != 1 {
		err = &Error{500, "", "the server has " + strconv.Itoa(len(contexts)) + " naming contexts: people.base must say which DN users and groups are below"}
	}
	if err != nil {
		return "", err
	}
	h.base = contexts[0]
	return h.base, nil
}

// matches reports whether a list of versions, or *, contains a version.
func matches(list, etag string) bool {
	for v := range strings.SplitSeq(list, ",") {
		if v = strings.TrimSpace(v); v == "*" || strings.TrimPrefix(v, "W/") == strings.TrimPrefix(etag, "W/") {
			return true
		}
	}
	return false
}

// timeOf returns a generalized time in the form of RFC 3339.
func timeOf(text string) string {
	t, err := ldapschema.Time([]byte(text))
	if err != nil {
		return text
	}
	return t.UTC().Format(time.RFC3339Nano)
}
