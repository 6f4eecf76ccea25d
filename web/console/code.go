package console

import (
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/boombuler/barcode/qr"
	"github.com/pquerna/otp/totp"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/web"
)

// A codePage is the data of the page on which people make their account need one-time codes (TOTP).
type codePage struct {
	*Entry
	Has    bool // the account needs codes
	Secret string
	Size   int    // of the picture, in its dots
	Dots   string // the picture, as an SVG path
	Error  string
	May    bool // the access rules let the person set up codes
}

// Quiet returns the size of the picture with the margin that scanners need.
func (p *codePage) Quiet() int { return p.Size + 8 }

var base32Secret = base32.StdEncoding.WithPadding(base32.NoPadding)

// showCode shows the secret of codes that are to be set up, which is nowhere kept until a code confirms it.
func showCode(v *visit) error {
	if v.Who == "" {
		return v.redirect(link("/login", "to", "/me/code"))
	}
	return v.code(http.StatusOK, nil, "")
}

// code shows the page, with a new secret if there is none yet.
func (v *visit) code(status int, secret []byte, wrong string) error {
	e, err := v.base(v.Who, "*")
	if v.IsAdmin() && web.IsResult(err) {
		return v.render("code", "One-time codes", &codePage{})
	} else if err != nil {
		return err
	}
	p := &codePage{Entry: e, Has: needsCodes(e), Error: wrong}
	if !p.Has {
		host := v.r.Host
		if i := strings.LastIndexByte(host, ':'); i > 0 {
			host = host[:i]
		}
		key, err := totp.Generate(totp.GenerateOpts{Issuer: host, AccountName: e.Label(), SecretSize: 20, Secret: secret})
		if err != nil {
			return err
		}
		p.Secret = key.Secret()
		if p.Size, p.Dots, err = picture(key.URL()); err != nil {
			return err
		}
		if secret, err = base32Secret.DecodeString(p.Secret); err != nil {
			return err
		}
		err = v.try(&op.Modify{Name: e.DN, Changes: directory.RequireTOTP(e.DN, secret)}, permissive)
		if err != nil && !web.IsResult(err) {
			return err
		}
		p.May = err == nil
	}
	v.answer(status)
	return v.render("code", "One-time codes", p)
}

func needsCodes(e *Entry) bool {
	return slices.ContainsFunc(e.Strings("objectClass"), func(c string) bool { return strings.EqualFold(c, "oathTOTPUser") })
}

// picture returns a QR code as an SVG path of unit squares.
func picture(text string) (size int, path string, err error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return 0, "", err
	}
	var b strings.Builder
	size = code.Bounds().Dx()
	for y := range size {
		for x := range size {
			if r, _, _, _ := code.At(x, y).RGBA(); r == 0 {
				fmt.Fprintf(&b, "M%d %dh1v1h-1z", x, y)
			}
		}
	}
	return size, b.String(), nil
}

// permissive is the control with which changes that are already in effect are no errors.
var permissive = op.Control{OID: control.OIDPermissiveModify, Critical: true}

// changeCode makes the account need codes, if a code shows that the person has the secret; or no codes any more, if
// the password and a code show that it is the person.
func changeCode(v *visit) error {
	if v.Who == "" {
		return v.redirect(link("/login", "to", "/me/code"))
	}
	e, err := v.base(v.Who, "*")
	if err != nil {
		return err
	}
	f, secret, done := v.r.PostForm, []byte(nil), "codesend"
	request := &op.Modify{Name: e.DN, Changes: directory.DropTOTP()}
	if f.Has("end") {
		s, _, err := v.bind(&op.Bind{Version: 3, Name: v.Who, Password: []byte(f.Get("password") + strings.TrimSpace(f.Get("code")))})
		if err != nil {
			return v.code(http.StatusForbidden, nil, "The password or the code is wrong. Nothing has been changed.")
		}
		s.Close()
	} else {
		if secret, err = base32Secret.DecodeString(f.Get("secret")); err != nil || len(secret) < 20 {
			return errorf(http.StatusUnprocessableEntity, "The secret is not the one that the page has shown: begin again.")
		}
		if !totp.Validate(strings.ReplaceAll(f.Get("code"), " ", ""), f.Get("secret")) {
			return v.code(http.StatusUnprocessableEntity, secret, "The code is wrong. Nothing has been changed. Type the code that the application shows now; if it goes on, the clock of the device may be wrong.")
		}
		request.Changes, done = directory.RequireTOTP(e.DN, secret), "codes"
	}
	err = v.try(request, permissive)
	if err == nil {
		_, err = v.do(request, permissive)
	}
	var refused *op.Result
	if errors.As(err, &refused) {
		return v.code(statusOf(refused.Code), secret, explain(refused))
	}
	if err != nil {
		return err
	}
	return v.redirect("/me?done=" + done)
}
