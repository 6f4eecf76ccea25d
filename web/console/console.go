// Package console is a client of package directory that shows pages: for administrators, who browse, search
// and change entries, and for people, who see their own entry and change their password. What a page shows
// or does is what the same identity could do over LDAP.
//
// A page is a function of a [visit], which is one request. Every link and form works without script;
// htmx replaces parts of pages where it runs.
package console

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/web"
)

//go:embed static pages
var files embed.FS

// A Console shows a directory.
type Console struct {
	web    *web.Server
	dir    *directory.Directory
	static map[string]asset  // by the name with the digest
	names  map[string]string // the name with the digest, by the name in static
	pages  map[string]*template.Template

	samples samples // of the page of operations
	trace   func(*op.Message, op.Sink) op.Sink
	resets  *resets // nil: passwords are not reset by mail
}

// An asset is an embedded file that browsers ask for.
type asset struct {
	kind         string
	body, zipped []byte
}

// kinds are the media types of the embedded files that browsers ask for.
var kinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// New returns the console of a directory.
func New(w *web.Server, d *directory.Directory) *Console {
	c := &Console{web: w, dir: d, static: map[string]asset{}, names: map[string]string{}, pages: map[string]*template.Template{}}
	for name, body := range readAll("static") {
		kind, ok := kinds[path.Ext(name)]
		if !ok {
			continue
		}
		sum := sha256.Sum256(body)
		digested := hex.EncodeToString(sum[:6]) + "-" + name
		c.static[digested], c.names[name] = asset{kind, body, zip(body)}, digested
	}
	pages := readAll("pages")
	base := template.New("").Funcs(template.FuncMap{"static": func(name string) string { return "/static/" + c.names[name] }, "label": labelOf, "dict": dict, "inc": func(n int) int { return n + 1 }, "kindOf": kindOf, "link": link, "momentText": momentText})
	template.Must(base.Parse(string(pages["layout.html"])))
	template.Must(base.Parse(string(pages["parts.html"])))
	for name, text := range pages {
		if name != "layout.html" && name != "parts.html" {
			c.pages[strings.TrimSuffix(name, ".html")] = template.Must(template.Must(base.Clone()).Parse(string(text)))
		}
	}
	return c
}

// zip compresses a file. Pages are not compressed: what they repeat of an address beside secrets would tell
// somebody who sees their lengths about the secrets.
func zip(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(body) // a bytes.Buffer returns no error
	w.Close()
	return b.Bytes()
}

// dict returns pairs as a map, for templates that take several values.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// readAll returns the embedded files of a folder by name.
func readAll(folder string) map[string][]byte {
	all := map[string][]byte{}
	entries, err := files.ReadDir(folder)
	for _, e := range entries {
		if err == nil {
			all[e.Name()], err = fs.ReadFile(files, folder+"/"+e.Name())
		}
	}
	if err != nil {
		panic(err) // the files are in the program
	}
	return all
}

// Register adds the pages to the server.
func (c *Console) Register() {
	c.web.Handle("GET /static/{name}", http.HandlerFunc(c.serveStatic))
	for pattern, page := range routes() {
		c.web.Handle(pattern, c.page(page))
	}
}

// routes returns the pages by their patterns.
func routes() map[string]func(*visit) error {
	return map[string]func(*visit) error{
		"GET /{$}":                       home,
		"GET /login":                     showLogin,
		"POST /login":                    logIn,
		"POST /logout":                   logOut,
		"GET /tree":                      showTree,
		"GET /tree/children":             showChildren,
		"GET /search":                    showSearch,
		"GET /entry/{id}":                showEntry,
		"GET /entry/{id}/ldif":           downloadEntry,
		"GET /entry/{id}/value/{at}/{n}": downloadValue,
		"GET /entry/{id}/values/{at}":    showValues,
		"POST /entry/{id}/values/{at}":   changeValues,
		"GET /entry/{id}/edit":           showEdit,
		"POST /entry/{id}/edit":          saveEdit,
		"GET /entry/{id}/move":           showMove,
		"POST /entry/{id}/move":          move,
		"GET /entry/{id}/delete":         showDelete,
		"POST /entry/{id}/delete":        remove,
		"GET /entry/{id}/password":       showPassword,
		"POST /entry/{id}/password":      setPassword,
		"GET /add":                       showAdd,
		"POST /add":                      add,
		"GET /me":                        showMe,
		"POST /me":                       changeMyPassword,
		"POST /me/check":                 checkPassword,
		"GET /me/code":                   showCode,
		"POST /me/code":                  changeCode,
		"GET /moments":                   showMoments,
		"GET /names":                     showNames,
		"POST /access":                   changeRules,
		"GET /schema":                    showSchema,
		"GET /servers":                   showServers,
		"GET /store":                     showStore,
		"GET /views":                     showViews,
		"GET /entry/{id}/history":        showHistory,
		"GET /entry/{id}/compare":        compareMoments,
		"GET /changes":                   showChanges,
		"GET /diff":                      showDiff,
		"GET /restore":                   restore,
		"POST /restore":                  restore,
		"GET /undo":                      undo,
		"POST /undo":                     undo,
		"GET /jobs":                      showJobs,
		"POST /jobs":                     changeJobs,
		"GET /operations":                showOperations,
		"GET /access":                    showAccess,
		"GET /accounts":                  showAccounts,
		"POST /accounts":                 unlock,
		"GET /branches":                  showBranches,
		"POST /branches":                 changeBranch,
		"/":                              notFound,
	}
}

