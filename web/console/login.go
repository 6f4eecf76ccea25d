package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/web"
)

// A loginForm is the data of the page to log in at.
type loginForm struct {
	Name, To, Error string
	External        bool // the client has a certificate
}

func showLogin(v *visit) error {
	return v.render("login", "Log in", loginForm{To: v.r.URL.Query().Get("to"), External: v.hasCertificate()})
}

func (v *door) hasCertificate() bool { return v.r.TLS != nil && len(v.r.TLS.PeerCertificates) > 0 }

// bind binds a new session. The caller closes the session.
func (v *door) bind(b *op.Bind) (*directory.Session, *op.Response, error) {
	s := v.web.NewSession(v.r)
	r, err := web.Client{Session: s}.Do(v.r.Context(), b, web.Answer{}, op.Control{OID: control.OIDPasswordPolicy})
	if err != nil {
		s.Close()
		return nil, r, err
	}
	return s, r, nil
}

func logIn(v *visit) error {
	f := v.r.PostForm
	form := loginForm{Name: strings.TrimSpace(f.Get("name")), To: f.Get("to"), External: v.hasCertificate()}
	request := web.BindRequest(form.Name, f.Get("password"))
	switch {
	case f.Has("external"):
		request = &op.Bind{Version: 3, SASL: true, Mechanism: "EXTERNAL"}
	case form.Name == "" || f.Get("password") == "":
		form.Error = "Type your name and your password."
		return v.refuseLogin(http.StatusUnprocessableEntity, form)
	}
	s, answer, err := v.bind(request)
	var result *op.Result
	switch {
	case errors.As(err, &result) && result.Code == op.InvalidCredentials && result.Diagnostic == "":
		form.Error = "The name or the password is wrong." + policyWords(answer)
		return v.refuseLogin(http.StatusUnauthorized, form)
	case web.IsResult(err, op.AuthMethodNotSupported):
		form.Error = "Type your whole name, such as uid=ann,ou=people,dc=example,dc=com: short names need the SASL mechanism PLAIN, which is not offered here."
		return v.refuseLogin(http.StatusUnauthorized, form)
	case errors.As(err, &result):
		form.Error = explain(result)
		return v.refuseLogin(statusOf(result.Code), form)
	case err != nil:
		return err
	}
	defer s.Close()
	if err := v.web.LogIn(v.w, v.r, s); err != nil {
		return err
	}
	to := localPath(form.To)
	if answer.Diagnostic != "" { // the password must be changed first
		to = "/me"
	}
	return v.redirect(to)
}

func (v *visit) refuseLogin(status int, form loginForm) error {
	v.answer(status)
	return v.render("login", "Log in", form)
}

// policyWords returns what the password policy says of a failed bind.
func policyWords(r *op.Response) string {
	if r == nil {
		return ""
	}
	switch {
	case policyError(r, accountLocked):
		return " The account is locked, after too many wrong passwords: wait, or ask an administrator."
	case policyError(r, passwordExpired), r.Control(control.OIDPasswordExpired) != nil:
		return " The password has expired: ask an administrator for a new one."
	}
	return ""
}

// localPath returns an address of this server, so that a link cannot lead elsewhere after log in.
func localPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, `\`) {
		return "/"
	}
	return to
}

func logOut(v *visit) error {
	v.web.LogOut(v.w, v.r)
	return v.redirect("/login?done=out")
}

// confirmAfter is the time after a bind from which far-reaching changes ask for the password again.
const confirmAfter = 10 * time.Minute

// MustConfirm reports whether far-reaching changes need the password again.
func (v *door) MustConfirm() bool {
	since, _ := v.session.Resumed()
	return time.Since(since) > confirmAfter
}

// confirm verifies the password again, if the bind was long ago.
func (v *door) confirm(password string) error {
	if !v.MustConfirm() {
		return nil
	}
	s, _, err := v.bind(&op.Bind{Version: 3, Name: v.Who, Password: []byte(password)})
	if err != nil {
		return errorf(http.StatusForbidden, "The password is wrong. Nothing has been changed.")
	}
	s.Close()
	return nil
}

// home shows administrators what is where, and sends everyone else to their own page.
func home(v *visit) error {
	switch {
	case v.Who == "":
		return v.redirect("/login")
	case !v.IsAdmin():
		return v.redirect("/me")
	}
	names, own, err := v.roots()
	if err != nil {
		return err
	}
	contexts, err := v.seen(names)
	if err != nil {
		return err
	}
	trees, err := v.seen(own)
	if err != nil {
		return err
	}
	status, err := v.monitor()
	if err != nil {
		return err
	}
	return v.render("home", "Overview", struct {
		Contexts, Own []*Entry
		Status        []fact
	}{contexts, trees, status})
}
