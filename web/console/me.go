package console

import (
	"errors"
	"net/http"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/web"
)

// A mePage is the data of one's own page.
type mePage struct {
	*Entry // nil: one has no entry, or must change the password first
	User   []*Row
	Groups *found
	Error  string // of the form for the password
	Must   bool   // the password must be changed first
	Codes  bool   // the account needs one-time codes
}

func showMe(v *visit) error {
	if v.Who == "" {
		return v.redirect(link("/login", "to", "/me"))
	}
	return v.me(http.StatusOK, "")
}

// me shows one's own page, and what was wrong with a new password.
func (v *visit) me(status int, wrong string) error {
	p := &mePage{Error: wrong}
	e, more, err := v.whole("dn:" + v.Who)
	switch {
	case v.IsAdmin() && web.IsResult(err):
	case web.IsResult(err, op.InsufficientAccessRights):
		p.Must = true
	case err != nil:
		return err
	default:
		p.Entry = e
		p.User, _ = v.rowsOf(e, more)
		p.Codes = needsCodes(e)
		if p.Groups, err = v.groupsOf(e); err != nil {
			return err
		}
	}
	v.answer(status)
	return v.render("me", "Your page", p)
}

// changeMyPassword sets one's own password (RFC 3062), and binds again with it, because the ticket ends
// with the password.
func changeMyPassword(v *visit) error {
	if v.Who == "" {
		return v.redirect(link("/login", "to", "/me"))
	}
	old, new := v.r.PostForm.Get("old"), v.r.PostForm.Get("new")
	switch {
	case old == "" || new == "":
		return v.me(http.StatusUnprocessableEntity, "Type your present password, and the new one twice.")
	case new != v.r.PostForm.Get("again"):
		return v.me(http.StatusUnprocessableEntity, "The two new passwords are not the same.")
	}
	_, err := v.client.Do(v.r.Context(), &op.Extended{OID: control.OIDPasswordModify,
		Value: control.PasswordModify{Old: []byte(old), New: []byte(new)}.Encode()}, web.Answer{})
	var result *op.Result
	if errors.As(err, &result) {
		text := explain(result)
		if result.Code == op.InvalidCredentials {
			text = "The old password is wrong."
		}
		return v.me(statusOf(result.Code), text)
	}
	if err != nil {
		return err
	}
	s, _, err := v.bind(&op.Bind{Version: 3, Name: v.Who, Password: []byte(new)})
	if err != nil { // a second factor is needed, or the bind is not allowed
		v.web.LogOut(v.w, v.r)
		return v.redirect("/login?done=password")
	}
	defer s.Close()
	if err := v.web.LogIn(v.w, v.r, s); err != nil {
		return err
	}
	return v.redirect("/me?done=password")
}

// checkPassword says what the password policy has against a new password that somebody is typing. Nothing is set. The
// old password is not sent along: wrong ones would lock the account.
func checkPassword(v *visit) error {
	words, new := "", v.r.PostForm.Get("new")
	if v.Who != "" && new != "" {
		answer, err := v.client.Do(v.r.Context(), &op.Extended{OID: control.OIDPasswordModify, Value: control.PasswordModify{New: []byte(new)}.Encode()},
			web.Answer{}, op.Control{OID: control.OIDNoOp, Critical: true}, op.Control{OID: control.OIDPasswordPolicy})
		var result *op.Result
		switch {
		case !errors.As(err, &result):
			return err
		case result.Code == op.NoOperation:
			words = "This password can be used."
		case !policyError(answer, mustSupplyOld): // which the form will do
			words = explain(result)
		}
	}
	return v.write("me", "words", "", words)
}

// Errors of the password policy control (draft-behera-ldap-password-policy-11, 6.2).
const (
	passwordExpired = 0
	accountLocked   = 1
	mustSupplyOld   = 4
)

// policyError reports whether an answer has an error of the password policy control.
func policyError(r *op.Response, number byte) bool {
	c := r.Control(control.OIDPasswordPolicy)
	return c != nil && len(c.Value) > 2 && c.Value[len(c.Value)-1] == number
}

// A passwordPage is the data of the page that sets another's password.
type passwordPage struct {
	*Entry
	Error, Generated string
}

func showPassword(v *visit) error {
	e, err := v.subject(summary...)
	if err != nil {
		return err
	}
	return v.render("password", "Password of "+e.Label(), &passwordPage{Entry: e})
}

// setPassword sets the password of an entry. Without a new password, the server makes one.
func setPassword(v *visit) error {
	e, err := v.subject(summary...)
	if err != nil {
		return err
	}
	p := &passwordPage{Entry: e}
	request := control.PasswordModify{Identity: new("dn:" + e.DN)}
	if text := v.r.PostForm.Get("new"); text != "" {
		request.New = []byte(text)
	}
	answer, err := v.client.Do(v.r.Context(), &op.Extended{OID: control.OIDPasswordModify, Value: request.Encode()}, web.Answer{})
	switch {
	case err != nil:
		if !v.problem(err, &p.Error) {
			return err
		}
	case request.New != nil:
		return v.redirect(v.EntryLink(e) + "?done=password")
	default:
		r, err := control.ParsePasswordModifyResult(answer.Value)
		if err != nil {
			return err
		}
		p.Generated = string(r.Generated)
	}
	return v.render("password", "Password of "+e.Label(), p)
}

// HasPassword reports whether entries like this one have passwords.
func (v *door) HasPassword(e *Entry) bool {
	x := shapeOf(v.schema(), e.Strings("objectClass"))
	t := v.schema().Attribute("userPassword")
	return t != nil && (x.any || x.allows(t))
}