func (c *Console) serveStatic(w http.ResponseWriter, r *http.Request) {
	a, ok := c.static[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Vary", "Accept-Encoding")
	body := a.body
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		body = a.zipped
	}
	w.Write(body) // an error means that the client is gone
}

// A place is the address of a request.
type place struct {
	r  *http.Request
	At string // the moment that the page shows, or "" for now
}

// A door runs the operations of a request, at the moment of its place.
type door struct {
	place
	*Console
	session *directory.Session
	client  web.Client

	Who string // the DN that is bound, or ""
}

// A visit is one request of a page.
type visit struct {
	door
	w      http.ResponseWriter
	status int    // of the answer; 0: OK
	Over   bool   // the ticket was not valid any more
	Notice string // what has been done, or why not
}

// A pageError is an error with its HTTP status.
type pageError struct {
	status int
	text   string
}

func (e *pageError) Error() string { return e.text }

func errorf(status int, format string, args ...any) error {
	return &pageError{status, fmt.Sprintf(format, args...)}
}

// page returns the handler of a page.
func (c *Console) page(show func(*visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, over, err := c.web.Session(w, r)
		if err != nil {
			http.Error(w, "The directory cannot be read now: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer session.Close()
		q := r.URL.Query()
		here := door{place{r, strings.TrimSpace(q.Get("at"))}, c, session, web.Client{Session: session, Trace: c.trace}, session.Name()}
		if slices.ContainsFunc(presentOnly, here.Under) {
			here.At = ""
		}
		v := &visit{door: here, w: w, Over: over, Notice: notices[q.Get("done")]}
		err = r.ParseForm()
		if err == nil || r.Method == http.MethodGet { // what is wrong in an address is left out
			err = show(v)
		}
		if err != nil {
			v.fail(err)
		}
	})
}

// presentOnly are the pages that show only what is now, or moments of their own.
var presentOnly = []string{"/me", "/login", "/reset", "/schema", "/servers", "/operations", "/jobs", "/access", "/branches", "/changes", "/diff", "/restore", "/undo", "/moments"}

// notices are what a page says after a change has led to it.
var notices = map[string]string{
	"saved": "The changes have been made.", "added": "The entry has been added.", "moved": "The entry has its new name.",
	"deleted": "The entry has been deleted.", "password": "The password has been changed.", "nothing": "Nothing was different, so nothing has been changed.",
	"value": "The value has been added.", "valuegone": "The value has been removed.", "out": "You have logged out.",
	"started": "The job has begun.", "canceled": "The job is being canceled.",
	"unlocked": "The account is unlocked.", "branch-make": "The branch has been made.", "branch-merge": "The branch has been merged: its changes are visible.",
	"branch-park": "The branch is parked.", "branch-discard": "The branch and its changes are gone.",
	"rules": "The rules have been changed, and are in force.", "valueunknown": "The value has been added. No entry that you may see has this name.",
	"restored": "The entry is as it was then.", "undone": "The change has been undone.",
	"codes": "From now on, type the code after your password when you log in.", "codesend": "You log in without codes again.",
}

// fail shows an error.
func (v *visit) fail(err error) {
	text := err.Error()
	var large *http.MaxBytesError
	switch {
	case v.problem(err, &text):
	case errors.As(err, &large):
		text = fmt.Sprintf("The upload is larger than %d MiB, and was not read. Nothing has changed.", large.Limit>>20)
		v.answer(http.StatusRequestEntityTooLarge)
	default:
		v.answer(http.StatusInternalServerError)
	}
	if v.Who == "" && (v.status == http.StatusForbidden || v.status == http.StatusNotFound) && v.r.Method == http.MethodGet {
		text += " Perhaps you may see it when you have logged in."
	}
	if v.Who != "" && v.status == http.StatusForbidden {
		text += " Ask who runs this directory."
	}
	part := "layout"
	if v.r.Header.Get("HX-Request") != "" { // htmx puts the answer into a list of the page
		part = "part"
	}
	title := http.StatusText(v.status)
	if v.status == http.StatusUnprocessableEntity {
		title = "Not possible"
	}
	v.write("error", part, title, text) // an error means that the client is gone
}

// problem puts what a page says of an error into text, and the status into the answer. It returns false for an
// error that is not about the request.
func (v *visit) problem(err error, text *string) bool {
	var result *op.Result
	var refused *pageError
	switch {
	case errors.As(err, &result):
		*text = explain(result)
		v.answer(statusOf(result.Code))
	case errors.As(err, &refused):
		*text = refused.text
		v.answer(refused.status)
	default:
		return false
	}
	return true
}

// statusOf returns the HTTP status for a result code.
func statusOf(c op.Code) int {
	switch c {
	case op.NoSuchObject:
		return http.StatusNotFound
	case op.InsufficientAccessRights, op.ConfidentialityRequired:
		return http.StatusForbidden
	case op.StrongerAuthRequired, op.InvalidCredentials:
		return http.StatusUnauthorized
	case op.Busy, op.Unavailable:
		return http.StatusServiceUnavailable
	case op.AssertionFailed, op.EntryAlreadyExists:
		return http.StatusConflict
	case op.Other, op.OperationsError:
		return http.StatusInternalServerError
	}
	return http.StatusUnprocessableEntity
}

// words are what results mean that come without a diagnostic.
var words = map[op.Code]string{
	op.NoSuchObject:             "There is no such entry, or you may not see it.",
	op.InsufficientAccessRights: "You may not do this.",
	op.InvalidCredentials:       "The name or the password is wrong.",
	op.NotAllowedOnNonLeaf:      "There are entries below this one.",
	op.EntryAlreadyExists:       "There is an entry with this name already.",
	op.TimeLimitExceeded:        "The search took longer than it may. Search for something more particular.",
	op.SizeLimitExceeded:        "There are more results than you may have at once. Search for something more particular.",
	op.AdminLimitExceeded:       "The search looked at more entries than it may. Search for something more particular.",
}

// explain returns a result in words.
func explain(r *op.Result) string {
	if r.Diagnostic != "" {
		return strings.ToUpper(r.Diagnostic[:1]) + r.Diagnostic[1:] + "."
	}
	if text, ok := words[r.Code]; ok {
		return text
	}
	return fmt.Sprintf("The directory has refused this with the result %d.", r.Code)
}

// answer sets the HTTP status of the page.
func (v *visit) answer(status int) { v.status = status }

// A view is what a template gets: the visit, a title and the data of the page.
type view struct {
	*visit
	Title string
	Data  any
}

// render writes a page.
func (v *visit) render(name, title string, data any) error {
	return v.write(name, "layout", title, data)
}

// write writes a template of a page: the layout, or a part for htmx.
func (v *visit) write(page, part, title string, data any) error {
	var b bytes.Buffer
	if err := v.pages[page].ExecuteTemplate(&b, part, view{v, title, data}); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(cmp.Or(v.status, http.StatusOK))
	v.w.Write(b.Bytes()) // an error means that the client is gone
	return nil
}

// redirect sends the client to another page, after a change.
func (v *visit) redirect(to string) error {
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

// Link returns the address of a page with parameters, which come in pairs. It keeps the moment that
// this page shows. Empty parameters are left out.
func (p *place) Link(path string, pairs ...string) string {
	if p.At != "" {
		pairs = append(pairs, "at", p.At)
	}
	return link(path, pairs...)
}

func link(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// Named returns the address of the entry with a name.
func (p *place) Named(dn string, pairs ...string) string {
	return p.Link("/entry/"+url.PathEscape("dn:"+dn), pairs...)
}

// Here returns the address of this page at another moment.
func (p *place) Here(at string) string {
	q := p.Query()
	if at != "" {
		q.Set("at", at)
	}
	if len(q) == 0 {
		return p.r.URL.EscapedPath()
	}
	return p.r.URL.EscapedPath() + "?" + q.Encode()
}

// Self returns the visit, for templates that pass it on.
func (v *visit) Self() *visit { return v }

// Whose returns the address of the entry that this page is a page of, or "".
func (p *place) Whose() string {
	if id := p.r.PathValue("id"); id != "" && p.r.URL.Path != "/entry/"+id {
		return "/entry/" + pathOf(id)
	}
	return ""
}

// Path returns the path of this page.
func (p *place) Path() string { return p.r.URL.EscapedPath() }

// Under reports whether this page is in a part of the console, for the navigation.
func (p *place) Under(prefix string) bool {
	return p.r.URL.Path == prefix || strings.HasPrefix(p.r.URL.Path, prefix+"/")
}

// IsAdmin reports whether the administrator is bound, who has other pages at hand. What may be done is
// the directory's to decide.
func (v *door) IsAdmin() bool { return v.Who != "" && v.Who == v.dir.Admin() }

// Query returns the parameters of this page except at, for forms that keep them.
func (p *place) Query() url.Values {
	q := p.r.URL.Query()
	for _, k := range []string{"at", "cookie", "done"} {
		q.Del(k)
	}
	return q
}

// schema returns the schema in force.
func (v *door) schema() *schema.Schema { return v.dir.Schema() }

// clock is the form of times on pages, which are in UTC.
const clock = "2006-01-02 15:04:05"

// ago returns a time with the time since then.
func ago(t time.Time) string {
	d := time.Since(t)
	switch {
	case d < 0:
		return ""
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

func notFound(v *visit) error {
	return errorf(http.StatusNotFound, "There is no page at %s.", v.r.URL.Path)
}
